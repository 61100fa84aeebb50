"""Large batches: taken apart and written in steps, one at a time, whole or not at all; others go on meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

from framework.broker.handlers.send import STEP_MESSAGES
from framework.broker.request import Request
from framework.broker.store.database import open_folder
from framework.broker.store.writer import STEP_ROWS, Transaction
from framework.errors import StoreError
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab, send_command
from tests.broker.client_lab import FakeClient
from tests.wire import batches
from tests.wire.batches import BatchedMessage

COUNT = STEP_ROWS * 5 + 7


class _Patient(FakeClient):
    """A client whose turns the test gives."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[Generator[None, None, None]] = []

    def attend(self, work: Generator[None, None, None]) -> None:
        self.works.append(work)

    def turn(self) -> bool:
        """One step; whether it was not the last."""
        try:
            next(self.works[0])
        except StopIteration:
            self.works.pop(0)
            return False
        return True


def _batch(count: int = COUNT, **changes: Any) -> RemotingCommand:
    command = send_command(**changes)
    body = batches.encode(BatchedMessage(b"%d" % i, {"k": str(i)}) for i in range(count))
    return RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, {**command.fields, "m": "true"}, body)


def _serve(lab: BrokerLab, client: FakeClient, command: RemotingCommand) -> None:
    lab.dispatch.serve(Request(command, client, lab.node))


def _nothing_counted(lab: BrokerLab) -> bool:
    quotas = lab.dispatch._quotas
    return (
        (0, 0) == (quotas.writes, quotas.write_bytes)
        and not quotas._own
        and not any(each._is_busy for each in lab.dispatch._large.values())
    )


def test_a_large_batch_is_stored_whole_and_in_order_as_a_small_one_is() -> None:
    lab = BrokerLab()
    answer = lab.answer(_batch())

    assert (0, "0") == (answer.code, answer.fields["queueOffset"])
    assert COUNT == len(set(answer.fields["msgId"].split(",")))
    records = lab.records("t")
    assert [b"%d" % i for i in range(COUNT)] == [record.body for record in records]
    assert [str(i) for i in range(COUNT)] == [record.properties["k"] for record in records]
    assert _nothing_counted(lab)


def test_it_is_taken_apart_in_steps_and_others_are_served_between_them() -> None:
    lab, client = BrokerLab(), _Patient()
    _serve(lab, client, _batch())
    steps = 0
    while client.turn():
        steps += 1
        assert 0 == lab.send("other").code

    assert COUNT // STEP_MESSAGES + 1 == steps
    lab.timers.turn()
    assert [0] == [answer.code for answer in client.answers]


def test_it_is_written_in_steps_and_seen_by_nobody_before_its_end(tmp_path: Path) -> None:
    lab, client = BrokerLab(database=open_folder(tmp_path / "data")), FakeClient()
    lab.send()
    _serve(lab, client, _batch())
    seen = []
    while not client.answers:
        lab.timers.step()
        seen.append(len(lab.records("t")))

    assert {1, 1 + COUNT} == set(seen)
    assert len(seen) > COUNT // (STEP_ROWS + STEP_MESSAGES)
    lab.store.close()


def test_one_at_a_time_and_the_next_begins_when_the_last_is_on_disk() -> None:
    lab, clients = BrokerLab(), [_Patient() for _ in range(3)]
    for client in clients:
        _serve(lab, client, _batch())
    begun = [len(client.works) for client in clients]
    while clients[0].turn():
        pass
    handed_on = [len(client.works) for client in clients]
    lab.timers.turn()

    assert ([1, 0, 0], [0, 0, 0], [0, 1, 0]) == (begun, handed_on, [len(client.works) for client in clients])


def test_a_connection_that_ends_meanwhile_lets_the_next_one_begin_and_stores_nothing() -> None:
    for steps in (0, 2):
        lab, one, two = BrokerLab(), _Patient(), _Patient()
        for client in (one, two):
            _serve(lab, client, _batch())
        for _ in range(steps):
            assert one.turn()
        one.works.pop().close()
        while two.turn():
            pass
        lab.timers.turn()

        assert ([], [0]) == (one.answers, [answer.code for answer in two.answers])
        assert COUNT == len(lab.records("t"))
        assert _nothing_counted(lab)


def test_one_that_is_refused_in_the_middle_stores_nothing_and_lets_the_next_one_begin() -> None:
    lab = BrokerLab()
    bad = _batch()
    bad.body += batches.encode([BatchedMessage(b"")])
    half = _batch()
    half.body += batches.encode([BatchedMessage(b"x", {"TRAN_MSG": "true"})])

    assert (1, 16) == (lab.answer(bad).code, lab.answer(half).code)
    assert [] == lab.records("t")
    assert 0 == lab.answer(_batch()).code
    assert _nothing_counted(lab)


def test_a_change_in_steps_that_fails_late_takes_nothing_of_its_group_along() -> None:
    lab = BrokerLab()
    lab.send()
    told: list[str] = []

    def fail(transaction: Transaction) -> Generator[None, None, None]:
        for _ in range(3):
            transaction.append("broker-a", "t", 0, b"x" * 100, 0)
            yield
        raise StoreError("no")

    def put(transaction: Transaction) -> int:
        return transaction.append("broker-a", "u", 0, bytes(100), 0).offset

    lab.store.writer.submit(put, lambda _, error: told.append(f"put {error}"))
    lab.store.writer.submit(fail, lambda _, error: told.append(f"fail {error}"))
    lab.store.writer.submit(put, lambda _, error: told.append(f"again {error}"))
    lab.timers.turn()

    assert {"put None", "fail no", "again None"} == set(told)
    assert 0 == lab.send().code
    assert ["0", "1"] == [str(record.queue_offset) for record in lab.records("t")]


def test_a_broker_killed_in_the_middle_of_one_forgets_all_of_it(tmp_path: Path) -> None:
    lab, client = BrokerLab(database=open_folder(tmp_path / "data")), FakeClient()
    lab.send()
    _serve(lab, client, _batch())
    for _ in range(3):
        lab.timers.step()
    lab.store.close()
    again = BrokerLab(database=open_folder(tmp_path / "data"))

    assert [] == client.answers
    assert 1 == len(again.records("t"))
    again.store.close()


def test_a_query_by_key_reads_some_at_a_time_and_one_query_after_the_other() -> None:
    """Each may hold 8 MiB until it is answered."""
    lab, one, two = BrokerLab(), _Patient(), _Patient()
    for _ in range(10):
        lab.send(body=bytes(100_000), properties="KEYS\x01k\x02")
    fields = {"topic": "t", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
    for client in (one, two):
        _serve(lab, client, RemotingCommand(RequestCode.QUERY_MESSAGE, dict(fields)))
    steps = 0
    while one.turn():
        steps += 1
        assert [] == two.works
        assert 0 == lab.answer(_batch()).code, "writes wait for no reads"

    assert 4 == steps, "three of 256 KiB, and the index itself"
    assert 1_000_000 < len(one.answers[0].body)
    assert (1, []) == (len(two.works), two.answers)
    while two.turn():
        pass
    assert one.answers[0].body == two.answers[0].body
    assert _nothing_counted(lab)
