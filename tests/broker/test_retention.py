"""How long messages are kept, in virtual time: 48 hours, and 75, 85 and 90 % of the disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from framework.broker.settings import BrokerSettings
from framework.broker.store.database import open_folder
from framework.broker.store.expired import STEP_BYTES, STEP_ROWS
from framework.ports import DiskUsage
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab, pull_command, send_back_command, texts
from tests.broker.store_lab import Lab

HOUR_MS = 3_600_000
LOOK_MS = 10_000


def lab_of(folder: Path, **settings: Any) -> BrokerLab:
    lab = BrokerLab(database=open_folder(folder / "data"), settings=BrokerSettings(**settings))
    lab.retention.start()
    lab.timers.turn()
    return lab


def bounds(lab: Lab, topic: str = "t") -> tuple[int, int]:
    queue = lab.store.queues.find("broker-a", topic, 0)
    assert queue is not None
    return queue.low, queue.end


def rows(lab: Lab) -> int:
    (count,) = lab.database.reading.execute("SELECT count(*) FROM messages").fetchone()
    return int(count)


def used(lab: Lab, percent: float) -> None:
    """Somebody fills the disk, or makes room."""
    lab.usage = DiskUsage(int(percent * 1_000_000), 100_000_000)


def test_messages_are_kept_for_48_hours_and_no_more_than_one_longer(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    for _ in range(3):
        lab.send("t")
    lab.timers.advance(2 * HOUR_MS)
    lab.send("t")

    lab.timers.advance(46 * HOUR_MS - LOOK_MS)
    assert ((0, 4), 4) == (bounds(lab), rows(lab))
    lab.timers.advance(HOUR_MS + 2 * LOOK_MS)

    assert ((3, 4), 1) == (bounds(lab), rows(lab))
    lab.store.close()


def test_a_consumer_below_the_lowest_offset_is_told_the_new_one(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    for _ in range(3):
        lab.send("t")
    old = lab.records("t")[0]
    lab.timers.advance(49 * HOUR_MS)
    lab.send("t")

    moved, found = lab.answer(pull_command(1)), lab.answer(pull_command(3))

    assert (ResponseCode.PULL_OFFSET_MOVED, "3", "3", "4") == (
        moved.code,
        *(moved.fields[name] for name in ("nextBeginOffset", "minOffset", "maxOffset")),
    )
    assert (ResponseCode.SUCCESS, "4") == (found.code, found.fields["nextBeginOffset"])
    assert ResponseCode.SYSTEM_ERROR == lab.answer(send_back_command(old)).code
    lab.store.close()


def test_a_queue_that_was_emptied_goes_on_where_it_was_also_after_a_restart(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    for _ in range(3):
        lab.send("t")
    place = lab.store.writer.place
    lab.timers.advance(50 * HOUR_MS)
    assert ((3, 3), 0) == (bounds(lab), rows(lab))
    lab.store.close()

    again = lab_of(tmp_path)
    assert ((3, 3), place) == (bounds(again), again.store.writer.place)
    again.send("t")
    assert [3] == [record.queue_offset for record in _from(again, 3)]
    again.store.close()


def _from(lab: BrokerLab, start: int) -> list[Any]:
    from framework.wire.stored import decode_records

    return decode_records(lab.answer(pull_command(start)).body)


def test_from_75_percent_on_what_is_too_old_goes_within_ten_seconds(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.timers.advance(HOUR_MS // 2)
    lab.send("t")
    lab.timers.advance(48 * HOUR_MS + LOOK_MS)
    used(lab, 74)
    lab.timers.advance(2 * LOOK_MS)
    assert (0, 1) == bounds(lab)

    used(lab, 75)
    lab.timers.advance(LOOK_MS)
    lab.send("t")
    lab.timers.advance(10 * LOOK_MS)

    assert (1, 2) == bounds(lab)
    lab.store.close()


def test_from_85_percent_on_the_oldest_go_whatever_their_age_and_the_newest_stay(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, log_kept_bytes=3000)
    for i in range(20):
        lab.send("t" if i % 2 else "u", b"x" * 1000)
    used(lab, 84)
    lab.timers.advance(2 * LOOK_MS)
    assert 20 == rows(lab)

    used(lab, 85)
    lab.timers.advance(2 * LOOK_MS)

    assert ((9, 10), (9, 10), 2) == (bounds(lab, "t"), bounds(lab, "u"), rows(lab))
    lab.store.close()


def test_force_ends_as_soon_as_there_is_room(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, log_kept_bytes=0)
    count = 4 * STEP_BYTES // 60_000
    for _ in range(count):
        lab.send("t", b"x" * 60_000)
    total = 100_000_000
    lab.usage = DiskUsage(int(0.85 * total) + STEP_BYTES // 2, total)
    lab.timers.advance(LOOK_MS)

    low, end = bounds(lab)
    assert 0 < low < end
    assert lab.store.disk_ratio() < 0.85
    assert [low] == [record.queue_offset for record in _from(lab, low)][:1]
    lab.store.close()


def test_from_90_percent_on_sends_are_refused_reading_goes_on_and_no_restart_is_needed(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.send("t")
    used(lab, 89)
    lab.timers.advance(LOOK_MS)
    assert ResponseCode.SUCCESS == lab.send("t").code
    used(lab, 90)
    lab.timers.advance(LOOK_MS)

    refused = lab.send("t")
    back = lab.answer(send_back_command(lab.records("t")[0]))

    assert (ResponseCode.SERVICE_NOT_AVAILABLE, True) == (
        refused.code,
        "the broker's disk is full [CL:  0.90 CQ:  0.90 INDEX:  0.90]" in (refused.remark or ""),
    )
    assert (ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE") == (back.code, back.remark)
    assert ResponseCode.SUCCESS == lab.answer(pull_command(0)).code
    used(lab, 60)
    lab.timers.advance(LOOK_MS)
    assert ResponseCode.SUCCESS == lab.send("t").code
    lab.store.close()


def test_what_waits_for_its_delay_is_kept_however_full_the_disk_is(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, log_kept_bytes=0)
    lab.send("t")
    lab.send("t", b"later", properties=texts(DELAY="18"))
    lab.send("u")
    used(lab, 86)
    lab.timers.advance(LOOK_MS)
    assert (1, 1) == bounds(lab)

    used(lab, 50)
    lab.timers.advance(2 * HOUR_MS)

    assert [b"later"] == [record.body for record in _from(lab, 1)]
    lab.store.close()


def test_what_waits_longer_than_messages_are_kept_comes_all_the_same(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.send("t", b"later", properties=texts(TIMER_DELAY_SEC="259200"))
    lab.timers.advance(71 * HOUR_MS)
    assert 1 == rows(lab)
    lab.timers.advance(HOUR_MS)

    assert [b"later"] == [record.body for record in lab.records("t")]
    lab.store.close()


def test_the_administrator_s_wish_is_done_at_once(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    lab.timers.advance(HOUR_MS // 2)
    lab.send("t")
    lab.timers.advance(48 * HOUR_MS + 60_000)
    assert (0, 1) == bounds(lab)

    lab.answer(RemotingCommand(RequestCode.DELETE_EXPIRED_COMMITLOG))

    assert ((1, 1), 0) == (bounds(lab), rows(lab))
    lab.store.close()


def test_a_crash_between_raising_the_offset_and_removing_the_rows_leaves_nothing_behind(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    for _ in range(STEP_ROWS + 10):
        lab.append("t", 0, b"x")
    lab.timers.turn()
    lab.clock.ms += 49 * HOUR_MS
    lab.retention.clean()
    lab.timers.step()  # one step of several
    assert ((STEP_ROWS, STEP_ROWS + 10), STEP_ROWS + 10) == (bounds(lab), rows(lab))
    lab.store.close()

    again = lab_of(tmp_path)
    assert STEP_ROWS == bounds(again)[0]
    again.clock.ms += 49 * HOUR_MS
    again.retention.clean()
    again.timers.turn()

    assert ((STEP_ROWS + 10, STEP_ROWS + 10), 0) == (bounds(again), rows(again))
    again.store.close()


@pytest.mark.parametrize("old", [0, 3])
def test_messages_that_are_too_young_are_not_looked_at(old: int) -> None:
    """Counted in steps of SQLite's machine: some ten for each row that is looked at."""
    lab = BrokerLab()
    for _ in range(old):
        lab.append("t", 0, b"old")
    lab.timers.turn()
    lab.clock.ms += 49 * HOUR_MS
    for _ in range(2000):
        lab.append("t", 0, b"young")
    lab.timers.turn()
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    lab.database.writing.set_progress_handler(step, 1)
    lab.retention.clean()
    lab.timers.turn()
    lab.database.writing.set_progress_handler(None, 1)

    assert (old, old + 2000) == bounds(lab)
    assert 0 < steps < 1000


