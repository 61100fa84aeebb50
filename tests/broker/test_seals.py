"""The check of each row of the small tables: a flipped bit is put right and named, and what is worse is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import framework.broker.store
from framework.broker.store import seals, sent_back
from framework.broker.store.database import APPLICATION_ID, FILE_NAME, open_folder
from framework.broker.store.delayed import HELD_MS
from framework.broker.store.sent_back import Key
from framework.errors import RecordDamaged, StoreError
from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode
from tests.broker.broker_lab import BrokerLab, pull_command, texts
from tests.broker.store_lab import folder_lab

SCHEMAS = Path(str(framework.broker.store.__file__)).parent


def filled(folder: Path) -> None:
    """A row in each of the tables."""
    lab = BrokerLab(database=open_folder(folder))
    for tag in ("A", "B", "C"):
        lab.send(properties=texts(TAGS=tag))
    lab.node.rules.group("billing")
    lab.node.offsets.put("billing", "t", 0, 2)
    lab.node.offsets.reset("audit", "t", 0, 1)
    lab.node.switches.put("autoCreateTopicEnable", "true")
    lab.node.locks.lock("billing", "a", [MessageQueue("t", "broker-a", 0)], lab.clock.monotonic_ms())
    lab.send(properties=texts(DELAY="3"))
    lab.store.writer.submit(lambda transaction: transaction.mark_end())
    lab.timers.turn()
    lab.store.close()


def tables(folder: Path) -> dict[str, list[Any]]:
    """What the tables say, row for row."""
    connection = sqlite3.connect(folder / FILE_NAME)
    names = ("queues", "topics", "consumer_groups", "offsets", "resets", "queue_locks", "named_values", "log_end")
    found = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}
    connection.close()
    return found


def test_flipped_bits_of_a_row_and_of_what_stands_around_it_are_put_right_or_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names, numbers and checks, and SQLite's own lengths in front of them."""
    source, target = tmp_path / "source", tmp_path / "damaged"
    filled(source)
    before = tables(source)
    whole = (source / FILE_NAME).read_bytes()
    rows = [whole.index(text) for text in (b"broker-abillingt", b"broker-aauditt")]
    target.mkdir(mode=0o700)
    outcomes: dict[str, int] = {"put right": 0, "named": 0, "unharmed": 0}
    for begin in rows:
        for bit in range((begin - 12) * 8, (begin + 24) * 8, 5):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            (target / FILE_NAME).write_bytes(damaged)
            try:
                open_folder(target).close()
            except StoreError:
                outcomes["named"] += 1
            else:
                assert before == tables(target), f"bit {bit}"
                outcomes["put right" if "bit flip repaired" in capsys.readouterr().out else "unharmed"] += 1
            for path in target.iterdir():
                path.unlink()

    assert outcomes["put right"] > 40, outcomes


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("offsets", "UPDATE offsets SET next_offset = next_offset + 1024"),
        ("resets", "UPDATE resets SET next_offset = next_offset + 2"),
        ("queues", "UPDATE queues SET low = low + 2 WHERE topic = 't'"),
        ("log_end", "UPDATE log_end SET stored_ms = stored_ms | (1 << 61)"),
        ("offsets", "UPDATE offsets SET consumer_group = 'billine' WHERE consumer_group = 'billing'"),
        ("named_values", "UPDATE named_values SET value = 'urue'"),
        ("topics", "UPDATE topics SET perm = 2 WHERE name = 't'"),
        ("consumer_groups", "UPDATE consumer_groups SET may_consume = 0 WHERE name = 'billing'"),
    ],
)
def test_one_flipped_bit_is_put_right_and_named(
    tmp_path: Path, name: str, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(tmp_path)
    before = tables(tmp_path)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert before != tables(tmp_path)

    open_folder(tmp_path).close()

    said = capsys.readouterr().out
    assert "bit flip repaired" in said
    assert f"table={name}" in said
    assert before == tables(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE offsets SET next_offset = 1",
        "UPDATE offsets SET consumer_group = 'shipping' WHERE consumer_group = 'billing'",
        "UPDATE resets SET seal = seal + 77",
    ],
)
def test_what_no_single_bit_explains_is_refused_by_name(tmp_path: Path, statement: str) -> None:
    filled(tmp_path)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute(statement)
    connection.commit()
    connection.close()

    with pytest.raises(StoreError, match=r"table of (offsets|resets): row .* is not what its check says.*restore"):
        open_folder(tmp_path)


