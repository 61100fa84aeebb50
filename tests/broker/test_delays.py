"""The schedule: once, never early, within the same millisecond here, in due order, and over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.broker.delays import Delays
from framework.broker.settings import BrokerSettings
from framework.broker.store.writer import Transaction
from framework.errors import StoreError
from framework.model.delay_levels import DELAYS_MS
from framework.model.reserved import SCHEDULE_TOPIC
from tests.broker.store_lab import Lab, fake_record, fake_text, folder_lab, memory_lab


class _Scheduled:
    """Delays on a lab's store; what is delivered is noted down with its time, and stored in topic `real`."""

    def __init__(self, lab: Lab, levels_ms: tuple[int, ...] = (1000, 5000, 10_000)) -> None:
        self.lab = lab
        self.delivered: list[tuple[int, bytes]] = []
        self.troubles: list[str] = []
        self.delays = Delays(
            lab.store,
            lab.timers,
            lab.clock,
            settings=BrokerSettings(delays_ms=levels_ms),
            deliver=self._deliver,
            trouble=self.troubles.append,
        )
        self.delays.start()

    def plan(self, text: bytes, level: int) -> None:
        def change(transaction: Transaction) -> int:
            stored = transaction.append("broker-a", SCHEDULE_TOPIC, level - 1, fake_record(text), 0)
            return self.delays.plan(transaction, stored, level)

        self.lab.store.writer.submit(change, lambda due_ms, _: self.delays.rounds.planned(due_ms))
        self.lab.timers.turn()

    def _deliver(self, transaction: Transaction, broker: str, record: bytes) -> None:
        self.delivered.append((self.lab.clock.ms, fake_text(record)))
        transaction.append(broker, "real", 0, record, 0)


def test_each_message_comes_at_its_time_and_once() -> None:
    scheduled = _Scheduled(memory_lab())
    begin = scheduled.lab.clock.ms
    for text, level in ((b"ten", 3), (b"one", 1), (b"five", 2)):
        scheduled.plan(text, level)
    scheduled.lab.timers.advance(60_000)

    assert scheduled.delivered == [(begin + 1000, b"one"), (begin + 5000, b"five"), (begin + 10_000, b"ten")]
    assert scheduled.lab.texts("real", 0) == [b"one", b"five", b"ten"]


def test_a_longer_wait_in_the_same_level_s_way_blocks_nobody() -> None:
    scheduled = _Scheduled(memory_lab())
    begin = scheduled.lab.clock.ms
    scheduled.plan(b"long", 3)
    scheduled.lab.timers.advance(100)
    scheduled.plan(b"short", 1)
    scheduled.lab.timers.advance(2000)

    assert scheduled.delivered == [(begin + 1100, b"short")]


def test_overdue_messages_come_after_a_restart_once_and_in_due_order(tmp_path: Path) -> None:
    scheduled = _Scheduled(folder_lab(tmp_path / "data"))
    begin = scheduled.lab.clock.ms
    for text, level in ((b"ten", 3), (b"one", 1), (b"later one", 1), (b"five", 2)):
        scheduled.plan(text, level)
    scheduled.delays.rounds.stop()
    scheduled.lab.store.close()

    lab = folder_lab(tmp_path / "data")
    lab.clock.ms = begin + 3_600_000
    again = _Scheduled(lab)
    lab.timers.advance(10)

    assert [text for _, text in again.delivered] == [b"one", b"later one", b"five", b"ten"]
    lab.timers.advance(60_000)
    assert lab.texts("real", 0) == [b"one", b"later one", b"five", b"ten"]
    lab.store.close()