_FLIPPED = "record = CAST(substr(record, 1, {0}) || x'{1}' || substr(record, {0} + 2) AS BLOB)"


@pytest.mark.parametrize(
    ("flip", "offset"),
    [
        # the row's time, of a young message and of an old one; 2**40 ms are 35 years
        ("stored_ms = stored_ms - (1 << 40)", 3),
        ("stored_ms = stored_ms + (1 << 41)", 1),
        # the time in the record, likewise
        (_FLIPPED.format(58, "00"), 3),
        (_FLIPPED.format(58, "03"), 1),
        # the offset in the record
        (_FLIPPED.format(26, "01"), 1),
    ],
)
def test_one_flipped_bit_neither_takes_young_messages_along_nor_keeps_old_ones(flip: str, offset: int) -> None:
    lab = BrokerLab()
    for _ in range(3):
        lab.send("t")
    lab.timers.advance(49 * HOUR_MS)
    for _ in range(5):
        lab.send("t")
    assert 1 == lab.database.writing.execute(f"UPDATE messages SET {flip} WHERE id & 0xff = {offset}").rowcount

    lab.retention.clean()
    lab.timers.turn()

    assert ((3, 8), 5) == (bounds(lab), rows(lab))


def test_a_row_that_says_it_stands_elsewhere_takes_nothing_along_even_under_force(tmp_path: Path) -> None:
    """As where an index leads to the wrong row: the last message seems to be the last of those that go."""
    lab = lab_of(tmp_path, log_kept_bytes=25_000)
    for _ in range(5):
        lab.send("t", b"x" * 10_000)
    lab.database.writing.execute("UPDATE messages SET place = 25000 WHERE id & 0xff = 4")
    used(lab, 86)
    lab.timers.advance(LOOK_MS)

    assert ((3, 5), 2) == (bounds(lab), rows(lab))
    lab.store.close()