def test_a_damaged_tag_is_named_and_what_is_sound_before_it_is_served(tmp_path: Path) -> None:
    """A pull by tag reads no record of what it passes over, so the tag has a check of its own."""
    lab = BrokerLab(database=open_folder(tmp_path))
    for tag in ("A", "B", "A", "B", "A"):
        lab.send(body=tag.encode(), properties=texts(TAGS=tag))
    lab.database.writing.execute("UPDATE messages SET tag = tag | 4096 WHERE id & 1099511627775 = 2")

    first = lab.answer(pull_command(0, subscription="A"))
    second = lab.answer(pull_command(2, subscription="A"))
    behind = lab.answer(pull_command(3, subscription="A"))

    assert (ResponseCode.SUCCESS, "2") == (first.code, first.fields["nextBeginOffset"])
    assert ResponseCode.SYSTEM_ERROR == second.code
    assert "message 2 of t@broker-a:0 is damaged" in (second.remark or "")
    assert (ResponseCode.SUCCESS, "5") == (behind.code, behind.fields["nextBeginOffset"])
    lab.store.close()


def test_a_damaged_store_time_sends_no_search_astray(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path)
    for text in (b"a", b"b", b"c"):
        lab.write("t", 0, text)
        lab.clock.ms += 1000
    lab.database.writing.execute("UPDATE messages SET stored_ms = stored_ms + (1 << 40) WHERE id & 1 = 1")
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None

    with pytest.raises(RecordDamaged, match="message 1 of t@broker-a:0"):
        lab.store.log.offset_at(queue, lab.clock.ms - 1000)
    lab.store.close()


@pytest.mark.parametrize("change", [-(1 << 20), 1 << 50])
def test_a_delay_whose_time_is_damaged_comes_neither_early_nor_silently_never(tmp_path: Path, change: int) -> None:
    lab = BrokerLab(database=open_folder(tmp_path))
    for body in (b"first", b"second"):
        lab.send(body=body, properties=texts(DELAY="3"))
    lab.database.writing.execute(
        "UPDATE delays SET due_ms = due_ms + ? WHERE place = (SELECT min(place) FROM delays)", (change,)
    )
    lab.store.close()

    again = BrokerLab(database=open_folder(tmp_path), skew_ms=0)
    again.timers.advance(60_000)

    assert [b"second"] == [record.body for record in again.records("t")]
    assert ["delayed message at 0: when it is due is damaged: held, not delivered"] == again.troubles
    assert [(HELD_MS, 0)] == again.database.writing.execute("SELECT due_ms, place FROM delays").fetchall()
    again.store.close()


def test_a_folder_of_version_5_keeps_the_checks_that_it_has(tmp_path: Path) -> None:
    """Its damage is found, not sealed; and a send-back that was done before is not repeated."""
    older = sqlite3.connect(tmp_path / FILE_NAME)
    for number in range(1, 6):
        name = "schema.sql" if number == 1 else f"schema_{number}.sql"
        older.executescript((SCHEMAS / name).read_text(encoding="utf-8"))
    older.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 5;")
    row = ("broker-a", "billing", "t", 0, 7)
    older.execute("INSERT INTO offsets VALUES (?, ?, ?, ?, ?, ?)", (*row[:-1], 3, seals.seal(row)))
    key = Key("broker-a", "billing", "origin", 0)
    older.execute("INSERT INTO sent_back VALUES (?, ?, ?, ?, 1, 0, 0, 0)", key)
    older.commit()
    older.close()

    lab = BrokerLab(database=open_folder(tmp_path))

    assert 7 == lab.node.offsets.get("billing", "t", 0)
    assert sent_back.is_repeated(lab.database.writing, key, 2)
    lab.store.close()


