"""Each answer that a pull can get, once, from a broker whose answers are exchanged: what is asked next, and when.

The table is the Java client's without its defects: what 24 and 25 complain of is mended by a heartbeat and not waited
for, an answer that goes back hands out nothing again, and what was filtered out moves the offset on. Where Java stands
back a second each time, members here stand back half to a whole one, so that they don't come all at once, and longer
and longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from framework.broker.intercept import Interceptor, Lost
from framework.broker.request import Request
from framework.declare import consumer
from framework.model.message import Message
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import record
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell
from tests.simulation.workload import Workload

AT = 7
"""The offset of the pull whose answer is exchanged; all before it are handled."""
AT_ONCE = (0.0, 0.1)
A_SECOND = (0.5, 1.1)
"""Half of it certain, half drawn; and the way there."""
BUSY = (0.01, 0.05)
LOOK_MS = 200
"""How long the pull is kept until the broker looks, where its own answer shall be taken; the next one follows."""
LOOKED = (0.2, 0.3)


def answer(code: int, following: int, *, low: int = 0, high: int = AT, body: bytes = b"") -> RemotingCommand:
    fields = {"suggestWhichBrokerId": 0, "nextBeginOffset": following, "minOffset": low, "maxOffset": high}
    return RemotingCommand(code, {name: str(value) for name, value in fields.items()}, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one pull is answered, and what comes of it."""

    answer: RemotingCommand | None = None
    """None: the broker's own, after `LOOK_MS`."""
    lose: Lost | None = None
    sent: str = "Aa"
    """The tag of a message that is sent while the broker's own answer is awaited."""
    next_at: int = AT
    within: tuple[float, float]
    beats: bool = False
    """Whether a heartbeat comes between the two pulls."""


TABLE = {
    "found": Row(next_at=AT + 1, within=LOOKED),
    "found, all of another tag with the same hash": Row(sent="BB", next_at=AT + 1, within=LOOKED),
    "no match": Row(sent="other", next_at=AT + 1, within=LOOKED),
    "no new": Row(answer=answer(19, AT), within=AT_ONCE),
    "no match, and no progress": Row(answer=answer(20, AT), within=AT_ONCE),
    # A log that is suddenly shorter is not believed at once: the master still has the stored offset, and it stands.
    "illegal": Row(answer=answer(21, 3, high=3), within=AT_ONCE),
    "illegal, nothing there": Row(answer=answer(21, 0, high=0), within=AT_ONCE),
    "illegal, inside of the range": Row(answer=answer(21, AT), within=AT_ONCE),
    "illegal, an offset that cannot be": Row(answer=answer(21, -1), within=A_SECOND),
    "no subscription (24)": Row(answer=RemotingCommand(24, remark="no such subscription"), within=AT_ONCE, beats=True),
    "older subscription (25)": Row(answer=RemotingCommand(25, remark="not latest"), within=AT_ONCE, beats=True),
    "no such group (26)": Row(answer=RemotingCommand(26, remark="no such group"), within=A_SECOND),
    "flow control (215)": Row(answer=RemotingCommand(215, remark="too much"), within=BUSY),
    "error": Row(answer=RemotingCommand(1, remark="store is full"), within=A_SECOND),
    "a code that nobody knows": Row(answer=RemotingCommand(9_999), within=A_SECOND),
    "time-out": Row(lose=Lost.REQUEST, within=(30.5, 31.1)),
    "time-out of what was done": Row(lose=Lost.ANSWER, within=(30.5, 31.1)),
    "no new, going backwards": Row(answer=answer(19, 3), within=A_SECOND),
    "no match, going backwards": Row(answer=answer(20, 3), within=A_SECOND),
    "found, going backwards": Row(answer=answer(0, 4, body=record(3, tags="Aa")), within=A_SECOND),
    "found, an older message": Row(answer=answer(0, AT + 1, body=record(3, tags="Aa")), within=A_SECOND),
}


