"""`deploy/systemd`: read as systemd reads it, and what the unit starts is run here."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framework.cli.exit_codes import ExitCode
from tests.deploy import files
from tests.deploy.pods import Process, send
from tests.deploy.services import Service
from tests.docs import words
from tests.patience import wait_until

Started = Callable[[Process], Process]
PAGE = (files.ROOT / "docs/deploy/systemd.md").read_text()


def test_systemd_takes_it(tmp_path: Path) -> None:
    assert ["Unit", "Service", "Install"] == list(files.unit())
    (start,) = files.unit()["Service"]["ExecStart"]
    assert words.mistake(start) is None
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return  # a machine without systemd has the sections and the command looked at, as above
    (tmp_path / files.UNIT.name).write_text(files.UNIT.read_text().replace(shlex.split(start)[0], sys.executable))
    # Whatever is wrong with this machine's own units is not about ours.
    verified = subprocess.run(
        [tool, "verify", str(tmp_path / files.UNIT.name)], capture_output=True, text=True, check=False
    )

    assert [] == [line for line in verified.stderr.splitlines() if files.UNIT.name in line]


def test_a_stop_has_the_time_that_it_takes(tmp_path: Path) -> None:
    settings = files.settings_of(files.UNIT.with_name(files.SETTINGS).read_text(), tmp_path)

    assert float(files.unit()["Service"]["TimeoutStopSec"][0]) > files.stop_s(settings)


def test_the_application_knows_when_it_is_killed() -> None:
    service = files.unit()["Service"]

    assert f"FRAMEWORK_APP__APP__KILLED_AFTER={service['TimeoutStopSec'][0]}s" in service["Environment"]


def test_only_the_parent_gets_the_signal_and_no_restart_repeats_a_mistake() -> None:
    service = files.unit()["Service"]
    assert ["mixed"] == service["KillMode"]
    assert ["on-failure"] == service["Restart"]
    never = {int(code) for code in service["RestartPreventExitStatus"][0].split()}
    assert {ExitCode.USAGE, ExitCode.CONFIGURATION} == never


def test_what_an_outage_ends_is_tried_again_for_as_long_as_it_lasts() -> None:
    assert ["0"] == files.unit()["Unit"]["StartLimitIntervalSec"]
    assert int(files.unit()["Service"]["RestartSec"][0]) > 0


def test_it_may_do_little() -> None:
    """systemd's own measure, 0 to 10: below 2 nothing is left that a process with sockets and files can be denied."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        return
    command = [tool, "security", "--offline=yes", "--threshold=20", str(files.UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout


def test_the_page_makes_the_user_and_each_place_that_the_unit_names_and_asks_as_that_user() -> None:
    """Its folder of sockets is that user's alone: root itself finds no application there."""
    service = files.unit()["Service"]
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    (user,), (start,) = service["User"], service["ExecStart"]
    command, *_, settings = shlex.split(start)
    asking = [line for line in shell.splitlines() if re.search(r"framework-app (check|health)", line)]

    assert re.search(rf"^sudo useradd .* {user}$", shell, re.MULTILINE)
    assert f"venv {Path(command).parents[1]}\n" in shell
    assert f" {settings}\n" in shell
    assert f"{service['WorkingDirectory'][0]}/orders.py\n" in shell
    assert f"/etc/systemd/system/{files.UNIT.name}\n" in shell
    for line in re.findall(r"^sudo install .* (deploy/\S+) ", shell, re.MULTILINE):
        assert (files.ROOT / line).is_file(), line
    assert 2 == len(asking)
    assert all(line.startswith(f"sudo -u {user} ") for line in asking)


def test_what_it_keeps_is_in_the_folder_that_it_may_write(tmp_path: Path) -> None:
    """ProtectSystem=strict leaves it nothing else, and ProtectHome no home."""
    service = files.unit()["Service"]
    settings = files.settings_of(files.UNIT.with_name(files.SETTINGS).read_text(), tmp_path)
    assert ["strict"] == service["ProtectSystem"]
    (state,) = service["StateDirectory"]
    for each in (settings.progress, settings.once, settings.broadcasting):
        assert Path(each.folder).is_relative_to(f"/var/lib/{state}")
    assert f"XDG_RUNTIME_DIR=/run/{service['RuntimeDirectory'][0]}" in service["Environment"]


def test_the_unit_s_command_reads_its_settings_anew_and_drains(box: str, tmp_path: Path, started: Started) -> None:
    process = Service("host-1", tmp_path, box)
    started(process)
    lines = tmp_path / "tmp" / "lines"

    process.wait_until_it_is_ready()
    send(box, b"17")
    wait_until(lambda: "done " in lines.read_text(), "a message")
    process.settings.write_text(process.settings.read_text().replace("drain: 30s", "drain: 20s"))
    assert ["/bin/kill -HUP $MAINPID"] == process.unit["ExecReload"]
    process.signal(signal.SIGHUP)
    wait_until(lambda: '"setting": "app.drain"' in process.said(), "the edit")
    assert 0 == process.stop()
    assert '"member": "host-1@' in process.said(), "its name in the group is the machine's"


def test_a_start_with_wrong_settings_ends_with_a_code_that_the_unit_does_not_start_again(
    tmp_path: Path, started: Started
) -> None:
    folders: dict[str, Any] = {"/opt/order-desk": tmp_path, "/etc/order-desk": tmp_path / "etc"}
    folders["/etc/order-desk"].mkdir()
    (tmp_path / "etc" / "framework-app.yaml").write_text("app: {nmae: desk}\n")
    service = files.unit()["Service"]
    process = started(Process(shlex.split(service["ExecStart"][0]), tmp_path, mounts=folders, environment={}))

    assert str(process.end()) in service["RestartPreventExitStatus"][0].split()