def test_keys_of_removed_messages_go_along(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    for _ in range(3):
        lab.send("t", properties=texts(KEYS="k"))
    lab.timers.advance(50 * HOUR_MS)
    lab.send("t", properties=texts(KEYS="k"))
    lab.timers.advance(49 * HOUR_MS)
    lab.send("t", properties=texts(KEYS="k"))
    lab.timers.advance(LOOK_MS)

    (count,) = lab.database.reading.execute("SELECT count(*) FROM message_keys").fetchone()
    assert count <= 2  # the youngest of those that went may have shared its row with one that stays
    lab.store.close()


@pytest.mark.parametrize(("count", "size"), [(3 * STEP_ROWS, 200), (12, 4 * 1024 * 1024)])
def test_no_step_holds_writers_for_50_ms(tmp_path: Path, count: int, size: int) -> None:
    lab = lab_of(tmp_path)
    for i in range(count):
        lab.append("t", i % 16, b"x" * size)
    lab.timers.turn()
    lab.clock.ms += 49 * HOUR_MS
    held: list[float] = []
    lab.retention.clean()
    while rows(lab):
        before = time.thread_time()
        lab.timers.step()
        held.append(time.thread_time() - before)

    assert len(held) >= 3
    assert max(held) < 0.05
    lab.store.close()