@dataclass(slots=True)
class Scene:
    """One member, one queue, and what the broker was asked."""

    story: Story
    handled: list[int]
    pulls: list[tuple[float, int]] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Begin to write down pulls and heartbeats."""

        def pulled(request: Request) -> bool:
            if request.command.fields["topic"] == "orders":
                self.pulls.append((self.story.now, int(request.command.fields["queueOffset"])))
            return False

        def beat(request: Request) -> bool:
            self.beats.append(self.story.now)
            return False

        self.intercept(Interceptor(code=RequestCode.PULL_MESSAGE, times=None, when=pulled))
        self.intercept(Interceptor(code=RequestCode.HEART_BEAT, times=None, when=beat))

    def intercept(self, interceptor: Interceptor) -> None:
        broker = self.story.cluster.broker.broker
        assert broker is not None
        broker.intercept(interceptor)

    async def send(self, *tags: str) -> None:
        producing, node = self.story.cluster.producing, self.story.cluster.producer.node
        assert producing is not None
        assert node is not None
        for tag in tags:
            await self.story.cluster.loop.spawn(node, producing.send("orders", b"x", tags=tag), name="send")

    async def until(self, condition: Callable[[], object], length: str = "40s") -> None:
        await self.story.within(length).until(lambda _: bool(condition()))

    @property
    def committed(self) -> int | None:
        broker = self.story.cluster.broker.broker
        assert broker is not None
        return broker.nodes[0].offsets.get("billing", "orders", 0)


def play(rows: list[Row]) -> Scene:
    """Seven messages are handled; the pull that follows gets the first answer, the next one the second, and so on."""
    handled: list[int] = []

    @consumer(topic="orders", group="billing", tags="Aa")
    async def handle(message: Message) -> None:
        handled.append(message.queue_offset)

    async def scenario(story: Story) -> Scene:
        await story.start_apps(1)
        scene = Scene(story, handled)
        await scene.send(*["Aa"] * (AT - 1))
        await scene.until(lambda: len(handled) == AT - 1 and scene.committed == AT - 1)
        scene.look()
        for row in rows:
            delay_ms = LOOK_MS if row.answer is None and row.lose is None else 0
            scene.intercept(
                Interceptor(
                    code=RequestCode.PULL_MESSAGE, answer=row.answer, lose=row.lose, delay_ms=delay_ms, when=of_orders
                )
            )
        await scene.send("Aa")  # it ends the long poll under way, and the pull after it is the one
        await scene.until(lambda: scene.pulls)
        expected = [*range(AT)]
        if rows[0].next_at > AT:
            await scene.send(rows[0].sent)
            expected += [AT] if rows[0].sent == "Aa" else []
        await scene.until(lambda: len(scene.pulls) > len(rows))
        if rows[0].next_at > AT:
            await scene.until(lambda: scene.committed == rows[0].next_at)
        end = rows[0].next_at + 3
        await scene.send("Aa", "Aa", "Aa")
        await scene.until(lambda: scene.committed == end)
        await story.sleep("20s")
        assert [*expected, *range(end - 3, end)] == handled, "each once, in order"
        return scene

    workload = Workload(queues=1)
    return tell(scenario, Cluster(apps=0, workload=workload, consumers=lambda _: [handle]))


@pytest.mark.parametrize("name", list(TABLE))
def test_a_pull_s_answer_leads_to_the_next_pull_as_tabled(name: str) -> None:
    row = TABLE[name]

    scene = play([row])
    (asked, at), (again, then) = scene.pulls[:2]

    assert (AT, row.next_at) == (at, then)
    assert row.within[0] <= again - asked <= row.within[1]
    if again - asked < 5:  # within a time-out one comes anyway
        assert row.beats == any(asked < beat < again for beat in scene.beats)


def test_who_is_refused_again_after_its_heartbeat_stands_back() -> None:
    """Else the two would ask and answer as fast as they can, for as long as the refusal stays."""
    row = TABLE["older subscription (25)"]

    scene = play([row] * 3)
    first, second, third = (after - before for (before, _), (after, _) in pairwise(scene.pulls[:4]))

    assert first <= AT_ONCE[1]
    assert 1.0 <= second <= 2.1
    assert 2.0 <= third <= 4.1
    assert {AT} == {offset for _, offset in scene.pulls[:4]}


def test_a_busy_broker_is_asked_less_and_less_often_but_each_second_at_least() -> None:
    scene = play([TABLE["flow control (215)"]] * 10)
    waits = [after - before for (before, _), (after, _) in pairwise(scene.pulls[:11])]

    assert sorted(waits) == waits[:6] + sorted(waits[6:])
    assert 0.4 <= waits[-1] <= 1.1
    assert {AT} == {offset for _, offset in scene.pulls[:11]}


def test_a_queue_that_stays_shorter_is_gone_on_with_from_there() -> None:
    """A log that has lost its end stays lost: what the broker says a second time is believed."""
    handled: list[int] = []

    @consumer(topic="orders", group="billing")
    async def handle(message: Message) -> None:
        handled.append(message.queue_offset)

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        scene = Scene(story, handled)
        await scene.send(*["Aa"] * AT)
        await scene.until(lambda: scene.committed == AT)
        for _ in range(2):
            scene.intercept(Interceptor(code=RequestCode.PULL_MESSAGE, answer=answer(21, 3, high=3), when=of_orders))
        await scene.send("Aa")
        await scene.until(lambda: handled.count(3) == 2)
        await scene.until(lambda: scene.committed == AT + 1)

        assert [*range(AT + 1), *range(3, AT + 1)] == handled

    tell(scenario, Cluster(apps=0, workload=Workload(queues=1), consumers=lambda _: [handle]))


def of_orders(request: Request) -> bool:
    return request.command.fields["topic"] == "orders"
