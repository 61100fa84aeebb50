"""What popping keeps: over a restart, a clock that is set, a write that fails, an offset that others set meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.broker.store.database import open_folder
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.broker.client_lab import FakeClient
from tests.broker.pop_lab import ack, bodies, fill, make, pop, pop_command, receipts


def test_a_restart_forgets_neither_who_holds_what_nor_where_the_group_is(folder: Path) -> None:
    lab = make(database=open_folder(folder))
    fill(lab, b"a", b"b", b"c")
    found = pop(lab, max_msg_nums=2, invisible_time=10_000)
    ack(lab, found[0][1])
    lab.store.close()

    lab = make(database=open_folder(folder))
    assert bodies(pop(lab)) == [b"c"]
    lab.timers.advance(10_100)
    assert bodies(pop(lab)) == [b"b"]
    lab.store.close()


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_was_set_before_a_restart_hides_no_message_longer_or_shorter(folder: Path, step_ms: int) -> None:
    """What is held was given its time by the clock before the step, though nothing is delayed beside it."""
    lab = make(database=open_folder(folder))
    fill(lab, b"a")
    assert bodies(pop(lab, invisible_time=10_000)) == [b"a"]
    lab.clock.skew_ms += step_ms
    lab.timers.advance(2_000)
    lab.store.close()

    again = make(database=open_folder(folder), skew_ms=step_ms)  # two seconds earlier: each lab begins anew
    again.timers.advance(9_000)
    assert bodies(pop(again)) == []
    again.timers.advance(2_000)
    assert bodies(pop(again)) == [b"a"]
    again.store.close()


def test_a_write_that_fails_loses_no_message() -> None:
    """The offset falls back with the rows: what nobody was given is popped again."""
    lab = make()
    fill(lab, b"a", b"b")
    lab.database.writing.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON popped BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
    )
    assert lab.answer(pop_command(lab)).code == ResponseCode.SYSTEM_ERROR
    assert lab.answer(pop_command(lab)).code == ResponseCode.SYSTEM_ERROR
    lab.database.writing.execute("DROP TRIGGER full")

    assert bodies(pop(lab)) == [b"a", b"b"]


def test_two_pops_on_their_way_to_the_disk_never_share_a_message() -> None:
    lab = make()
    fill(lab, *(b"%d" % i for i in range(6)))
    clients = [FakeClient(f"c@{i}") for i in range(3)]
    for client in clients:
        lab.dispatch.serve(lab_request(lab, pop_command(lab, max_msg_nums=2), client))
    lab.timers.turn()

    assert [bodies(receipts(client.answers[0])) for client in clients] == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"]]


def lab_request(lab: BrokerLab, command: RemotingCommand, client: FakeClient) -> Any:
    from framework.broker.request import Request

    return Request(command, client, lab.node)


def test_an_offset_set_meanwhile_is_not_overwritten() -> None:
    lab = make()
    fill(lab, b"a", b"b")
    client = FakeClient("c@1")
    lab.dispatch.serve(lab_request(lab, pop_command(lab), client))
    lab.node.offsets.put("g", "t", 0, 1)
    lab.timers.turn()

    assert client.answers[0].code == ResponseCode.POLLING_TIMEOUT
    assert bodies(pop(lab)) == [b"b"]


@pytest.mark.parametrize("moved", [0, 1])
def test_an_offset_set_meanwhile_loses_no_message_of_another_queue(moved: int) -> None:
    """A pop is refused whole: an offset that had moved on already would be past messages that nobody was given."""
    lab = make(2)
    fill(lab, b"0", b"-", queue_id=0)
    fill(lab, b"1", b"-", queue_id=1)
    client = FakeClient("c@1")
    lab.dispatch.serve(lab_request(lab, pop_command(lab), client))
    lab.node.offsets.put("g", "t", moved, 1)
    lab.timers.turn()

    assert client.answers[0].code == ResponseCode.POLLING_TIMEOUT
    assert sorted(bodies(pop(lab))) == [b"-", b"-", b"%d" % (1 - moved)]


def test_a_reset_is_taken_and_what_was_popped_before_it_does_not_come_back_as_a_retry() -> None:
    lab = make()
    fill(lab, b"a", b"b")
    pop(lab, invisible_time=1000)
    lab.node.offsets.reset("g", "t", 0, 1)

    found = pop(lab, invisible_time=60_000)
    assert bodies(found) == [b"b"]
    lab.timers.advance(1100)
    assert pop(lab) == [], "a was left behind by the reset"
