"""Pulls that bring a damaged record: nothing of them is handled, and when the bytes are right, all is, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.testing.cluster import BROKER_HOST
from framework.testing.sim.transport import SimTransport
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

COUNT = 12
KINDS = ("async", "threads", "orderly", "by key", "batch", "broadcasting", "sees nothing")


def handler_of(kind: str, handled: Counter[int], order: list[int]) -> Consumer[..., Any]:
    ways: dict[str, dict[str, Any]] = {
        "orderly": {"orderly": True},
        "by key": {"orderly": "key", "key": lambda message: message.queue_offset % 2},
        "batch": {"batch": 4},
        "broadcasting": {"broadcasting": True},
    }

    def note(message: Message) -> None:
        assert message.body == b"body-%d;" % message.queue_offset
        handled[message.queue_offset] += 1
        order.append(message.queue_offset)

    async def one(message: Message) -> None:
        note(message)

    def one_at_once(message: Message) -> None:
        note(message)

    async def many(messages: list[Message]) -> None:
        for message in messages:
            note(message)

    async def blind(message: Message) -> None:
        handled[message.queue_offset] += 1

    handle: Any = {"threads": one_at_once, "batch": many, "sees nothing": blind}.get(kind, one)
    made: Consumer[..., Any] = consumer(topic="orders", group="billing", **ways.get(kind, {}))(handle)
    return made


def workload_of(kind: str, **settings: str) -> Workload:
    return Workload(
        queues=1, groups=(GroupLoad(broadcasting=kind == "broadcasting"),), settings={"start": "first", **settings}
    )  # fmt: skip


async def send(story: Story, count: int = COUNT) -> None:
    producing, node = story.cluster.producing, story.cluster.producer.node
    assert producing is not None
    assert node is not None
    for number in range(count):
        work = producing.send("orders", b"body-%d;" % number)
        await story.cluster.loop.spawn(node, work, name="send")


def damaging(story: Story, at: int) -> Callable[[SimTransport, bytes], bytes]:
    """The broker's bytes of one message are wrong for good."""

    def tap(transport: SimTransport, data: bytes) -> bytes:
        if transport.here == BROKER_HOST:
            data = data.replace(b"body-%d;" % at, b"BODY-%d;" % at)
        return story.cluster.wiretap(transport, data)

    return tap


def said(story: Story, name: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event == name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_pull_is_named_and_made_again_until_it_is_right(kind: str) -> None:
    handled: Counter[int] = Counter()
    order: list[int] = []

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        wiretap = story.cluster.wiretap
        wiretap.damage(BROKER_HOST, 1.0, story.cluster.loop.streams.named("damage"))
        await send(story)
        await story.sleep("80s")
        assert not handled
        damaged = wiretap.damaged
        assert 4 <= damaged <= 12, "slower and slower"
        await story.sleep("60s")
        assert 2 <= wiretap.damaged - damaged <= 5, "thirty seconds at most"
        wiretap.stop_damaging()
        await story.within("31s").until(lambda _: len(handled) == COUNT)
        await story.sleep("20s")
        (named,) = said(story, "record damaged")
        assert ("error", "broker-a", "orders@broker-a:0", 0, "hold") == (
            named.level, *[named.fields[name] for name in ("broker", "queue", "offset", "then")],
        )  # fmt: skip
        assert said(story, "pull recovered")
        assert not said(story, "queue stalled"), "why it stands was said"
        assert not said(story, "loop failed")

    tell(
        scenario,
        Cluster(apps=0, workload=workload_of(kind), consumers=lambda _: [handler_of(kind, handled, order)]),
    )

    assert dict.fromkeys(range(COUNT), 1) == handled
    if kind in {"orderly", "broadcasting"}:
        assert sorted(order) == order


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_stays_damaged_is_skipped_alone_and_counted(kind: str) -> None:
    handled: Counter[int] = Counter()
    order: list[int] = []

    async def scenario(story: Story) -> None:
        (machine,) = await story.start_apps(1)
        story.cluster.network.tap = damaging(story, 5)
        await send(story)
        await story.within("30s").until(lambda _: len(handled) == COUNT - 1)
        await story.sleep("20s")
        story.cluster.network.tap = story.cluster.wiretap
        assert machine.app is not None
        (group,) = machine.app.snapshot().groups
        (queue,) = [each for each in group.queues if each.place.topic == "orders"]
        assert (COUNT, 1) == (queue.committable, group.damaged)
        (line,) = said(story, "damaged record skipped")
        assert ("error", "broker-a", 5, 6) == (
            line.level, *[line.fields[name] for name in ("broker", "offset", "to")],
        )  # fmt: skip
        assert "checksum" in line.fields["reason"]

    tell(
        scenario,
        Cluster(
            apps=0, workload=workload_of(kind, damaged="skip"), consumers=lambda _: [handler_of(kind, handled, order)]
        ),
    )

    assert dict.fromkeys((each for each in range(COUNT) if each != 5), 1) == handled


@pytest.mark.parametrize("then", ["hold", "skip"])
def test_a_message_that_the_box_finds_damaged_on_its_disk_is_one_of_these(then: str) -> None:
    handled: Counter[int] = Counter()

    def on_disk(request: Request) -> bool:
        fields = request.command.fields
        first, last = int(fields["queueOffset"]), int(fields["queueOffset"]) + int(fields["maxMsgNums"])
        return fields["topic"] == "orders" and first <= 5 < last

    remark = "message 5 of orders@broker-a:0 is damaged: missing, moved, or not what its checksum says"

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        broker = story.cluster.broker.broker
        assert broker is not None
        refusal = Interceptor(
            code=RequestCode.PULL_MESSAGE, answer=RemotingCommand(1, remark=remark), times=None, when=on_disk
        )
        undo = broker.intercept(refusal)
        await send(story)
        await story.sleep("60s")
        assert len(said(story, "record damaged")) >= 1
        assert len(said(story, "damaged record skipped")) == (then == "skip")
        assert handled == ({} if then == "hold" else dict.fromkeys({*range(COUNT)} - {5}, 1))
        undo()
        await story.within("31s").until(lambda _: len(handled) == COUNT - (then == "skip"))

    cluster = Cluster(
        apps=0, workload=workload_of("async", damaged=then), consumers=lambda _: [handler_of("async", handled, [])]
    )  # fmt: skip
    tell(scenario, cluster)


def test_other_queues_go_on_meanwhile() -> None:
    handled: Counter[int] = Counter()

    @consumer(topic="orders", group="billing")
    async def handle(message: Message) -> None:
        handled[message.queue.number] += 1
        await asyncio.sleep(0)

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        story.cluster.network.tap = damaging(story, 0)
        await send(story, 40)
        await story.sleep("40s")
        assert 30 == sum(handled.values()), "three of four queues"
        story.cluster.network.tap = story.cluster.wiretap
        await story.within("31s").until(lambda _: sum(handled.values()) == 40)

    tell(scenario, Cluster(apps=0, workload=Workload(queues=4), consumers=lambda _: [handle]))
