"""`progress: auto`, the default: nothing while no gap lasts, and from then on as if a store had been named."""

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
from framework.model.reserved import progress_topic
from framework.settings.schema import AppSettings
from framework.testing.contents import queues_of
from framework.wire.codes import RequestCode
from tests.simulation.checkers import a_lasting_gap_is_kept, nothing_lost, passed_over_was_finished
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Said, Started
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

GROUP, STUCK = "billing", 7
TOPIC = progress_topic(GROUP)


class Stuck:
    """In each of so many queues, or in the first alone, the message at 7 is stuck until it is let go."""

    def __init__(
        self, *, queues: int = 1, drain: str = "1s", mutants: tuple[str, ...] = (), **of_group: object
    ) -> None:
        self.released, self.is_everywhere = asyncio.Event(), True
        settings = {"app": {"drain": drain}, "consumers": {GROUP: {"start": "first", **of_group}}}
        self.cluster = Cluster(
            apps=0, workload=Workload(queues=queues), consumers=self._handlers, mutants=mutants,
            settings=AppSettings.model_validate(settings),
        )  # fmt: skip
        self.cluster.history.keeping = {GROUP}

    def _handlers(self, cluster: Cluster) -> list[Consumer[..., Any]]:
        async def bill(message: Message) -> None:
            cluster.recorder.started(GROUP, message)
            await asyncio.sleep(0.01)
            if message.queue_offset == STUCK and (self.is_everywhere or message.queue.number == 0):
                await self.released.wait()
            cluster.recorder.finished(GROUP, message, "ok")

        return [consumer(topic="orders", group=GROUP)(bill)]

    def offsets(self) -> list[int]:
        """What was started so far, in order."""
        return [fact.offset for fact in self.cluster.history.of(Started)]


def said(story: Story, event: str) -> list[Said]:
    return [fact for fact in story.history.of(Said) if fact.event == event]


def makes_no_topics(story: Story) -> None:
    broker = story.cluster.broker.broker
    assert broker is not None
    broker.nodes[0].switches.creates_topics = False


def count(story: Story, code: RequestCode) -> Counter[str]:
    """Requests about the topic of records from now on, by the process that asks."""
    found: Counter[str] = Counter()

    def look(request: Request) -> bool:
        fields = request.command.fields
        if TOPIC in (fields.get("topic"), fields.get("b")):
            found[story.cluster.recorder.name_of(request.client.peer)] += 1
        return False

    broker = story.cluster.broker.broker
    assert broker is not None
    broker.intercept(Interceptor(code=code, times=None, when=look))
    return found


def test_a_group_without_gaps_costs_one_question_a_start() -> None:
    """Two minutes with messages, a join and a leave: each member asks when it is brought queues, and never else."""
    load = GroupLoad(GROUP, progress="auto", fail_rate=0.05, poison_rate=0.0)
    cluster = Cluster(apps=0, workload=Workload(queues=6, groups=(load,)))

    async def scenario(story: Story) -> None:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        await story.send("orders", 10)
        asked, sent = count(story, RequestCode.GET_ROUTEINFO_BY_TOPIC), count(story, RequestCode.SEND_MESSAGE_V2)
        (first,) = await story.start_apps(1)
        await story.send("orders", 300, over="60s")
        assert [1] == list(asked.values())
        (second,) = await story.start_apps(1)
        await story.send("orders", 100, over="30s")
        assert {1} == set(asked.values())
        await story.leave(second)
        await story.send("orders", 100, over="30s")
        assert 2 == asked[str(first.node.name if first.node else "")], "whoever left may have kept something"
        assert not sent
        await story.within("60s").until(all_handled)
        broker = story.cluster.broker.broker
        assert broker is not None
        assert not any(queues_of(node, TOPIC) for node in broker.nodes)
        assert not any(path.endswith(".progress") for each in story.cluster.apps for path in each.disk.paths())

    tell(scenario, cluster)


