"""Reading the log: limits, tags, times, and damage that is seen and named."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from framework.broker.store.log import SCAN_MAX
from framework.broker.store.queues import Queue
from framework.broker.store.writer import Transaction
from framework.errors import RecordDamaged
from tests.broker.store_lab import Lab, fake_record, fake_text, memory_lab


def _filled(count: int, *, tags: int = 3, size: int = 10) -> tuple[Lab, Queue]:
    lab = memory_lab()
    for i in range(count):
        lab.append("t", 0, b"%0*d" % (size, i), tag=i % tags)
    lab.timers.turn()
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None
    return lab, queue


def test_a_read_stops_at_the_count() -> None:
    lab, queue = _filled(100)

    found = lab.store.log.read(queue, 90, count_max=5, bytes_max=1 << 20)

    assert (len(found.records), found.next_offset) == (5, 95)


def test_a_read_stops_before_the_bytes_run_out_but_gives_one_message() -> None:
    lab, queue = _filled(10, size=1000)

    assert lab.store.log.read(queue, 0, count_max=32, bytes_max=3300).next_offset == 3
    assert lab.store.log.read(queue, 0, count_max=32, bytes_max=100).next_offset == 1


def test_a_tagged_read_gives_what_matches_and_moves_past_the_rest() -> None:
    lab, queue = _filled(30)

    found = lab.store.log.read_tagged(queue, 0, {1}, count_max=4, bytes_max=1 << 20)

    assert [int(fake_text(record)) for record in found.records] == [1, 4, 7, 10]
    assert found.next_offset == 11


def test_a_tagged_read_that_finds_too_few_ends_behind_the_last_it_looked_at() -> None:
    lab, queue = _filled(30)

    assert lab.store.log.read_tagged(queue, 0, {2}, count_max=50, bytes_max=1 << 20).next_offset == 30
    assert lab.store.log.read_tagged(queue, 0, {9}, count_max=50, bytes_max=1 << 20) == ([], 30)


def test_a_tagged_read_looks_at_a_bounded_part() -> None:
    lab, queue = _filled(SCAN_MAX + 50)

    assert lab.store.log.read_tagged(queue, 0, {9}, count_max=5, bytes_max=1000).next_offset == SCAN_MAX


def test_a_tagged_read_stops_where_the_bytes_run_out() -> None:
    lab, queue = _filled(9, size=1000)

    found = lab.store.log.read_tagged(queue, 0, {0}, count_max=5, bytes_max=2500)

    assert (len(found.records), found.next_offset) == (2, 6)


@pytest.mark.parametrize("size", [1000, 10])
def test_a_tagged_read_takes_nothing_behind_the_message_that_had_no_room(size: int) -> None:
    """A smaller one behind it would move the reader past it: it would be lost."""
    lab = memory_lab()
    for i, each in enumerate((1000, 1000, 1000, size, size)):
        lab.write("t", 0, b"%0*d" % (each, i), tag=0)
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None

    found = lab.store.log.read_tagged(queue, 0, {0}, count_max=5, bytes_max=2500)

    assert ([0, 1], 2) == ([int(fake_text(record)) for record in found.records], found.next_offset)


@pytest.mark.parametrize(
    ("time_ms", "lower", "upper"),
    [(-5, 0, 0), (0, 0, 2), (5, 3, 2), (10, 3, 5), (29, 9, 8), (30, 9, 11), (31, 12, 11)],
)
def test_offsets_by_time_as_the_real_broker_finds_them(time_ms: int, lower: int, upper: int) -> None:
    """Runs of three messages at 0, 10, 20 and 30 ms: LOWER the run's first, UPPER its last."""
    lab = memory_lab()
    begin = lab.clock.ms
    for run in range(4):
        lab.clock.ms = begin + 10 * run
        for _ in range(3):
            lab.write("t", 0, b"")
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None

    assert lab.store.log.offset_at(queue, begin + time_ms) == lower
    assert lab.store.log.offset_at(queue, begin + time_ms, upper=True) == upper


