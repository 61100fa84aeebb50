"""Where queues end, once the last row of one is not found by its key: known by the index of places, and by notes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from framework.broker.store import ends
from framework.broker.store.database import FILE_NAME
from framework.errors import RecordDamaged
from tests.broker.store_lab import Lab, folder_lab

ELSEWHERE = 5 << 40


def filled(folder: Path, count: int, *, queues: int = 2) -> None:
    lab = folder_lab(folder)
    for i in range(count):
        for number in range(queues):
            lab.write("t", number, b"text %d" % i)
    lab.store.close()


def execute(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def move_in_the_table_alone(folder: Path, key: str) -> None:
    """Change a row's key as a flipped bit does: the index goes on naming the old one."""
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        (root, sql) = connection.execute(
            "SELECT rootpage, sql FROM sqlite_schema WHERE name = 'messages_by_place'"
        ).fetchone()
        hide = "DELETE FROM sqlite_schema WHERE name = 'messages_by_place'"
        connection.executescript(f"PRAGMA writable_schema = ON; {hide}")
    execute(folder, f"UPDATE messages SET id = id + {ELSEWHERE} WHERE id = ({key})")
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('index', ?, 'messages', ?, ?)",
            ("messages_by_place", root, sql),
        )


LAST_OF_FIRST = "SELECT max(id) FROM messages WHERE id < (2 << 40)"


def end_of(lab: Lab, number: int) -> int:
    queue = lab.store.queues.find("broker-a", "t", number)
    assert queue is not None
    return queue.end


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_last_message_that_went_elsewhere_is_missed(
    tmp_path: Path, is_noted: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The queue does not end before it, so no other message takes its offset."""
    monkeypatch.setattr(ends, "CHANGES_BETWEEN", 6 if is_noted else 1_000)
    filled(tmp_path, 20)
    move_in_the_table_alone(tmp_path, LAST_OF_FIRST)
    lab = folder_lab(tmp_path)

    said = capsys.readouterr().out
    assert all(text in said for text in ("messages missing", "offset=19", "count=1"))
    assert (20, 20) == (end_of(lab, 0), end_of(lab, 1))
    with pytest.raises(RecordDamaged, match=r"message 19 of t@broker-a:0 is damaged: missing"):
        lab.texts("t", 0, 19)
    lab.write("t", 0, b"next")
    assert [b"next"] == lab.texts("t", 0, 20)
    lab.store.close()


def test_the_notes_alone_know_what_came_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ends, "CHANGES_BETWEEN", 1)
    filled(tmp_path, 20)
    execute(tmp_path, f"DELETE FROM messages WHERE id = ({LAST_OF_FIRST})")
    lab = folder_lab(tmp_path)

    assert "messages missing" in capsys.readouterr().out
    assert 20 == end_of(lab, 0)
    lab.store.close()


@pytest.mark.parametrize("between", [1, 7, 1_000])
def test_nothing_is_missed_where_nothing_is_lacking(
    tmp_path: Path, between: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ends, "CHANGES_BETWEEN", between)
    for round_ in range(1, 4):
        filled(tmp_path, 10, queues=round_)

    lab = folder_lab(tmp_path)
    assert "messages missing" not in capsys.readouterr().out
    assert [30, 20, 10] == [end_of(lab, number) for number in range(3)]
    lab.store.close()


def test_a_new_queue_never_has_the_id_of_one_that_was_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the note of a deleted queue would be taken for its own."""
    monkeypatch.setattr(ends, "CHANGES_BETWEEN", 1)
    filled(tmp_path, 5, queues=3)
    execute(tmp_path, "DELETE FROM queues WHERE id = 3", "DELETE FROM messages WHERE id >= 3 << 40")
    lab = folder_lab(tmp_path)
    lab.write("t", 2, b"new")

    assert 1 == end_of(lab, 2)
    lab.store.close()
    lab = folder_lab(tmp_path)
    assert 1 == end_of(lab, 2)
    lab.store.close()


def test_a_note_of_a_group_that_failed_is_made_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "CHANGES_BETWEEN", 3)
    lab = folder_lab(tmp_path)
    riders = ends.Ends(lab.database.writing, lab.store.queues)
    riders.saved(committed=False)
    lab.write("t", 0, b"text")
    execute_in = lab.database.writing.execute
    execute_in("BEGIN IMMEDIATE")
    riders.save(lab.database.writing)
    execute_in("COMMIT")

    assert [("1",)] == execute_in("SELECT value FROM named_values WHERE scope = 'ends' AND name = '1'").fetchall()
    lab.store.close()
