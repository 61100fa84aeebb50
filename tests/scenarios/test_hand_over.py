"""Members that come and go in order repeat nothing, where what is let go is announced."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from framework.declare import Consumer, consumer
from framework.model.message import Message
from framework.model.outcome import BatchFailed, Suspend
from framework.model.reserved import progress_topic
from framework.settings.schema import AppSettings
from framework.testing.errors import Violation
from tests.simulation.checkers import calm_runs_do_not_repeat, nothing_lost, order_kept
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Started
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload


def busy(progress: str, mutants: tuple[str, ...] = (), seed: int = 0) -> Cluster:
    """Handlers that are nearly always at work, so that a queue is hardly ever let go at rest."""
    load = GroupLoad(pauses_s=(0.05, 0.2, 0.4), fail_rate=0.0, poison_rate=0.0, concurrency=8, progress=progress)
    cluster = Cluster(seed, apps=0, workload=Workload(queues=8, groups=(load,), drain="5s"), mutants=mutants)
    cluster.history.is_calm = True
    return cluster


async def comings_and_goings(story: Story) -> int:
    """Two members become four and two again, under load; how many messages were started twice."""
    first, second = await story.start_apps(2)
    sending = story.cluster.loop.create_task(story.send("orders", 500, over="20s"), name="sending")
    await story.sleep("4s")
    await story.start_apps(2)
    await story.sleep("4s")
    for machine in (first, second):
        await story.leave(machine)
        await story.sleep("3s")
    await sending
    await story.within("60s").until(all_handled)
    started = [(fact.group, fact.message_id) for fact in story.history.of(Started)]
    story.check(nothing_lost, calm_runs_do_not_repeat)
    return len(started) - len(set(started))


def test_joins_and_leaves_under_load_repeat_nothing() -> None:
    assert 0 == tell(comings_and_goings, busy("topic"))


def test_once_a_gap_has_lasted_members_announce_what_they_let_go_by_default() -> None:
    """The group has its topic since then, and whoever takes a queue says so in it."""

    async def scenario(story: Story) -> int:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        await story.send(progress_topic("billing"), 1)
        story.history.facts.clear()  # nobody is to handle that one
        return await comings_and_goings(story)

    assert 0 == tell(scenario, busy("auto"))


def test_what_is_not_awaited_is_repeated() -> None:
    with pytest.raises(Violation, match="let the queue go"):
        tell(
            comings_and_goings, busy("topic", mutants=("a hand-over is awaited",), seed=5)
        )  # six seeds of eight show it


def test_without_announcements_a_join_repeats_what_is_at_work() -> None:
    """So it is with the Java client, and with `progress: none`: the page says so."""
    assert tell(comings_and_goings, busy("none")) > 0


def keyed(*, fails: bool, batch: int, is_async: bool, mutants: tuple[str, ...]) -> Cluster:
    """One queue with three keys in turn. Messages of the first fail once, or are slow; the others' are quick."""

    def handlers(cluster: Cluster) -> list[Consumer[..., Any]]:
        def ended(messages: list[Message]) -> None:
            for message in messages:
                is_ok = not fails or message.queue_offset != 3 or message.attempt > 1
                cluster.recorder.finished("billing", message, "ok" if is_ok else "failed")
                if not is_ok:
                    raise BatchFailed("not yet", at=messages.index(message)) if batch else ValueError("not yet")

        def begun(messages: list[Message]) -> None:
            for message in messages:
                cluster.recorder.started("billing", message)

        async def handle(message: Message) -> None:
            begun([message])
            await asyncio.sleep(0.3 if message.queue_offset % 3 == 0 and not fails else 0.001)
            ended([message])

        def handle_at_once(message: Message) -> None:
            begun([message])
            ended([message])

        async def handle_batch(messages: list[Message]) -> None:
            begun(messages)
            await asyncio.sleep(0.3 if messages[0].queue_offset % 3 == 0 and not fails else 0.001)
            ended(messages)

        chosen = handle_batch if batch else handle if is_async else handle_at_once
        key: dict[str, Any] = {"key": lambda message: message.queue_offset % 3}
        return [consumer("orders", "billing", orderly="key", batch=batch, **key)(chosen)]

    settings = {"app": {"drain": "10s"}, "consumers": {"billing": {"start": "first", "pull_batch": 8}}}
    cluster = Cluster(
        apps=0, workload=Workload(queues=1), consumers=handlers, mutants=mutants,
        settings=AppSettings.model_validate(settings),
    )  # fmt: skip
    cluster.history.orderly = {"billing": 3}
    cluster.history.batched = {"billing"} if batch else set()
    return cluster


@pytest.mark.parametrize("mutants", [(), ("a leaver by key closes its gaps",)], ids=["", "mutant"])
@pytest.mark.parametrize(
    ("fails", "batch", "is_async"),
    [(True, 0, True), (True, 0, False), (True, 4, True), (False, 0, True), (False, 4, True)],
)
def test_a_leaver_by_key_repeats_nothing(fails: bool, batch: int, is_async: bool, mutants: tuple[str, ...]) -> None:
    """It leaves while one key is in its pause, or slow, and others are far ahead: that one comes to where they are."""

    async def scenario(story: Story) -> int:
        (first,) = await story.start_apps(1)
        await story.send("orders", 30)
        await story.within("10s").until(lambda story: sum(1 for _ in story.history.of(Started)) > 15)
        await story.sleep("50ms")
        await story.leave(first)
        gone = story.now
        story.cluster.add_app()
        story.cluster.start_app(story.cluster.apps[-1])
        await story.within("60s").until(all_handled)
        story.check(nothing_lost, *(() if batch else (order_kept,)))
        ended = Counter(fact.offset for fact in story.history.of(Finished) if fact.is_ok)
        assert set(range(30)) == set(ended)
        assert mutants or all(fact.at < gone for fact in story.history.of(Started)), "all were in hand"
        return sum(ended.values()) - len(ended)

    assert (tell(scenario, keyed(fails=fails, batch=batch, is_async=is_async, mutants=mutants)) > 0) is bool(mutants)


@pytest.mark.parametrize(("pause", "most_s"), [("1s", 3.0), ("8s", 0.5)], ids=["poisoned", "a-long-pause"])
def test_a_key_that_goes_on_failing_holds_up_a_leave_for_two_tries(pause: str, most_s: float) -> None:
    """And one that would not be tried again within the drain for no time at all."""

    def handlers(cluster: Cluster) -> list[Consumer[..., Any]]:
        async def handle(message: Message) -> Suspend | None:
            cluster.recorder.started("billing", message)
            return None if message.queue_offset % 3 else Suspend(pause)

        return [consumer("orders", "billing", orderly="key", key=lambda message: message.queue_offset % 3)(handle)]

    async def scenario(story: Story) -> None:
        (first,) = await story.start_apps(1)
        await story.send("orders", 30)
        await story.within("10s").until(lambda story: sum(1 for _ in story.history.of(Started)) > 15)
        await story.sleep("50ms")
        began = story.now
        await story.leave(first)
        assert story.now - began < most_s
        tries = sum(fact.offset == 0 for fact in story.history.of(Started))
        assert (3 if pause == "1s" else 1) == tries

    settings = {"app": {"drain": "5s"}, "consumers": {"billing": {"start": "first"}}}
    tell(
        scenario,
        Cluster(apps=0, workload=Workload(queues=1), consumers=handlers, settings=AppSettings.model_validate(settings)),
    )
