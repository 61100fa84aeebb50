"""POP as Java's consumer and a real broker wrote it: our receipts, acknowledgements and changed times are the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from framework.client.brokers import BrokerCalls
from framework.client.popper import Popper, PopTaken
from framework.client.routes import RouteTable
from framework.model.queue import MessageQueue
from framework.model.subscription import Start, Subscription
from framework.net.pool import Pool
from framework.wire import frame
from framework.wire.bodies.group import AssignmentQuery, Assignments
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.receipts import Receipt
from tests.golden import captures
from tests.wire.frames import decode_frame

CAPTURE = captures.load("pop")
POP, ACK, CHANGE, ASSIGNMENT = 200_050, 200_051, 200_053, 400
NEWER = {"suspend"}
"""A field of Java's for lite topics, always false here."""


def frames(request: int, kind: str) -> list[RemotingCommand]:
    return [decode_frame(raw[4:]) for raw in CAPTURE.find(request, kind)]


class JavaSBroker:
    """Gives the answers that the real one gave, in their order; what it was asked, byte for byte."""

    def __init__(self, *answers: RemotingCommand) -> None:
        self.answers, self.asked = list(answers), list[RemotingCommand]()

    async def request(self, address: str, command: RemotingCommand, **how: Any) -> RemotingCommand:
        self.asked.append(decode_frame(frame.encode(command)[4:]))
        return self.answers.pop(0)

    async def master_of(self, queue: MessageQueue) -> str:
        return "127.0.0.1:10911"


def popper(broker: JavaSBroker) -> Popper:
    routes = cast("RouteTable", broker)
    calls = BrokerCalls(cast("Pool", broker), routes)
    queue = MessageQueue("popped", "broker-a", -1)
    start = Start("first")
    return Popper(calls, "golden-poppers", Subscription("popped"), queue, start, batch=32, invisible_ms=60_000)


def taken(which: int) -> tuple[list[Receipt], RemotingCommand]:
    """The receipts of this pop's messages, and what we asked."""
    broker = JavaSBroker(frames(POP, "answer")[which])
    answer = asyncio.run(popper(broker).pop(32))
    assert isinstance(answer, PopTaken)
    return [receipt for _, receipt in answer.messages], broker.asked[0]


@pytest.mark.parametrize("which", [0, 1])
def test_we_pop_as_java_does(which: int) -> None:
    """Only the time of asking is left to the broker, whose clock counts."""
    _, ours = taken(which)
    theirs = frames(POP, "request")[which]

    assert POP == ours.code
    assert {**theirs.fields, "bornTime": "0"} == ours.fields


def test_a_first_delivery_s_receipt_is_java_s_to_the_letter() -> None:
    receipts, _ = taken(0)

    assert [0, 1, 2] == [receipt.offset for receipt in receipts]
    assert [each.fields["extraInfo"] for each in frames(CHANGE, "request")] == [each.text for each in receipts[:2]]


def test_so_is_that_of_what_came_back() -> None:
    receipts, _ = taken(1)

    assert [each.fields["extraInfo"] for each in frames(ACK, "request")] == [each.text for each in receipts[1:]]


def test_what_failed_asks_for_its_time_as_java_does() -> None:
    (receipt, *_), _ = taken(0)
    broker = JavaSBroker(frames(CHANGE, "answer")[0])
    renewed = asyncio.run(popper(broker).change_time(receipt, 10_000))
    theirs = frames(CHANGE, "request")[0]

    assert {name: text for name, text in theirs.fields.items() if name not in NEWER} == broker.asked[0].fields
    said = frames(CHANGE, "answer")[0].fields
    assert renewed is not None
    assert (int(said["popTime"]), 10_000, 0) == (renewed.popped_ms, renewed.invisible_ms, renewed.offset)


def test_an_acknowledgement_is_java_s_field_for_field() -> None:
    (_, receipt, _), _ = taken(1)
    broker = JavaSBroker(RemotingCommand(ResponseCode.SUCCESS))
    asyncio.run(popper(broker).acknowledge([receipt]))

    assert (ACK, frames(ACK, "request")[0].fields) == (broker.asked[0].code, broker.asked[0].fields)


def test_how_a_topic_is_taken_is_asked_and_answered_as_by_java() -> None:
    asked, answered = frames(ASSIGNMENT, "request")[0], frames(ASSIGNMENT, "answer")[0]
    query = AssignmentQuery.decode(asked.body)

    assert ("popped", "golden-poppers", "AVG") == (query.topic, query.group, query.strategy)
    assert json.loads(asked.body) == json.loads(query.encode())
    assert ["POP"] == [each.mode for each in Assignments.decode(answered.body).assignments or ()]