def test_hundreds_that_fall_due_together_all_come() -> None:
    scheduled = _Scheduled(memory_lab())
    for i in range(450):
        scheduled.plan(b"%d" % i, 1)
    scheduled.lab.timers.advance(1500)

    assert [text for _, text in scheduled.delivered] == [b"%d" % i for i in range(450)]


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_of_the_wall_clock_neither_hurries_nor_delays(step_ms: int) -> None:
    """Leases, retries and delays follow no wall clock, for what was planned before the step and for what is planned
    after it.
    """
    scheduled = _Scheduled(memory_lab())
    clock = scheduled.lab.clock
    begin = clock.ms
    scheduled.plan(b"before", 2)
    scheduled.lab.timers.advance(1500)
    clock.skew_ms += step_ms
    scheduled.plan(b"after", 3)
    scheduled.lab.timers.advance(60_000)

    assert scheduled.delivered == [(begin + 5000, b"before"), (begin + 11_500, b"after")]


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_step_is_remembered_over_a_restart(tmp_path: Path, step_ms: int) -> None:
    """What waits was planned by the clock before the step; the next start must not take the step for time."""
    scheduled = _Scheduled(folder_lab(tmp_path / "data"))
    scheduled.plan(b"x", 3)
    scheduled.lab.clock.skew_ms += step_ms
    scheduled.lab.timers.advance(1000)
    scheduled.delays.rounds.stop()
    scheduled.lab.store.close()

    lab = folder_lab(tmp_path / "data")
    lab.clock.ms, lab.clock.skew_ms = scheduled.lab.clock.ms, step_ms
    again = _Scheduled(lab)
    lab.timers.advance(8999)
    assert again.delivered == []

    lab.timers.advance(1)
    assert [text for _, text in again.delivered] == [b"x"]
    lab.store.close()


def test_with_nothing_waiting_a_restart_begins_with_the_wall_clock(tmp_path: Path) -> None:
    scheduled = _Scheduled(folder_lab(tmp_path / "data"))
    scheduled.plan(b"x", 1)
    scheduled.lab.clock.skew_ms += 3_600_000
    scheduled.lab.timers.advance(5000)
    assert scheduled.delays.now_ms() == scheduled.lab.clock.ms
    scheduled.lab.store.close()

    lab = folder_lab(tmp_path / "data")
    lab.clock.skew_ms = 3_600_000
    assert _Scheduled(lab).delays.now_ms() == lab.clock.now_ms()
    lab.store.close()


@pytest.mark.parametrize("level", range(1, 19))
def test_each_of_the_eighteen_levels_comes_at_its_time(level: int) -> None:
    scheduled = _Scheduled(memory_lab(), DELAYS_MS)
    begin = scheduled.lab.clock.ms
    scheduled.plan(b"x", level)
    scheduled.lab.timers.advance(DELAYS_MS[level - 1] - 1)
    assert scheduled.delivered == []

    scheduled.lab.timers.advance(1)
    assert scheduled.delivered == [(begin + DELAYS_MS[level - 1], b"x")]


def test_a_failing_store_is_tried_again_and_delivers_once() -> None:
    scheduled = _Scheduled(memory_lab())
    scheduled.plan(b"x", 1)
    writer = scheduled.lab.store.writer
    submit, failures = writer.submit, [StoreError("disk is full")]

    def failing(change: Any, done: Any = None) -> None:
        if failures:
            done(None, failures.pop())
        else:
            submit(change, done)

    writer.submit = failing  # type: ignore[method-assign]  # the disk that fails once
    scheduled.lab.timers.advance(1500)
    assert scheduled.delivered == []
    assert "disk is full" in scheduled.troubles[0]

    scheduled.lab.timers.advance(1500)
    assert scheduled.lab.texts("real", 0) == [b"x"]


def test_a_damaged_message_is_held_and_reported_and_stops_nobody_else() -> None:
    scheduled = _Scheduled(memory_lab())
    scheduled.plan(b"bad", 1)
    scheduled.plan(b"good", 1)
    scheduled.lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE place = 0")
    scheduled.lab.timers.advance(5000)

    assert [text for _, text in scheduled.delivered] == [b"good"]
    assert len(scheduled.troubles) == 1
    assert "is damaged: held" in scheduled.troubles[0]


def test_levels_above_the_ladder_are_its_last() -> None:
    delays = _Scheduled(memory_lab()).delays

    assert [delays.level(wish) for wish in (-3, 0, 1, 3, 4, 99)] == [1, 1, 1, 3, 3, 3]
