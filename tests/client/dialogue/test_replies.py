"""Which brokers are asked to hand on a reply, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from framework import Message
from framework.client.dialogue.replies import Replies
from framework.client.routes import RouteTable
from framework.errors import FrameworkError, Refused
from framework.model.queue import MessageQueue
from framework.net.pool import Pool
from framework.net.real_world import real_world
from framework.wire.command import RemotingCommand
from tests.runtime.test_app import run

REQUEST = Message(
    "prices", b"tea", properties={"REPLY_TO_CLIENT": "a@1", "CORRELATION_ID": "c", "CLUSTER": "C", "TTL": "3000"},
    queue=MessageQueue("prices", "broker-b", 0), born_ms=1_000,
)  # fmt: skip


@dataclass
class Brokers:
    """Three of a cluster, each of which takes its time before it refuses: the requester hangs."""

    takes_ms: int
    now_ms: int = 1_000
    asked: list[str] = field(default_factory=list[str])

    async def route(self, topic: str) -> Brokers:
        return self

    @property
    def writable(self) -> list[MessageQueue]:
        return [MessageQueue("C_REPLY_TOPIC", f"broker-{letter}", 0) for letter in "abc"]

    def address_of(self, broker: str) -> str:
        return broker

    async def request(self, address: str, command: RemotingCommand, **_: Any) -> RemotingCommand:
        self.asked.append(address)
        self.now_ms += self.takes_ms
        error: FrameworkError = Refused(1, "push reply message fail", request="reply", peer=address)
        raise error


@pytest.mark.parametrize(
    ("takes_ms", "asked"), [(10, ["broker-b", "broker-a", "broker-c"]), (10_000, ["broker-b"])],
    ids=["in time", "its time is over"],
)  # fmt: skip
def test_other_brokers_are_asked_while_the_requester_waits(takes_ms: int, asked: list[str]) -> None:
    async def story() -> None:
        world, brokers = real_world(), Brokers(takes_ms)
        replies = Replies(cast("Pool", brokers), cast("RouteTable", brokers), world.chance, world.clock, world.identity)
        replies.ages = lambda _: brokers.now_ms

        assert await replies.send(REQUEST, b"1999") is False
        assert asked == brokers.asked
        assert (0, 1) == (replies.sent, replies.dropped)

    run(story)