@pytest.mark.parametrize("version", range(1, 5))
def test_rows_of_every_version_without_checks_get_theirs(tmp_path: Path, version: int) -> None:
    older = sqlite3.connect(tmp_path / FILE_NAME)
    for number in range(1, version + 1):
        name = "schema.sql" if number == 1 else f"schema_{number}.sql"
        older.executescript((SCHEMAS / name).read_text(encoding="utf-8"))
    older.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};")
    older.execute("INSERT INTO queues (id, broker, topic, number) VALUES (1, 'broker-a', 't', 0)")
    older.execute("INSERT INTO offsets VALUES ('broker-a', 'billing', 't', 0, 7)")
    older.execute("INSERT INTO delays VALUES (1700000000000, 0)")
    older.execute("INSERT INTO sent_back VALUES ('broker-a', 'billing', 'origin', 0, 1)")
    older.commit()
    older.close()

    lab = BrokerLab(database=open_folder(tmp_path))

    assert 7 == lab.node.offsets.get("billing", "t", 0)
    assert [] == seals.check(lab.database.writing)
    assert ["delayed message at 0, due 1700000000000, is damaged: held, not delivered"] == _due(lab)
    lab.store.close()
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    connection.execute("UPDATE offsets SET next_offset = 3")
    connection.commit()
    connection.close()
    lab = BrokerLab(database=open_folder(tmp_path))
    assert 7 == lab.node.offsets.get("billing", "t", 0)
    lab.store.close()


def _due(lab: BrokerLab) -> list[str]:
    lab.timers.advance(2000)
    return lab.troubles


def test_tags_of_messages_of_an_older_version_are_believed_and_those_of_newer_ones_are_not(tmp_path: Path) -> None:
    """Until they are removed for their age messages without a check are found as before."""
    lab = folder_lab(tmp_path)
    for tag in (64, 65, 64):
        lab.write("t", 0, b"%d" % tag, tag=tag)
    rows = lab.database.writing.execute(
        "SELECT id, place, stored_ms, tag, checksum & 4294967295, record FROM messages"
    ).fetchall()
    lab.store.close()
    (tmp_path / FILE_NAME).unlink()
    older = sqlite3.connect(tmp_path / FILE_NAME)
    for name in ("schema.sql", "schema_2.sql", "schema_3.sql", "schema_4.sql"):
        older.executescript((SCHEMAS / name).read_text(encoding="utf-8"))
    older.execute("INSERT INTO queues (id, broker, topic, number) VALUES (1, 'broker-a', 't', 0)")
    older.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", rows)
    older.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    older.execute("PRAGMA user_version = 4")
    older.commit()
    older.close()

    for _ in range(2):
        lab = folder_lab(tmp_path)
        lab.write("t", 0, b"new", tag=64)
        queue = lab.store.queues.find("broker-a", "t", 0)
        assert queue is not None
        found = lab.store.log.read_tagged(queue, 0, [64], count_max=10, bytes_max=10_000)
        assert (queue.end, queue.end - 1) == (found.next_offset, len(found.records))
        lab.store.close()
    lab = folder_lab(tmp_path)
    lab.database.writing.execute("UPDATE messages SET checksum = checksum & 4294967295")
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None
    assert 3 == lab.store.log.read_tagged(queue, 0, [64], count_max=10, bytes_max=10_000).next_offset
    with pytest.raises(RecordDamaged, match="message 3"):
        lab.store.log.read_tagged(queue, 3, [64], count_max=10, bytes_max=10_000)
    lab.store.close()
