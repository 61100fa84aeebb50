"""What a group says of its division: members that have no queues, and what a strategy remarks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from framework.hooks.builtin.allocation.averaging import Averaging
from framework.model.queue import MessageQueue
from tests.services.parts import Line, end, play_logged, told
from tests.services.test_rebalance import ME, OTHER, RETRY, Fixture, queues_of


def idle_lines(lines: list[Line]) -> list[tuple[object, ...]]:
    return [line[1:] for line in told(lines, "topic", "queues", "members") if line[0] == "member without queues"]


def test_a_member_without_queues_is_named_once_also_where_it_never_had_any() -> None:
    """More members than queues is the usual reason, and the new one comes too late from the start."""

    async def story() -> None:
        it = Fixture()
        it.cluster.routes["orders"] = queues_of("orders", 1)
        it.cluster.listed = ["10.0.0.0@0", ME]
        await asyncio.sleep(120)
        await end(it.task)
        assert ([], []) == (it.owned, it.changes)

    assert [("orders", 1, 2)] == idle_lines(play_logged(story)[1])


def test_a_member_that_loses_its_last_queue_is_named_each_time_that_happens() -> None:
    async def story() -> None:
        it = Fixture()
        it.cluster.routes["orders"] = queues_of("orders", 1)
        for members in ([ME], ["10.0.0.0@0", ME], [ME], ["10.0.0.0@0", ME]):
            it.cluster.listed = members
            await asyncio.sleep(60)
        await end(it.task)
        assert [] == it.owned

    assert [("orders", 1, 2)] * 2 == idle_lines(play_logged(story)[1])


def test_a_retry_topic_with_fewer_queues_than_members_is_no_news() -> None:
    async def story() -> None:
        it = Fixture(topics=("orders", RETRY))
        it.cluster.routes[RETRY] = queues_of(RETRY, 1)
        it.cluster.listed = ["10.0.0.0@0", ME]
        await asyncio.sleep(60)
        await end(it.task)
        assert [2, 3] == it.owned

    assert [] == idle_lines(play_logged(story)[1])


class Remarking(Averaging):
    """Has something to say while another member is there."""

    name = "remarking"

    def remarks(self, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[str]:
        if len(members) > 2:
            raise ZeroDivisionError("too many members")
        return [f"{len(queues)} queues for {len(members)} members"] if len(members) > 1 else []


def test_what_a_strategy_remarks_is_said_once_a_change() -> None:
    async def story() -> None:
        it = Fixture(Remarking())
        for members in ([ME], [ME, OTHER], [ME]):
            it.cluster.listed = members
            await asyncio.sleep(60)
        await end(it.task)

    _, lines = play_logged(story)
    assert [
        ("allocation incomplete", "orders", "remarking", ["4 queues for 2 members"]),
        ("allocation complete", "orders", "remarking", []),
    ] == [line for line in told(lines, "topic", "strategy", "remarks") if line[0].startswith("allocation ")]


def test_a_strategy_whose_remarks_fail_has_failed() -> None:
    async def story() -> None:
        it = Fixture(Remarking())
        it.cluster.listed = [ME, OTHER, "10.0.0.0@0"]
        await asyncio.sleep(3)
        assert not it.task.done()
        assert ([], []) == (it.owned, it.changes)
        await end(it.task)

    _, lines = play_logged(story)
    assert ["allocation 'remarking' failed: ZeroDivisionError: too many members"] == [
        reason for _, reason in told(lines, "reason")
    ]
