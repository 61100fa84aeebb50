"""The store's promises: dense offsets, one commit for many, nothing heard before it is on disk, nothing half done."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from framework.broker.store.database import open_folder, open_given
from framework.broker.store.writer import Transaction
from framework.errors import StoreError
from framework.wire.ids import pack_host
from framework.wire.stored import Record, decode_records, encode_record
from tests.broker.store_lab import Lab, fake_offset, fake_record, folder_lab, memory_lab


def test_offsets_are_dense_and_places_are_byte_positions() -> None:
    lab = memory_lab()

    assert [lab.write("t", 0, b"a" * 10), lab.write("t", 0, b"b"), lab.write("t", 1, b"c")] == [
        (0, 0),
        (1, 82),
        (0, 155),
    ]
    assert [lab.texts("t", 0), lab.texts("t", 1)] == [[b"a" * 10, b"b"], [b"c"]]


def test_records_carry_the_offset_they_got() -> None:
    lab = memory_lab()
    for text in (b"a", b"b", b"c"):
        lab.write("t", 0, text)
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None

    found = lab.store.log.read(queue, 1, count_max=10, bytes_max=1000)

    assert [fake_offset(record) for record in found.records] == [1, 2]
    assert found.next_offset == 3


def test_writes_that_arrive_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path / "data", is_prompt=False)
    first = lab.append("t", 0, b"first")
    lab.timers.turn()
    others = [lab.append("t", 0, b"%d" % i) for i in range(50)]
    lab.timers.turn()

    assert len(lab.workers.jobs) == 1, "one commit at a time"
    assert first == []
    lab.workers.work()
    lab.timers.turn()
    lab.workers.work()

    assert first == [(0, 0)]
    assert [other[0][0] for other in others if isinstance(other[0], tuple)] == list(range(1, 51))
    assert lab.store.writer.groups == 2
    lab.store.close()


def test_nobody_sees_or_hears_of_a_message_before_its_commit(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path / "data", is_prompt=False)
    arrived: list[tuple[str, list[int]]] = []
    lab.store.writer.on_arrival = lambda queue, rows: arrived.append(
        (queue.topic, [tag for _, _, _, tag, _, _ in rows])
    )
    outcome = lab.append("t", 0, b"x", tag=7)
    lab.timers.turn()

    assert (outcome, arrived, lab.texts("t", 0)) == ([], [], [])
    lab.workers.work()

    assert (outcome, arrived, lab.texts("t", 0)) == ([(0, 0)], [("t", [7])], [b"x"])
    lab.store.close()


def test_a_crash_before_the_commit_leaves_nothing_and_one_after_it_everything() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    lab = Lab(open_given(lambda: connection), is_prompt=False)
    lab.append("t", 0, b"kept")
    lab.timers.turn()
    lab.workers.work()
    lab.timers.turn()
    lost = lab.append("t", 0, b"lost")
    lab.timers.turn()
    late = list(lab.workers.jobs)

    lab.store.abandon()
    connection.rollback()
    again = Lab(open_given(lambda: connection))
    for job, done in late:  # a commit that comes after the crash must not touch the next life
        job()
        done(None, None)

    assert lost == []
    assert again.texts("t", 0) == [b"kept"]
    assert again.write("t", 0, b"new") == (1, 76)
    assert again.texts("t", 0) == [b"kept", b"new"]


def test_a_full_disk_leaves_no_hole_and_fails_everybody_in_the_group() -> None:
    lab = memory_lab()
    lab.write("t", 0, b"a")
    first = lab.append("t", 0, b"b")
    failed: list[Any] = []

    def full(_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    lab.store.writer.submit(full, lambda result, error: failed.append(error))
    lab.timers.turn()

    assert isinstance(first[0], StoreError)
    assert "disk is full" in str(first[0])
    assert isinstance(failed[0], StoreError)
    assert lab.write("t", 0, b"c") == (1, 73)
    assert lab.texts("t", 0) == [b"a", b"c"]


@pytest.mark.parametrize("mistakes", [(0,), (3,), (6,), (0, 1, 5), tuple(range(7))])
@pytest.mark.parametrize(
    "error",
    [StoreError("not this one"), sqlite3.IntegrityError("taken"), sqlite3.DatabaseError("malformed"), KeyError("ours")],
)
def test_a_change_that_cannot_be_made_is_refused_alone(
    tmp_path: Path, mistakes: tuple[int, ...], error: Exception
) -> None:
    """Whatever it had written by then is undone; the others of its group go through, in order and without a hole."""
    lab = folder_lab(tmp_path / "data")
    lab.write("t", 0, b"before")
    outcomes: list[tuple[int, Any, Any]] = []

    def submit(number: int) -> None:
        def change(transaction: Transaction) -> int:
            stored = transaction.append("broker-a", "t" if number % 2 else "new", 0, fake_record(b"%d" % number), 0)
            if number in mistakes:
                transaction.flush()
                raise error
            return stored.offset

        lab.store.writer.submit(change, lambda result, error: outcomes.append((number, result, error)))

    for number in range(7):
        submit(number)
    for _ in range(len(mistakes) if isinstance(error, KeyError) else 0):
        with pytest.raises(KeyError):  # a mistake of ours is reported as well
            lab.timers.turn()
    lab.timers.turn()

    good = [number for number in range(7) if number not in mistakes]
    assert good == [number for number, _, refused in outcomes if refused is None]
    assert list(mistakes) == [number for number, _, refused in outcomes if isinstance(refused, StoreError)]
    assert [b"before"] + [b"%d" % number for number in good if number % 2] == lab.texts("t", 0)
    assert [b"%d" % number for number in good if not number % 2] == lab.texts("new", 0)
    lab.store.close()
    again = folder_lab(tmp_path / "data")
    assert [b"%d" % number for number in good if not number % 2] == again.texts("new", 0)
    again.store.close()


def test_many_changes_that_cannot_be_made_cost_the_others_one_run_more() -> None:
    lab = memory_lab()
    runs = [0] * 300

    def submit(number: int) -> None:
        def change(transaction: Transaction) -> None:
            runs[number] += 1
            if number % 2:
                raise StoreError("no")

        lab.store.writer.submit(change)

    for number in range(300):
        submit(number)
    lab.timers.turn()

    assert {1, 2} == set(runs)


def test_a_group_that_fails_with_a_new_queue_makes_the_queue_again() -> None:
    lab = memory_lab()
    lab.append("new", 3, b"x")
    lab.store.writer.submit(lambda _: (_ for _ in ()).throw(sqlite3.OperationalError("disk I/O error")))
    lab.timers.turn()

    assert lab.write("new", 3, b"y") == (0, 0)
    assert lab.store.database.writing.execute("SELECT topic, number FROM queues").fetchall() == [("new", 3)]


def test_a_mistake_in_a_change_is_reported_and_does_not_stop_the_writer() -> None:
    lab = memory_lab()
    lab.store.writer.submit(lambda _: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        lab.timers.turn()

    assert lab.write("t", 0, b"a") == (0, 0)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    lab = folder_lab(tmp_path / "data")
    for i in range(5):
        lab.write("t", i % 2, b"%d" % i)
    lab.store.close()

    again = folder_lab(tmp_path / "data")

    assert [again.texts("t", 0), again.texts("t", 1)] == [[b"0", b"2", b"4"], [b"1", b"3"]]
    assert again.write("t", 1, b"5") == (2, 365)
    again.store.close()


def test_store_time_never_goes_back_along_a_queue(tmp_path: Path) -> None:
    """Searching by time relies on it, also over a restart with the clock set back."""
    lab = folder_lab(tmp_path / "data")
    lab.write("t", 0, b"a")
    lab.store.close()
    again = Lab(open_folder(tmp_path / "data"), now_ms=1_600_000_000_000)
    again.write("t", 0, b"b")
    queue = again.store.queues.find("broker-a", "t", 0)
    assert queue is not None

    assert [again.store.log.stored_ms(queue, offset) for offset in (0, 1)] == [1_700_000_000_000] * 2
    again.store.close()


def test_a_large_group_is_cut_so_that_it_cannot_hold_the_loop() -> None:
    lab = memory_lab()
    outcomes = [lab.append("t", 0, b"x") for _ in range(4500)]
    lab.timers.turn()

    assert lab.store.writer.groups == 3
    assert [outcome[0][0] for outcome in outcomes if isinstance(outcome[0], tuple)] == list(range(4500))


def test_submitting_to_a_closed_store_is_answered_with_an_error() -> None:
    lab = memory_lab()
    lab.store.close()
    outcome: list[Any] = []

    lab.store.writer.submit(
        lambda t: t.append("b", "t", 0, fake_record(b""), 0), lambda _, error: outcome.append(error)
    )

    assert "closed" in str(outcome[0])


def test_a_listener_s_mistake_silences_nobody_else() -> None:
    lab = memory_lab()
    arrived: list[str] = []
    lab.store.writer.on_arrival = lambda queue, _: arrived.append(queue.topic)

    def mistaken(result: object, error: object) -> None:
        raise ZeroDivisionError

    lab.store.writer.submit(lambda t: t.append("broker-a", "t", 0, fake_record(b"a"), 0), mistaken)
    second = lab.append("u", 0, b"b")
    lab.timers.turn()

    assert second == [(0, 73)]
    assert arrived == ["t", "u"]
    assert lab.write("t", 0, b"c") == (1, 146)


def test_an_ipv6_sender_moves_the_store_time() -> None:
    """Its address is 12 bytes longer, and the store time stands behind it."""
    lab = memory_lab()
    record = encode_record(Record(topic="t", body=b"x", born_host=pack_host("::1", 5000)))
    lab.store.writer.submit(lambda t: t.append("broker-a", "t", 0, record, 0))
    lab.timers.turn()
    queue = lab.store.queues.find("broker-a", "t", 0)
    assert queue is not None
    (found,) = decode_records(lab.store.log.read(queue, 0, count_max=1, bytes_max=1).records[0])

    assert (found.stored_ms, found.born_host) == (lab.clock.ms, pack_host("::1", 5000))
