"""RebalanceLoop: queues divided anew when something changed, and left alone when nobody can say what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from framework.core import limits
from framework.core.assignment import Assignment, AssignmentChange
from framework.core.member_lists import MemberList
from framework.errors import BrokerUnreachable, FrameworkError
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from framework.services.rebalance import RebalanceLoop
from tests.services.parts import EvenChance, Line, LoopClock, end, play, play_logged, start, told

ME = "10.0.0.1@1"
OTHER = "10.0.0.2@2"
RETRY = "%RETRY%billing"


def queues_of(topic: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(count)]


class Cluster:
    """Routes and members as a test says them; an error in their place is raised."""

    def __init__(self, member: str = ME) -> None:
        self._member = member
        self.routes: dict[str, list[MessageQueue] | Exception] = {"orders": queues_of("orders", 4)}
        self.listed: list[str] | Exception = [ME]
        self.gone: dict[str, float] = {}
        self.closed: set[str] = set()
        """Topics that have a route, and no queue to read."""
        self.template: list[str] | Exception = ["TBW102"]
        self.asked_routes_at: list[float] = []
        self.asked_topics: list[str] = []
        self.asked_members_at: list[float] = []
        self.members_asked = asyncio.Event()

    async def queues(self, topic: str) -> list[MessageQueue]:
        self.asked_routes_at.append(asyncio.get_running_loop().time())
        self.asked_topics.append(topic)
        await asyncio.sleep(0)
        return raised(self.routes.get(topic, []))

    def brokers_of(self, topic: str) -> list[str]:
        return ["broker-a"]

    def known(self, topic: str) -> object | None:
        return self.closed if topic in self.closed else None

    def away(self, topic: str) -> dict[str, float]:
        return self.gone

    async def makes_topics(self) -> bool:
        return bool(raised(self.template))

    async def lists(self, group: str, brokers: Sequence[str], member: str) -> list[MemberList]:
        assert ("billing", ["broker-a"], self._member) == (group, brokers, member)
        self.asked_members_at.append(asyncio.get_running_loop().time())
        answer = self.listed
        self.members_asked.set()
        await asyncio.sleep(0)
        if isinstance(answer, FrameworkError):
            return [MemberList("broker-a", None, failure=answer)]
        return [
            MemberList("broker-a", tuple(raised(answer)), connected_ms=int(asyncio.get_running_loop().time() * 1000))
        ]


def raised(answer: list[str] | list[MessageQueue] | Exception) -> list:  # type: ignore[type-arg]  # of either
    if isinstance(answer, Exception):
        raise answer
    return list(answer)


class Broken:
    name = "broken"

    def __init__(self, answer: Callable[[Sequence[MessageQueue]], list[MessageQueue]] | None = None) -> None:
        self._answer = answer

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if self._answer is None:
            raise ZeroDivisionError("no members?")
        return self._answer(queues)


class Fixture:
    def __init__(
        self, strategy: AllocationStrategy | None = None, topics: tuple[str, ...] = ("orders",), member: str = ME
    ) -> None:
        self.cluster = Cluster(member)
        self.assignment = Assignment()
        self.changes: list[tuple[str, AssignmentChange]] = []
        self.offered: list[tuple[str, int]] = []
        self.heartbeats_wanted = 0
        self.loop = RebalanceLoop(
            "billing", member, topics, strategy or Averaging(), self.assignment,
            routes=self.cluster, brokers=self.cluster,
            clock=LoopClock(), chance=EvenChance(), changed=lambda *change: self.changes.append(change),
            offered=lambda topic, queues: self.offered.append((topic, len(queues))), not_a_member=self._not_a_member,
        )  # fmt: skip
        self.task = start(self.loop.run())

    def _not_a_member(self) -> None:
        self.heartbeats_wanted += 1

    @property
    def rounds_at(self) -> list[float]:
        return [round(instant, 1) for instant in self.cluster.asked_routes_at]

    @property
    def owned(self) -> list[int]:
        return [queue.number for queue in self.assignment.queues]


def test_members_of_a_large_group_look_at_the_list_more_rarely() -> None:
    """The list names all of them: a thousand that look each 5 s are two hundred lists of a thousand each second."""

    async def story(members: int) -> int:
        it = Fixture()
        it.cluster.listed = sorted([ME, *(f"10.1.0.{number}@1" for number in range(members - 1))])
        await asyncio.sleep(200)
        await end(it.task)
        return len(it.cluster.asked_members_at) - len(it.rounds_at)

    looks = {members: play(partial(story, members)) for members in (10, 200, 400, 1_000)}
    assert looks[10] == looks[200] >= 25
    assert 8 <= looks[400] <= 15
    assert looks[1_000] <= 1, "the first round is a look twice: those that start together wait for each other"


def test_queues_are_taken_at_once_on_start() -> None:
    async def story() -> None:
        it = Fixture()
        assert not it.loop.is_settled
        await asyncio.sleep(0.5)
        await end(it.task)
        assert [0, 1, 2, 3] == it.owned
        assert [("orders", AssignmentChange(tuple(queues_of("orders", 4)), ()))] == it.changes
        assert [("orders", 4)] == it.offered
        assert it.loop.is_settled

    _, lines = play_logged(story)
    assert [("assignment changed", "billing", "orders", 4, 4, 1)] == told(
        lines, "group", "topic", "owned", "queues", "members"
    )


def test_a_quiet_group_is_balanced_each_twenty_seconds_and_looked_at_each_five() -> None:
    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(61)
        await end(it.task)
        assert [0.0, 20.0, 40.0, 60.0] == it.rounds_at
        assert 1 == len(it.changes)
        # 0, then 5, 10, 15, and from 20 again; a look falls together with a round each twenty seconds.
        assert 12 <= len(it.cluster.asked_members_at) <= 16

    play(story)


def test_a_notice_is_answered_at_once() -> None:
    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(10.5)
        it.cluster.listed = [OTHER, ME]
        it.loop.now()
        await asyncio.sleep(0.1)
        await end(it.task)
        assert [0.0, 10.5] == it.rounds_at
        assert [0, 1] == it.owned
        assert (2, 3) == tuple(queue.number for queue in it.changes[-1][1].lost)

    play(story)


def test_a_burst_of_notices_is_one_round_and_rounds_keep_their_distance() -> None:
    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(10.5)
        for _ in range(40):
            it.loop.now()
            await asyncio.sleep(0.05)
        await asyncio.sleep(5)
        await end(it.task)
        assert len(it.rounds_at) <= 5
        distances = [after - before for before, after in zip(it.rounds_at, it.rounds_at[1:], strict=False)]
        assert min(distances) * 1000 >= limits.REBALANCE_SOON_MS

    play(story)


def test_a_notice_during_a_round_is_not_forgotten() -> None:
    """It may be about what the round had read just before."""

    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(10.5)
        it.cluster.members_asked.clear()
        it.loop.now()
        await it.cluster.members_asked.wait()
        it.cluster.listed = [ME, OTHER]
        it.loop.now()
        await asyncio.sleep(1.5)
        await end(it.task)
        assert [0.0, 10.5, 11.5] == it.rounds_at
        assert [0, 1] == it.owned

    play(story)


def test_a_lost_notice_is_found_by_looking_at_the_members() -> None:
    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(6)
        it.cluster.listed = [ME, OTHER]
        await asyncio.sleep(5)
        await end(it.task)
        assert [0, 1] == it.owned
        assert [0.0, 10.0] == it.rounds_at

    play(story)


def test_a_look_that_fails_is_no_reason_for_a_round() -> None:
    """The next round asks the same, and names it."""

    async def story() -> None:
        it = Fixture()
        await asyncio.sleep(2)
        it.cluster.listed = BrokerUnreachable("no answer")
        await asyncio.sleep(16)
        await end(it.task)
        assert [0.0] == it.rounds_at
        assert 4 == len(it.cluster.asked_members_at)

    _, lines = play_logged(story)
    assert ["assignment changed"] == [line["event"] for line in lines]


def failing(break_it: Callable[[Cluster], None]) -> tuple[list[list[int]], list[float], list[Line]]:
    """What is owned before, while and after something is broken from second 10 to 40."""

    async def story() -> tuple[list[list[int]], list[float]]:
        it = Fixture()
        before = vars(it.cluster).copy() | {"routes": dict(it.cluster.routes)}
        await asyncio.sleep(10)
        owned = [it.owned]
        break_it(it.cluster)
        it.loop.now()
        await asyncio.sleep(30)
        owned.append(it.owned)
        assert 1 == len(it.changes)
        it.cluster.routes, it.cluster.listed = before["routes"], before["listed"]
        await asyncio.sleep(30)
        owned.append(it.owned)
        await end(it.task)
        return owned, it.rounds_at

    (owned, rounds_at), lines = play_logged(story)
    return owned, rounds_at, lines


def test_members_that_cannot_be_had_leave_everything_as_it_is() -> None:
    def break_it(cluster: Cluster) -> None:
        cluster.listed = BrokerUnreachable("broker-a gives no answer")

    owned, rounds_at, lines = failing(break_it)
    assert [[0, 1, 2, 3]] * 3 == owned
    assert [
        ("rebalance failed", "orders", "broker-a gives no answer"),
    ] == told(lines, "topic", "reason"), "named once"
    assert "rebalance recovered" in [line["event"] for line in lines]
    during = [instant for instant in rounds_at if 10 <= instant <= 40]
    assert 15 <= len(during) <= 30, "asked again and again while it fails"
    assert max(after - before for before, after in pairwise(during)) <= 2


def test_an_empty_list_of_members_drops_nothing() -> None:
    def break_it(cluster: Cluster) -> None:
        cluster.listed = []

    owned, _, lines = failing(break_it)
    assert [[0, 1, 2, 3]] * 3 == owned
    assert [("rebalance failed", "the broker does not list this member among 0")] == told(lines, "reason")


def test_a_route_that_cannot_be_had_drops_nothing() -> None:
    def break_it(cluster: Cluster) -> None:
        cluster.routes["orders"] = BrokerUnreachable("no name server gives an answer")

    owned, _, lines = failing(break_it)
    assert [[0, 1, 2, 3]] * 3 == owned
    assert [("rebalance failed", "no name server gives an answer")] == told(lines, "reason")


def test_a_route_without_queues_drops_nothing() -> None:
    """A name server that has just started knows no topic yet."""

    def break_it(cluster: Cluster) -> None:
        cluster.routes["orders"] = []

    owned, _, lines = failing(break_it)
    assert [[0, 1, 2, 3]] * 3 == owned
    assert [("info", "orders")] == [
        (line["log_level"], line["topic"]) for line in lines if line["event"] == "topic not found yet"
    ]


def test_who_is_not_listed_takes_nothing_and_asks_for_a_heartbeat() -> None:
    async def story() -> None:
        it = Fixture()
        it.cluster.listed = [OTHER]
        await asyncio.sleep(2.5)
        assert ([], [], False) == (it.owned, it.changes, it.loop.is_settled)
        assert 3 == it.heartbeats_wanted
        it.cluster.listed = [ME, OTHER]
        await asyncio.sleep(2)
        await end(it.task)
        assert [0, 1] == it.owned
        assert it.loop.is_settled

    play(story)


def test_one_topic_that_fails_holds_up_no_other() -> None:
    async def story() -> None:
        it = Fixture(topics=("orders", "payments", RETRY))
        it.cluster.routes["orders"] = BrokerUnreachable("no answer")
        it.cluster.routes["payments"] = queues_of("payments", 2)
        await asyncio.sleep(0.5)
        await end(it.task)
        assert ["payments"] == [topic for topic, _ in it.changes]
        assert not it.loop.is_settled

    _, lines = play_logged(story)
    assert [("rebalance failed", "orders", "no answer")] == told(lines, "topic", "reason")
    assert ("topic not found yet", RETRY) in told(lines, "topic")


def test_what_fails_is_tried_again_alone_and_less_often_but_healed_within_two_seconds() -> None:
    async def story() -> None:
        it = Fixture(topics=("payments", "orders", "refunds"))
        it.cluster.routes |= {"payments": queues_of("payments", 2), "refunds": queues_of("refunds", 2)}
        good, it.cluster.routes["orders"] = it.cluster.routes["orders"], BrokerUnreachable("no answer")
        await asyncio.sleep(15)
        asked = list(zip(it.rounds_at, it.cluster.asked_topics, strict=True))
        assert [0.0] == [when for when, topic in asked if topic == "payments"]
        tries = [when for when, topic in asked if topic == "orders"]
        assert [0.0, 1.0] == tries[:2]
        assert all(1 < after - before < 1.8 for before, after in pairwise(tries[1:]))
        assert [0, 1] * 2 == it.owned, "the others have theirs"

        for phase in range(10):
            it.cluster.routes["orders"] = BrokerUnreachable("no answer")
            it.loop.now()
            await asyncio.sleep(5 + phase / 7)
            assert not it.loop.is_settled
            it.cluster.routes["orders"] = good
            await asyncio.sleep(2)
            assert it.loop.is_settled
        await end(it.task)

    play(story)


def test_what_has_changed_is_asked_about_at_the_first_pace_again() -> None:
    async def story() -> None:
        it = Fixture()
        it.cluster.routes["orders"] = BrokerUnreachable("no answer")
        await asyncio.sleep(10)
        it.loop.now()
        await asyncio.sleep(1)
        it.cluster.asked_routes_at.clear()
        it.loop.now()
        await asyncio.sleep(2.1)
        await end(it.task)
        first, second, *_ = it.cluster.asked_routes_at
        assert 1 <= second - first < 1.01

    play(story)


def test_a_topic_that_is_gone_is_tried_no_more() -> None:
    async def story() -> None:
        it = Fixture(topics=("orders", "payments"))
        it.cluster.routes["payments"] = BrokerUnreachable("no answer")
        await asyncio.sleep(5)
        it.loop.resubscribe(("orders",))
        await asyncio.sleep(2)
        it.cluster.asked_topics.clear()
        await asyncio.sleep(30)
        await end(it.task)
        assert {"orders"} == set(it.cluster.asked_topics)
        assert it.loop.is_settled

    play(story)


def stranger(_: Sequence[MessageQueue]) -> list[MessageQueue]:
    return [MessageQueue("orders", "nowhere", 7)]


def test_a_strategy_that_fails_leaves_queues_as_they_are_and_the_loop_alive() -> None:
    async def story() -> None:
        for strategy in (Broken(), Broken(stranger), Broken(lambda queues: [queues[0], queues[0]])):
            it = Fixture(strategy)
            it.assignment.put("orders", queues_of("orders", 2))
            await asyncio.sleep(3)
            assert not it.task.done()
            assert ([0, 1], []) == (it.owned, it.changes)
            await end(it.task)

    _, lines = play_logged(story)
    said = [reason for _, reason in told(lines, "reason")]
    assert [
        "allocation 'broken' failed: ZeroDivisionError: no members?",
        (
            "allocation 'broken' failed: StrategyFault: allocation 'broken' named orders@nowhere:7, "
            "which is no queue of the topic"
        ),
        "allocation 'broken' failed: StrategyFault: allocation 'broken' named a queue twice",
    ] == said


OURS = [f"10.0.0.{number}@17#f123456789a{number}" for number in (1, 2, 3)]


def test_queues_of_a_broker_that_is_away_are_divided_while_all_members_knew_it() -> None:
    """One that has come since knows no such broker, and would leave queues to others that they leave to it."""

    async def story() -> list[list[str]]:
        it = Fixture(member=OURS[0])
        both = [MessageQueue("orders", broker, number) for broker in ("broker-a", "broker-b") for number in range(2)]
        it.cluster.routes["orders"], it.cluster.listed = list(both), OURS[:2]
        owned = []
        await asyncio.sleep(30)
        it.cluster.gone = {"broker-b": asyncio.get_running_loop().time()}
        for listed in (OURS[:2], OURS[:1], OURS[::2]):
            it.cluster.listed = listed
            it.loop.now()
            await asyncio.sleep(5)
            owned.append([str(queue) for queue in it.assignment.queues])
        await end(it.task)
        return owned

    a, b = [f"orders@broker-a:{number}" for number in range(2)], [f"orders@broker-b:{number}" for number in range(2)]
    assert [a, a + b, a[:1]] == play(story)
