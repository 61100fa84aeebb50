"""What rides with other writes is bound by bytes as well as by rows: removing deleted topics, and what falls due."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.broker.store import delayed, dropped
from framework.broker.store.database import open_folder
from framework.errors import StoreError
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab, send_command, texts

LARGE = 4_000_000
DELETE = RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})


@pytest.fixture
def lab(tmp_path: Path) -> BrokerLab:
    return BrokerLab(database=open_folder(tmp_path / "data"))


def held(lab: BrokerLab) -> tuple[int, int]:
    """How many messages the table has, and their bytes."""
    count, size = lab.database.writing.execute(
        "SELECT count(*), ifnull(sum(length(record)), 0) FROM messages"
    ).fetchone()
    return count, size


def test_large_messages_of_a_deleted_topic_go_few_at_a_time(lab: BrokerLab) -> None:
    """One body of 4 MiB a step, or two of a MiB, or as many small ones as ever."""
    sizes = [LARGE] * 2 + [1_000_000] * 5 + [1] * 1200
    for size in sizes:
        lab.send(body=b"x" * size)
    queue = lab.node.queue("t", 0)
    assert queue is not None
    lab.store.writer.submit(lambda transaction: dropped.drop(transaction, [queue]))
    lab.timers.turn()

    steps: list[tuple[int, int]] = []
    before = held(lab)
    while dropped.clean(lab.database.writing):
        after = held(lab)
        steps.append((before[0] - after[0], before[1] - after[1]))
        before = after

    assert (0, 0) == before
    assert all(count == 1 or size <= dropped.STEP_BYTES for count, size in steps), steps
    assert [1, 1] == [count for count, _ in steps[:2]]
    assert all(count <= dropped.STEP_ROWS for count, _ in steps)
    assert 10 >= len(steps), "small ones still go by hundreds"
    lab.store.close()


def test_large_messages_that_fall_due_together_are_delivered_few_at_a_time_and_in_order(lab: BrokerLab) -> None:
    sizes = [1, LARGE, 1_000_000, 900_000, 1_000_000, *[10] * 50]
    for number, size in enumerate(sizes):
        lab.ask(send_command(body=b"%d " % number + b"x" * size, properties=texts(DELAY="1")))
    taken: list[int] = []
    take_due = delayed._due

    def watched(*arguments: object) -> object:
        found = take_due(*arguments)  # type: ignore[arg-type]
        taken.append(sum(len(row[5]) for row in found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delayed, "_due", watched)
        lab.timers.advance(1000)

    assert [b"%d" % number for number in range(len(sizes))] == [
        record.body.partition(b" ")[0] for record in lab.records("t")
    ]
    assert all(size <= delayed.TAKE_BYTES or size < LARGE + 1000 for size in taken), taken
    assert 4 <= len([size for size in taken if size]) <= 6
    lab.store.close()


def test_a_deletion_meets_another_s_mistake_in_its_group(lab: BrokerLab) -> None:
    """The group is undone and run again without the other: the topic is gone all the same, and not half of it."""
    lab.send(body=b"old")
    refused: list[object] = []

    def mistake(_: object) -> None:
        raise StoreError("not this one")

    lab.dispatch.serve(lab.request(DELETE))
    lab.store.writer.submit(mistake, lambda _, error: refused.append(error))
    lab.timers.turn()

    assert 0 == lab.client.answers[-1].code
    assert 1 == len(refused)
    assert (0, 0) == held(lab)
    lab.send(body=b"anew")
    assert [b"anew"] == [record.body for record in lab.records("t")]
    lab.store.close()
