"""A full disk, no more files, a folder that is read-only: one clear error, nothing lost, and no hand work after."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.broker.store.database import FILE_NAME, open_folder
from framework.broker.store.trouble import explained
from framework.errors import StoreError
from framework.wire.codes import ResponseCode
from tests.broker.broker_lab import BrokerLab, pull_command
from tests.broker.store_lab import folder_lab

ROOT = Path(__file__).parents[2]


def test_a_full_disk_refuses_what_does_not_fit_and_needs_nothing_but_room(tmp_path: Path) -> None:
    """SQLite's own limit of pages stands in for the disk's end: the error is the one that ENOSPC gives."""
    lab = BrokerLab(database=open_folder(tmp_path))
    pages = lab.database.writing.execute("PRAGMA page_count").fetchone()[0]
    lab.database.writing.execute(f"PRAGMA max_page_count = {pages + 60}")
    codes = [lab.send("t", b"%05d" % i + b"x" * 20_000) for i in range(30)]
    taken = [answer for answer in codes if answer.code == ResponseCode.SUCCESS]
    refused = [answer for answer in codes if answer.code != ResponseCode.SUCCESS]

    assert taken
    assert {ResponseCode.SERVICE_NOT_AVAILABLE} == {answer.code for answer in refused}
    assert "disk is full; no room on the disk: make room" in (refused[0].remark or "")
    assert ResponseCode.SUCCESS == lab.answer(pull_command(0)).code

    lab.database.writing.execute("PRAGMA max_page_count = 1000000")
    after = lab.send("t", b"after")
    records = lab.records("t")
    assert ResponseCode.SUCCESS == after.code
    assert list(range(len(taken) + 1)) == [record.queue_offset for record in records]
    assert b"after" == records[-1].body
    lab.store.close()


def test_the_system_s_own_refusal_at_the_commit_is_the_same(tmp_path: Path) -> None:
    """RLIMIT_FSIZE in a process of its own: the write-ahead log cannot grow, then may again."""
    program = f"""
import resource, sys
from pathlib import Path
from framework.broker.store.database import open_folder
from framework.errors import StoreError
from tests.broker.store_lab import folder_lab

lab = folder_lab(Path({str(tmp_path / "data")!r}))
lab.write("t", 0, b"before")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
outcomes = []
for i in range(40):
    outcome = lab.append("t", 0, b"x" * 20_000)
    lab.timers.turn()
    outcomes += outcome
texts = [str(each) for each in outcomes if isinstance(each, StoreError)]
stored = [each for each in outcomes if not isinstance(each, StoreError)]
assert texts and all("no room on the disk" in text for text in texts), outcomes
assert len(lab.texts("t", 0)) == 1 + len(stored)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert lab.write("t", 0, b"after")[0] == 1 + len(stored)
lab.store.close()
again = folder_lab(Path({str(tmp_path / "data")!r}))
found = again.texts("t", 0)
assert (found[0], found[-1], len(found)) == (b"before", b"after", 2 + len(stored))
again.store.close()
print("whole", len(stored), len(texts))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert (0, "whole") == (done.returncode, done.stdout.splitlines()[-1][:5]), done.stderr
    assert 1 == done.stdout.count("writes failed"), "one line, however many writes fail"


def test_no_more_files_is_said_so(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    spare = 3
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        while True:
            try:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for each in [opened.pop() for _ in range(spare)]:  # enough for the lock and the file, not for SQLite
            os.close(each)
        with pytest.raises(StoreError, match=r"Too many open files; raise the limit \(ulimit -n\)"):
            open_folder(tmp_path / "data")
    finally:
        for each in opened:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    lab = folder_lab(tmp_path / "data")  # nothing was left half made
    lab.write("t", 0, b"x")
    lab.store.close()


def test_a_read_only_folder_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    lab = folder_lab(folder)
    lab.write("t", 0, b"kept")
    lab.store.close()
    before = (folder / FILE_NAME).read_bytes()
    nobody = 65534
    is_root = os.geteuid() == 0
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
        if is_root:
            os.seteuid(nobody)
        with pytest.raises(StoreError, match="make this user the owner of the folder and its files"):
            open_folder(folder)
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)

    assert before == (folder / FILE_NAME).read_bytes()


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "Too many open files; raise the limit"),
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "make this user the owner of the folder and its files"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_the_system_s_errors_come_with_the_way_out(number: int, remedy: str) -> None:
    assert remedy in explained(OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("SQLITE_FULL", "make room"),
        ("SQLITE_IOERR_WRITE", "limit on file sizes"),
        ("SQLITE_READONLY_DBMOVED", "make both writable"),
        ("SQLITE_CORRUPT_INDEX", "restore the folder"),
        ("SQLITE_MISMATCH", "words"),
    ],
)
def test_sqlite_s_errors_come_with_the_way_out(name: str, remedy: str) -> None:
    error: Any = sqlite3.OperationalError("words")
    error.sqlite_errorname = name

    assert explained(error).startswith("words")
    assert remedy in explained(error)