@pytest.mark.parametrize(("time_ms", "lower", "upper"), [(-5, 2, 0), (20, 2, 2), (25, 3, 2), (99, 4, 3)])
def test_offsets_by_time_in_a_queue_that_has_lost_its_oldest(time_ms: int, lower: int, upper: int) -> None:
    lab = memory_lab()
    begin = lab.clock.ms
    for i in range(4):
        lab.clock.ms = begin + 10 * i
        lab.write("t", 0, b"")
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None
    queue.low = 2

    assert lab.store.log.offset_at(queue, begin + time_ms) == lower
    assert lab.store.log.offset_at(queue, begin + time_ms, upper=True) == upper


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE messages SET record = CAST(substr(record, 1, 80) || x'ff' AS BLOB) WHERE id = ?",
        "UPDATE messages SET checksum = checksum + 1 WHERE id = ?",
        "DELETE FROM messages WHERE id = ?",
    ],
)
def test_a_damaged_message_is_named_and_never_served_or_skipped(harm: str) -> None:
    lab, queue = _filled(10)
    lab.database.writing.execute(harm, (queue.base + 4,))

    with pytest.raises(RecordDamaged, match="message 4 of t@broker-a:0"):
        lab.store.log.read(queue, 4, count_max=32, bytes_max=1 << 20)


def test_sound_messages_before_a_damaged_one_are_served() -> None:
    lab, queue = _filled(10)
    lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE id = ?", (queue.base + 4,))

    assert lab.store.log.read(queue, 0, count_max=32, bytes_max=1 << 20).next_offset == 4
    assert lab.store.log.read_tagged(queue, 0, {0, 1, 2}, count_max=32, bytes_max=1 << 20).next_offset == 4


def test_a_record_that_moved_to_another_offset_is_damage() -> None:
    """A flipped bit in a row's key: the bytes and their checksum still match."""
    lab, queue = _filled(3)
    lab.database.writing.execute("DELETE FROM messages WHERE id = ?", (queue.base,))
    lab.database.writing.execute("UPDATE messages SET id = ? WHERE id = ?", (queue.base, queue.base + 2))

    with pytest.raises(RecordDamaged, match="message 0"):
        lab.store.log.read(queue, 0, count_max=1, bytes_max=1000)


def test_a_tagged_read_ends_before_a_record_that_moved_to_another_offset() -> None:
    """What stands behind it would be given again by the next read, which begins with it."""
    lab, queue = _filled(6, tags=1)
    lab.database.writing.execute("DELETE FROM messages WHERE id = ?", (queue.base + 2,))
    lab.database.writing.execute("UPDATE messages SET id = ? WHERE id = ?", (queue.base + 2, queue.base + 5))

    found = lab.store.log.read_tagged(queue, 0, {0}, count_max=32, bytes_max=1 << 20)

    assert ([0, 1], 2) == ([int(fake_text(record)) for record in found.records], found.next_offset)
    with pytest.raises(RecordDamaged, match="message 2"):
        lab.store.log.read_tagged(queue, 2, {0}, count_max=32, bytes_max=1 << 20)


def test_a_message_is_found_by_its_place() -> None:
    lab, queue = _filled(3)

    found = lab.store.log.at_place(82 * 2)

    assert found is not None
    assert (found[0], fake_text(found[1])) == (queue, b"0000000002")
    assert lab.store.log.at_place(83) is None
    assert lab.store.log.at_place(-1) is None


def test_a_damaged_message_is_not_found_by_its_place_either() -> None:
    lab, queue = _filled(3)
    lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE id = ?", (queue.base + 1,))

    with pytest.raises(RecordDamaged, match="message 1 of"):
        lab.store.log.at_place(82)


def test_a_message_is_found_by_key_and_by_place_once_it_is_committed_and_not_before() -> None:
    """Its writer may still undo it. A store in memory reads what it has not committed, so the log must look."""
    lab, seen = memory_lab(), list[tuple[list[bytes], bool]]()

    def look() -> None:
        found = [fake_text(each[1]) for each in lab.store.log.with_key_hash(7, 0, lab.clock.ms) if each is not None]
        seen.append((found, lab.store.log.at_place(place) is not None))

    def writes(transaction: Transaction) -> Generator[None, None, None]:
        transaction.append("broker-a", "t", 0, fake_record(b"second"), 0, [7])
        yield  # the rest of the change comes later; its rows are in the table by then
        look()

    lab.store.writer.submit(lambda t: t.append("broker-a", "t", 0, fake_record(b"first"), 0, [7]), None)
    lab.timers.turn()
    place = len(fake_record(b"first"))
    lab.store.writer.submit(writes, None)
    lab.timers.turn()
    look()

    assert [([b"first"], False), ([b"second", b"first"], True)] == seen
