"""The data folder: whose it is, who may open it, and what is refused with a clear word."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import framework.broker.store
from framework.broker.store.database import APPLICATION_ID, FILE_NAME, SCHEMA_VERSION, open_folder
from framework.broker.store.topics import StoredGroup, load_groups
from framework.errors import StoreError
from tests.broker.store_lab import folder_lab


def test_folder_and_files_are_nobody_else_s(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path / "data")
    lab.write("t", 0, b"a")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}

    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert modes == {"broker.db": 0o600, "broker.db-wal": 0o600, "broker.db-shm": 0o600, "broker.lock": 0o600}
    lab.store.close()


def test_a_second_broker_on_the_folder_is_refused(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path / "data")
    program = (
        "from pathlib import Path; from framework.broker.store.database import open_folder;"
        f" open_folder(Path({str(tmp_path / 'data')!r}))"
    )

    second = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert second.returncode == 1
    assert "is in use by another broker" in second.stderr
    lab.store.close()


def test_the_folder_is_free_again_after_closing(tmp_path: Path) -> None:
    for _ in range(2):
        folder_lab(tmp_path / "data").store.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a database at all, but long enough to be read as one" * 20, "not a readable database"),
        (b"x", "not a readable"),
    ],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)

    with pytest.raises(StoreError, match=message):
        open_folder(tmp_path)


def test_a_foreign_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / FILE_NAME)
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    before = (tmp_path / FILE_NAME).read_bytes()

    with pytest.raises(StoreError, match="not a broker's"):
        open_folder(tmp_path)

    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path)
    lab.database.writing.execute("PRAGMA user_version = 99")
    lab.store.close()

    with pytest.raises(StoreError, match="newer version"):
        open_folder(tmp_path)


def test_a_flipped_bit_in_the_header_is_called_damage_and_nobody_s_version(tmp_path: Path) -> None:
    """All bits but those that SQLite itself counts up and does not look at: each is named, or means nothing."""
    folder_lab(tmp_path).store.close()
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    said: dict[str, int] = {}
    for bit in range(100 * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            open_folder(tmp_path).close()
        except StoreError as error:
            said[str(error)] = bit // 8
        for name in (f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
            (tmp_path / name).unlink(missing_ok=True)

    assert {60, 68} <= {byte & ~3 for byte in said.values()}
    assert [] == [(byte, text) for text, byte in said.items() if "restore the folder" not in text or "newer" in text]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_database_that_is_empty_where_there_were_messages_is_refused(is_gone: bool, tmp_path: Path) -> None:
    """SQLite would begin a new one, and nobody would hear that everything is lost."""
    folder_lab(tmp_path).store.close()
    path = tmp_path / FILE_NAME
    path.unlink()
    if not is_gone:
        path.touch()

    with pytest.raises(StoreError, match=r"but a broker kept messages here; restore the folder from a copy"):
        open_folder(tmp_path)
    assert path.exists() is not is_gone


def test_so_is_one_of_an_older_broker_that_left_a_log_of_writes(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    (tmp_path / f"{FILE_NAME}-wal").write_bytes(b"x")

    with pytest.raises(StoreError, match="is empty, but a broker kept messages here"):
        open_folder(tmp_path)


def test_a_start_that_was_killed_before_there_was_a_database_begins_anew(tmp_path: Path) -> None:
    for name in (FILE_NAME, "broker.lock"):
        (tmp_path / name).touch()
    lab = folder_lab(tmp_path)

    assert 0 == lab.store.writer.place
    lab.store.close()


@pytest.mark.parametrize(
    ("mode", "file_mode", "events"),
    [
        (0o755, 0o600, []),
        (0o777, 0o600, ["data folder permissions tightened"]),
        (0o770, 0o600, ["data folder permissions tightened"]),
        (0o700, 0o666, ["database permissions tightened"]),
        (0o700, 0o640, ["database permissions tightened"]),
        (0o777, 0o666, ["data folder permissions tightened", "database permissions tightened"]),
    ],
)
def test_what_was_open_to_others_is_closed_and_named(
    mode: int, file_mode: int, events: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder_lab(folder).store.close()
    folder.chmod(mode)
    (folder / FILE_NAME).chmod(file_mode)
    with capture_logs() as lines:
        open_folder(folder).close()

    assert events == [line["event"] for line in lines]
    assert all(line["mode"] != line["now"] and "restore it from a copy" in line["remedy"] for line in lines)
    assert (0o700, 0o600) == (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE((folder / FILE_NAME).stat().st_mode))


def test_an_older_store_is_brought_up_to_date_and_keeps_what_it_has(tmp_path: Path) -> None:
    schema = Path(str(framework.broker.store.__file__)).with_name("schema.sql").read_text(encoding="utf-8")
    older = sqlite3.connect(tmp_path / FILE_NAME)
    older.executescript(f"{schema}PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;")
    older.execute("INSERT INTO consumer_groups VALUES ('broker-a', 'g', 1, 1, 1, 16, 1)")
    older.commit()
    older.close()

    lab = folder_lab(tmp_path)
    assert lab.database.writing.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert load_groups(lab.database.writing, "broker-a").get("g") == StoredGroup(name="g")
    lab.store.close()


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(StoreError, match="symbolic link"):
        open_folder(tmp_path / "link")


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    with pytest.raises(StoreError, match="data folder"):
        open_folder(tmp_path / "data")


def test_an_open_folder_is_closed_to_others_when_it_is_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    open_folder(tmp_path).close()

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_damaged_table_of_queues_is_a_store_error(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path)
    for i in range(200):
        lab.append("t", i, b"x" * 500)
    lab.timers.turn()
    lab.store.close()
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[4096 : 20 * 4096] = b"\xff" * (19 * 4096)
    path.write_bytes(content)

    with pytest.raises(StoreError):
        folder_lab(tmp_path)