@pytest.mark.parametrize("mutants", [(), ("a take-over looks for records",)])
def test_a_member_that_was_there_before_the_topic_finds_it(mutants: tuple[str, ...]) -> None:
    """Both have begun without; one keeps what has ended above its gap, and is killed. The other one never had a gap."""
    stuck = Stuck(queues=2, mutants=mutants)
    stuck.is_everywhere = False

    async def scenario(story: Story) -> Counter[int]:
        both = await story.start_apps(2)
        await story.send("orders", 400)
        await story.sleep("10s")
        (owner,) = (each for each in both if "orders@broker-a:0" in story.queues_of(each, "orders"))
        story.crash(owner)
        before = len(stuck.offsets())
        await story.sleep("30s")
        again = Counter(stuck.offsets()[before:])
        stuck.released.set()
        await story.within("60s").until(all_handled)
        story.check(nothing_lost, passed_over_was_finished)
        if not mutants:
            story.check(a_lasting_gap_is_kept)
            assert ["topic", "topic"] == [each.fields["store"] for each in said(story, "progress enabled")]
        return again

    again = tell(scenario, stuck.cluster)
    assert (Counter({STUCK: 1}) == again) is not bool(mutants)


def test_a_gap_at_a_clean_leave_is_kept_though_it_has_not_lasted() -> None:
    stuck = Stuck(drain="500ms")

    async def scenario(story: Story) -> None:
        (first,) = await story.start_apps(1)
        await story.send("orders", 100)
        await story.within("5s").until(lambda story: len(stuck.offsets()) == 100)
        assert not said(story, "progress enabled"), "nothing has lasted yet"
        await story.leave(first)
        story.cluster.add_app()
        story.cluster.start_app(story.cluster.apps[-1])
        await story.sleep("10s")
        assert [STUCK] == stuck.offsets()[100:]
        stuck.released.set()
        await story.within("30s").until(all_handled)

    tell(scenario, stuck.cluster)


def test_where_the_topic_may_not_be_made_this_machine_keeps_it_and_says_so_once() -> None:
    """Also over a restart: a process that knows of no topic looks at its own files."""
    stuck = Stuck(queues=2)

    async def scenario(story: Story) -> None:
        (first,) = await story.start_apps(1)
        await story.send("orders", 200)
        makes_no_topics(story)
        await story.sleep("10s")
        for life in (1, 2):
            before = len(stuck.offsets())
            story.crash(first)
            story.restart(first)
            await story.sleep("30s")
            assert [STUCK, STUCK] == stuck.offsets()[before:]
            lines = said(story, "progress enabled")
            assert ["local"] * (life + 1) == [each.fields["store"] for each in lines]
            assert all(
                each.level == "info" and "not in a topic: SEND_MESSAGE" in each.fields["reason"] for each in lines
            )
        assert not said(story, "progress kept locally")
        stuck.released.set()
        await story.within("60s").until(all_handled)

    tell(scenario, stuck.cluster)


def test_where_nothing_may_be_kept_all_goes_on() -> None:
    """No topic, and a folder that takes no files: named once a queue with a gap, and repeated as ever."""
    stuck = Stuck()

    async def scenario(story: Story) -> None:
        (first,) = await story.start_apps(1)

        def refuses(path: str) -> Callable[[], None] | None:
            raise OSError(30, "Read-only file system", path)

        first.disk.lock = refuses  # type: ignore[method-assign]  # the whole disk's answer
        await story.send("orders", 100)
        makes_no_topics(story)
        await story.sleep("20s")
        assert STUCK == story.cluster._stored_of(GROUP, "orders@broker-a:0")
        (line,) = said(story, "progress not kept")
        assert "Read-only file system" in line.fields["reason"]
        stuck.released.set()
        await story.within("30s").until(all_handled)
        story.check(nothing_lost)

    tell(scenario, stuck.cluster)


@pytest.mark.parametrize("progress", ["topic", "none"])
def test_a_member_of_another_setting_beside_one_loses_nothing(progress: str) -> None:
    """One that keeps nothing repeats what it takes over, and what it has handled itself is not passed over unheard."""
    stuck = Stuck(queues=2)
    given = AppSettings.model_validate({"consumers": {GROUP: {"start": "first", "progress": progress}}})
    other = stuck.cluster.settings.model_copy(update={"consumers": given.consumers})

    async def scenario(story: Story) -> None:
        (first,) = await story.start_apps(1)
        auto = story.cluster.settings
        story.cluster.__dict__["settings"] = other
        (second,) = await story.start_apps(1)
        story.cluster.__dict__["settings"] = auto
        await story.send("orders", 400)
        await story.sleep("10s")
        story.crash(first)
        await story.sleep("20s")
        story.restart(first)
        await story.sleep("10s")
        story.crash(second)
        await story.sleep("20s")
        stuck.released.set()
        await story.within("60s").until(all_handled)
        story.check(nothing_lost, passed_over_was_finished)

    tell(scenario, stuck.cluster)
