"""`deploy/systemd`: read as systemd reads it, and what the unit starts is run here."""

from __future__ import annotations

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
