"""ConsistencyCheck in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, cast

from framework.core.consistency import OTHER_ORDER, OTHER_TOPICS, SHARED_ID, Profile
from framework.errors import BrokerUnreachable, Refused
from framework.services.consistency import ConsistencyCheck
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.bodies.running import IS_ORDERLY, RunningInfo
from tests.services.parts import LoopClock, end, play, play_logged, start, told

OWN = Profile(orderly=False, model="CLUSTERING", subscriptions={"orders": "*"})


@dataclass
class Brokers:
    """A group's members -> whether they are orderly; None does not answer."""

    members: dict[str, bool | None]
    twice: list[str] = field(default_factory=list)
    is_down: bool = False
    asked: list[str] = field(default_factory=list)
    topics: tuple[str, ...] = ("orders",)

    async def listed(self, group: str, topic: str) -> list[str]:
        self.asked.append("list")
        if self.is_down:
            raise BrokerUnreachable("down")
        return [*self.members, *self.twice]

    async def running_info(self, group: str, topic: str, client_id: str) -> RunningInfo:
        self.asked.append(client_id)
        orderly = self.members[client_id]
        if orderly is None:
            raise Refused(1, "no answer", request="running info", peer="broker-a")
        return RunningInfo(
            properties={IS_ORDERLY: str(orderly).lower(), "messageModel": "CLUSTERING"},
            subscriptions=tuple(SubscriptionData(topic=each) for each in self.topics),
        )


def check_of(brokers: Brokers) -> ConsistencyCheck:
    return ConsistencyCheck(
        "billing", "orders", "me", lambda: OWN, cast("Any", brokers), LoopClock(), members=lambda: [*brokers.members]
    )


def test_each_is_asked_once_and_what_differs_is_named_once() -> None:
    async def story() -> None:
        brokers = Brokers({"me": False, "a": False, "b": True, "c": None})
        check = check_of(brokers)
        task = start(check.run())
        await asyncio.sleep(200)
        assert ["a", "b", "c", "c", "c"] == [each for each in brokers.asked if each != "list"]
        assert len(brokers.asked) <= 13, "one question in half a minute while something is wrong"
        assert {OTHER_ORDER: ("b",)} == check.found
        assert check.is_mixed_up
        brokers.asked.clear()
        brokers.members["d"] = True
        await asyncio.sleep(15)
        assert ["list", "d"] == brokers.asked[-2:], "only who is new; who never answers is left alone"
        assert {OTHER_ORDER: ("b", "d")} == check.found
        del brokers.members["b"], brokers.members["d"]
        await asyncio.sleep(20)
        assert {} == check.found
        await end(task)

    _, lines = play_logged(story)
    assert [("group inconsistent", ["b"]), ("group inconsistent", ["b", "d"])] == told(lines, "others")
    assert 1 == [line["event"] for line in lines].count("group consistent again")


def test_topics_that_change_while_members_run_are_asked_for_anew() -> None:
    """What a member said at first was kept for ever: a false alarm where all left a topic, and none where one did."""

    async def story() -> None:
        both = replace(OWN, subscriptions={"orders": "*", "payments": "*"})
        brokers, own = Brokers({"me": False, "a": False}, topics=("orders", "payments")), [both]
        check = ConsistencyCheck(
            "billing",
            "orders",
            "me",
            lambda: own[0],
            cast("Any", brokers),
            LoopClock(),
            members=lambda: [*brokers.members],
        )
        task = start(check.run())
        await asyncio.sleep(20)
        assert {} == check.found
        own[0] = OWN
        await asyncio.sleep(20)
        assert {OTHER_TOPICS: ("a",)} == check.found, "we left a topic, and nobody has our queues of it"
        brokers.topics = ("orders",)
        await asyncio.sleep(40)
        assert {} == check.found, "all have left it"
        own[0], brokers.topics = both, ("orders", "payments")
        await asyncio.sleep(400)
        assert {} == check.found, "all have come back"
        await end(task)

    _, lines = play_logged(story)
    assert 1 == [line["event"] for line in lines].count("group inconsistent")


def test_a_burst_of_changes_costs_one_look() -> None:
    async def story() -> None:
        brokers = Brokers({"me": False})
        task = start(check_of(brokers).run())
        for number in range(10):
            await asyncio.sleep(4)
            brokers.members[f"m{number}"] = False
        before = brokers.asked.count("list")
        await asyncio.sleep(60)
        assert before <= 1
        assert 1 == brokers.asked.count("list") - before
        await end(task)

    play(story)


def test_an_id_of_two_connections_is_named_when_it_stays() -> None:
    async def story() -> None:
        brokers = Brokers({"me": False, "a": False}, twice=["a"])
        check = check_of(brokers)
        task = start(check.run())
        await asyncio.sleep(140)
        assert {} == check.found, "a connection that broke without a word is listed for a while"
        await asyncio.sleep(40)
        assert {SHARED_ID: ("a",)} == check.found
        assert not check.is_mixed_up
        brokers.twice.clear()
        await asyncio.sleep(400)
        assert {} == check.found
        await end(task)

    play(story)


def test_a_broker_that_is_down_is_asked_again() -> None:
    async def story() -> None:
        brokers = Brokers({"me": False, "b": True}, is_down=True)
        check = check_of(brokers)
        task = start(check.run())
        await asyncio.sleep(20)
        brokers.is_down = False
        await asyncio.sleep(40)
        assert check.is_mixed_up
        await end(task)

    play(story)
