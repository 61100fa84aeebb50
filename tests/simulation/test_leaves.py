"""Leaves and stops that do not end are found while a run goes on, whatever keeps them; a suspended process is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from framework.services.queue.leaving import Leaving
from framework.services.queue.pull import PullLoop
from framework.testing.errors import Violation
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import Workload

NAME = "every leave ends"


def told(scenario: Callable[[Story], Awaitable[None]]) -> str:
    """What breaks in the story; empty where nothing does."""
    try:
        tell(scenario, Cluster(apps=0, workload=Workload(queues=4)))
    except Violation as violation:
        return str(violation)
    return ""


async def a_process_leaves(story: Story) -> None:
    (app,) = await story.start_apps(1)
    await story.send("orders", 10)
    await story.leave(app)


async def another_member_joins(story: Story) -> None:
    await story.start_apps(1)
    await story.send("orders", 10)
    await story.within("30s").until(all_handled)
    await story.start_apps(1)
    await story.sleep("3m")


@pytest.mark.parametrize(
    ("scenario", "said"),
    [(a_process_leaves, "the stop of app-1.1 goes on since"), (another_member_joins, "by billing of app-1.1 goes on")],
)
def test_what_never_ends_is_found(
    scenario: Callable[[Story], Awaitable[None]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: Leaving, pull: PullLoop) -> bool:
        await asyncio.Event().wait()
        return False

    monkeypatch.setattr(Leaving, "_hand_over", never)
    found = told(scenario)
    assert (True, True) == (found.startswith(NAME), said in found)


@pytest.mark.parametrize("scenario", [a_process_leaves, another_member_joins])
def test_what_ends_in_time_is_none_of_them(scenario: Callable[[Story], Awaitable[None]]) -> None:
    assert not told(scenario)


def test_a_process_that_is_suspended_spends_no_time_of_its_own() -> None:
    async def scenario(story: Story) -> None:
        (app,) = await story.start_apps(1)
        story.cluster.leave(app)
        story.stop(app, "10m")
        await story.sleep("9m")
        assert app.is_alive
        await story.within("2m").until(lambda _: not app.is_alive)

    assert not told(scenario)
