"""What the machine may lack under `framework-app broker`: each time one clear error and its exit code, nothing that was
acknowledged lost, and no hand work after. All with the command itself, as a process.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from framework.broker.store.database import FILE_NAME
from framework.cli.exit_codes import ExitCode
from framework.wire import frame
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import decode_records
from tests.broker.broker_lab import pull_command, send_command
from tests.cli.processes import ROOT, command
from tests.wire.frames import decode_frame

# Imported first: a process that may not read our folders any more could not do it later.
PROGRAM = """
import os, resource, sys
from framework.cli import main, quick_start
quick_start.import_structlog()
import framework.broker.server, framework.net.real_world, framework.runtime.logs.setup, framework.runtime.signals
{before}
sys.exit(main.run({arguments!r}))
"""


def run(folder: Path, *arguments: str, before: str = "") -> tuple[int, str]:
    """The command under a limit of its own: how it ended and what it said."""
    program = PROGRAM.format(before=before, arguments=["broker", *arguments])
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr


def the_error(said: str) -> str:
    """All that was said is one error, and where more stands about it."""
    line, hint = said.splitlines()
    assert hint.startswith("hint: framework-app explain FA-")
    return line


class Client:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._stream = self._socket.makefile("rb")

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        self._socket.sendall(frame.encode(request))
        return decode_frame(self._stream.read(int.from_bytes(self._stream.read(4))))

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def address_of(line: str) -> str:
    return line.split("namesrv=")[1].split(maxsplit=1)[0]


def starts_and_ends(folder: Path) -> None:
    """No hand work: the folder is as good as ever."""
    with command("broker", "--data", "box", folder=folder) as broker:
        broker.until("broker: ready")
        assert 0 == broker.end()


def test_a_disk_that_fills_refuses_sends_serves_reads_and_needs_nothing_but_room(tmp_path: Path) -> None:
    """A limit on the size of its files, put on the running process and taken away again, as the system's refusal."""
    texts: list[bytes] = []

    def send(client: Client, text: bytes) -> RemotingCommand:
        answer = client.ask(send_command(body=text))
        if answer.code == ResponseCode.SUCCESS:
            texts.append(text)
        return answer

    with command("broker", "--data", "box", folder=tmp_path) as broker:
        client = Client(address_of(broker.until("broker: ready")))
        for i in range(5):
            assert ResponseCode.SUCCESS == send(client, b"before %d" % i).code
        soft, hard = resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE)
        log = tmp_path / "box" / f"{FILE_NAME}-wal"
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 200_000, hard))
        answers = [send(client, b"%d " % i + b"x" * 30_000) for i in range(20)]
        refused = [answer for answer in answers if answer.code != ResponseCode.SUCCESS]

        assert refused
        assert {ResponseCode.SERVICE_NOT_AVAILABLE} == {answer.code for answer in refused}
        assert "no room on the disk: make room" in (refused[-1].remark or "")
        assert ResponseCode.SUCCESS == client.ask(pull_command(0)).code
        resource.prlimit(broker.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        assert ResponseCode.SUCCESS == send(client, b"after").code
        client.close()
        assert 0 == broker.end()

    with command("broker", "--data", "box", folder=tmp_path) as broker:
        client = Client(address_of(broker.until("broker: ready")))
        stored: list[bytes] = []
        while (answer := client.ask(pull_command(len(stored)))).code == ResponseCode.SUCCESS:
            stored += [record.body for record in decode_records(answer.body)]
        client.close()
        assert 0 == broker.end()
    assert texts == stored


def test_a_disk_without_room_at_the_start_is_73(tmp_path: Path) -> None:
    code, said = run(
        tmp_path, "--data", "box", before="resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))"
    )

    assert ExitCode.TAKEN == code
    line = the_error(said)
    assert re.match(r"error: .*box.*no room on the disk: make room", line)
    starts_and_ends(tmp_path)


@pytest.mark.parametrize("limit", [6, 9, 12])
def test_too_few_files_at_the_start_is_73(tmp_path: Path, limit: int) -> None:
    """Wherever they run out: at an import, at the database, at the port."""
    code, said = run(
        tmp_path, "--data", "box", before=f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))"
    )

    assert ExitCode.TAKEN == code
    line = the_error(said)
    assert line.startswith("error: ")
    assert "Too many open files; raise the limit (ulimit -n)" in line
    starts_and_ends(tmp_path)


def test_a_read_only_folder_is_73_and_stays_as_it_was(tmp_path: Path) -> None:
    starts_and_ends(tmp_path)
    folder = tmp_path / "box"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    nobody, is_root = 65_534, os.geteuid() == 0
    if is_root:  # to whom nothing is read-only
        for each in [folder, *folder.iterdir()]:
            os.chown(each, nobody, nobody)
        for each in [tmp_path, *tmp_path.parents]:
            if each != Path("/") and not each.stat().st_mode & 1:
                each.chmod(each.stat().st_mode | 0o011)
    for each in folder.iterdir():
        each.chmod(0o400)
    folder.chmod(0o500)
    try:
        # The first run fails as well, at once: what is imported on the way is there when nobody may import any more.
        changed = f"main.run(['broker', '--data', '/dev/null/box']); os.seteuid({nobody})" if is_root else ""
        code, said = run(tmp_path, "--data", "box", before=changed)
    finally:
        folder.chmod(0o700)
        for each in folder.iterdir():
            each.chmod(0o600)
            os.chown(each, os.geteuid(), os.getegid())
        os.chown(folder, os.geteuid(), os.getegid())

    assert ExitCode.TAKEN == code, said
    line = said.splitlines()[-2]
    assert re.match(r"error: data folder box: .*make this user the owner of the folder and its files", line)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    starts_and_ends(tmp_path)


def test_a_folder_of_a_newer_version_is_73_and_stays_as_it_was(tmp_path: Path) -> None:
    starts_and_ends(tmp_path)
    connection = sqlite3.connect(tmp_path / "box" / FILE_NAME)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (tmp_path / "box" / FILE_NAME).read_bytes()

    code, said = run(tmp_path, "--data", "box")

    assert ExitCode.TAKEN == code
    line = the_error(said)
    assert re.match(r"error: .*written by a newer version \(schema 99, ours is \d+\); upgrade", line)
    assert before == (tmp_path / "box" / FILE_NAME).read_bytes()


def test_a_second_writer_and_a_port_that_is_taken_are_73_and_harm_nobody(tmp_path: Path) -> None:
    with command("broker", "--data", "box", folder=tmp_path) as first:
        address = address_of(first.until("broker: ready"))
        client = Client(address)
        assert ResponseCode.SUCCESS == client.ask(send_command(body=b"first's")).code

        second, about_the_folder = run(tmp_path, "--data", "box")
        third, about_the_port = run(tmp_path, "--data", "other", "--port", address.rpartition(":")[2])

        assert (ExitCode.TAKEN, ExitCode.TAKEN) == (second, third)
        assert (
            "error: data folder box is in use by another broker; stop it or name another folder [FA-B001]\n"
            "hint: framework-app explain FA-B001\n" == about_the_folder
        )
        assert (
            f"error: {address}: another process listens there; end it, or choose another port [FA-B002]\n"
            "hint: framework-app explain FA-B002\n" == about_the_port
        )
        assert ResponseCode.SUCCESS == client.ask(send_command(body=b"still")).code
        client.close()
        assert 0 == first.end()
