"""A broker that answers at once and brings nothing on is asked less and less often, and said so once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

COUNT = 3
AT = COUNT + 1
"""Where the queue is when its broker begins to answer so: one message ends the long poll under way."""


def answer(code: int, following: int, *, low: int = 0, high: int = AT) -> RemotingCommand:
    fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": following, "minOffset": low, "maxOffset": high}
    return RemotingCommand(code, {name: str(value) for name, value in fields.items()})


def to_and_fro() -> Callable[[Request], RemotingCommand]:
    numbers = count()
    return lambda _: answer(21, AT if next(numbers) % 2 else 0, high=100)


ANSWERS: dict[str, Callable[[], Callable[[Request], RemotingCommand]]] = {
    "moved to where it is": lambda: lambda _: answer(21, AT),
    "moved to and fro": to_and_fro,
    "moved to where its queue has never been": lambda: lambda _: answer(21, 0, high=0),
    "nothing, at once": lambda: lambda _: answer(19, AT),
    "no match, and no progress": lambda: lambda _: answer(20, AT),
    "found, with nothing in it": lambda: lambda _: answer(0, AT),
}


def said(story: Story, event: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event == event]


def handler(handled: list[int], kind: str = "plain") -> Consumer[..., Any]:
    @consumer(topic="orders", group="billing", orderly=kind == "orderly", broadcasting=kind == "broadcasting")
    async def handle(message: Message) -> None:
        handled.append(message.queue_offset)

    return handle


async def send(story: Story, messages: int) -> None:
    producing, node = story.cluster.producing, story.cluster.producer.node
    assert producing is not None
    assert node is not None
    for _ in range(messages):
        await story.cluster.loop.spawn(node, producing.send("orders", b"x"), name="send")


def answered_so(story: Story, reply: Callable[[Request], RemotingCommand], asked: list[float]) -> Callable[[], object]:
    broker = story.cluster.broker.broker
    assert broker is not None

    def of_orders(request: Request) -> bool:
        if request.command.fields["topic"] != "orders":
            return False
        asked.append(story.now)
        return True

    return broker.intercept(
        Interceptor(code=RequestCode.PULL_MESSAGE, answer=reply, times=None, when=of_orders)
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["plain", "orderly", "broadcasting"])
@pytest.mark.parametrize("name", list(ANSWERS))
def test_answers_that_bring_nothing_on_are_asked_for_less_and_less(name: str, kind: str) -> None:
    handled: list[int] = []
    asked: list[float] = []

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await send(story, COUNT)
        await story.within("30s").until(lambda _: len(handled) == COUNT)
        await story.sleep("1s")  # until its long poll is under way
        undo = answered_so(story, ANSWERS[name](), asked)
        await send(story, 1)
        await story.sleep("60s")
        assert 5 <= len(asked) <= 30
        assert sum(at > asked[-1] - 20 for at in asked) <= 6, "ten seconds apart at last"
        (named,) = said(story, "pulls not advancing")
        assert "warning" == named.level
        assert not said(story, "pull recovered")
        assert len(said(story, "queue moved")) <= 4
        undo()
        await send(story, 2)
        await story.within("16s").until(lambda _: {*range(AT + 2)} <= {*handled})
        (left,) = said(story, "pull recovered")
        assert left.at > named.at

    load = GroupLoad(broadcasting=kind == "broadcasting")
    workload = Workload(queues=1, groups=(load,), settings={"start": "first"})
    tell(scenario, Cluster(apps=0, workload=workload, consumers=lambda _: [handler(handled, kind)]))


def test_what_was_filtered_out_moves_on_and_is_not_waited_for() -> None:
    """A broker that looks through a long queue answers 20 again and again, each time from further on."""
    handled: list[int] = []
    asked: list[float] = []

    def moved(request: Request) -> RemotingCommand:
        following = int(request.command.fields["queueOffset"]) + 10
        return answer(20, following, high=10_000)

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        undo = answered_so(story, moved, asked)
        await send(story, 1)
        await story.within("5s").until(lambda _: len(asked) >= 500)
        undo()
        assert asked[499] - asked[0] < 3
        assert not said(story, "pulls not advancing")

    tell(scenario, Cluster(apps=0, workload=Workload(queues=1), consumers=lambda _: [handler(handled)]))
