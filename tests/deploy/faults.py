"""Faults played in virtual time, with what /metrics says meanwhile, each 15 s as a scraper has it.

`make alerts-check` hands these recordings to promtool, which says which alerts fire. `RECORDED` says which must, and
that a calm hour has none.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TypeAlias

from framework import DeadLetter, Message, RetryLater, consumer
from framework.broker.store.topics import Topic
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.snapshot import StallSnapshot
from framework.testing.sim.machine import Machine
from framework.wire.codes import RequestCode
from tests.deploy.recording import OTHER, STEP_S, Recording, desk, refusing, scrape, steps
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

CALM = "calm"
CALM_STEPS, BEFORE, AFTER = 240, 20, 64
"""Scrapes: an hour; before a fault, five minutes; from its beginning on, sixteen."""
Act: TypeAlias = Callable[[Story, list[Machine]], None]


@consumer("orders", "billing")
async def bill(message: Message) -> None:
    await asyncio.sleep(0.05)


def calm() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, CALM_STEPS, 3)
    return recording


def dead_letters() -> Recording:
    @consumer("orders", "billing")
    async def bury(message: Message) -> DeadLetter | None:
        return DeadLetter("no card") if message.body == b"bad" else None

    recording = Recording()
    with desk(bury) as opened:
        steps(opened, recording, BEFORE)
        opened.send("orders", "bad")
        steps(opened, recording, AFTER)
    return recording


def handlers_fail() -> Recording:
    """One of four, and none of them is a dead letter for hours."""

    @consumer("orders", "billing")
    async def fail(message: Message) -> RetryLater | None:
        return RetryLater("1h") if message.body == b"bad" else None

    recording = Recording()
    with desk(fail) as opened:
        steps(opened, recording, BEFORE, 4)
        for _ in range(AFTER):
            opened.send("orders", "bad")
            steps(opened, recording, 1, 3)
    return recording


def lag_grows() -> Recording:
    @consumer("orders", "billing")
    async def slow(message: Message) -> None:
        await asyncio.sleep(5)

    recording = Recording()
    with desk(slow, concurrency=1) as opened:
        steps(opened, recording, BEFORE)
        steps(opened, recording, AFTER, 10)
    return recording


def lag_grows_at_a_rate() -> Recording:
    """What waits is at the broker, and nobody here knows for how long."""
    recording = Recording()
    with desk(bill, rate="10/m") as opened:
        steps(opened, recording, BEFORE)
        steps(opened, recording, AFTER, 10)
    return recording


def paused() -> Recording:
    """Lag grows, and somebody wants it to."""
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None

        async def pause() -> None:
            app.pause("billing")

        opened._run(pause())
        steps(opened, recording, AFTER, 10)
    return recording


def queue_stands_still() -> Recording:
    """Its loop has ended as by a defect, and what is to start it anew does not."""
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None
        (group,) = app._groups

        async def end() -> None:
            for queue in group.owned:
                group._tasks[queue].cancel()

        kept, type(group).start_anew = type(group).start_anew, lambda *_: None  # type: ignore[method-assign]
        try:
            opened._run(end())
            steps(opened, recording, AFTER)
        finally:
            type(group).start_anew = kept  # type: ignore[method-assign]
    return recording


def queue_is_held() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        with refusing(opened, RequestCode.PULL_MESSAGE):
            steps(opened, recording, AFTER, 0)
    return recording


def owner_is_missing() -> Recording:
    """A member with a name goes, and its grace is long."""
    return _of_two({BEFORE: lambda story, machines: story.crash(machines[0])})


def rollout() -> Recording:
    """Each of two in its turn ends in order, and is there again after half a minute, as `systemctl restart` has it."""

    def leave(number: int) -> Act:
        return lambda story, machines: story.cluster.leave(machines[number])

    def begin(number: int) -> Act:
        return lambda story, machines: story.restart(machines[number])

    return _of_two({BEFORE: leave(0), BEFORE + 2: begin(0), BEFORE + 6: leave(1), BEFORE + 8: begin(1)})


def _of_two(acts: Mapping[int, Act]) -> Recording:
    """What the second of two members says, whose names keep their queues; each act before the scrape of that number."""
    workload = Workload(
        queues=6, groups=(GroupLoad(fail_rate=0.0, poison_rate=0.0),), is_named=True, app={"grace": 600_000}
    )

    async def scenario(story: Story) -> Recording:
        await story.cluster.start_broker()
        await story.cluster.start_producer()
        broker = story.cluster.broker.broker
        assert broker is not None
        broker.nodes[0].rules.add(Topic(name="orders", read_queues=6, write_queues=6))
        recording, machines = Recording(), await story.start_apps(2)
        for step in range(BEFORE + AFTER):
            if step in acts:
                acts[step](story, machines)
            await story.sleep(f"{STEP_S}s")
            scrape(machines[1], recording)
        return recording

    return tell(scenario, Cluster(apps=0, workload=workload))


def queues_are_not_divided() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        with refusing(opened, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
            steps(opened, recording, AFTER)
    return recording


def nobody_keeps_what_failed() -> Recording:
    @consumer("orders", "billing")
    async def fail(message: Message) -> RetryLater | None:
        await asyncio.sleep(1)  # by when brokers refuse
        return RetryLater("1h") if message.body == b"bad" else None

    recording = Recording()
    ways = (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    with desk(fail) as opened:
        steps(opened, recording, BEFORE)
        opened.send("orders", "bad")
        with refusing(opened, *ways):
            steps(opened, recording, AFTER, 0)
    return recording


def handlers_hang() -> Recording:
    @consumer("orders", "billing")
    async def hang(message: Message) -> None:
        while message.body == b"bad":
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    recording = Recording()
    with desk(hang, concurrency=1, timeout="1s") as opened:
        steps(opened, recording, BEFORE)
        for _ in range(4):
            opened.send("orders", "bad")
        steps(opened, recording, AFTER, 0)
    return recording


def loop_stalls() -> Recording:
    """A simulation has no thread beside its loop: what that one would have counted is put into the pictures."""
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        for _ in range(AFTER):
            opened.send("orders", "tea")
            opened.sleep(f"{STEP_S}s")
            recording.of(
                replace(opened.snapshot(), stalls=StallSnapshot(count=1, longest_ms=2100, place="orders.py:17"))
            )
    return recording


def plugin_fails() -> Recording:
    class Ledger:
        @hookimpl
        def after_consume(self, delivery: Delivery) -> None:
            if delivery.message.body == b"bad":
                raise KeyError("card")

    recording = Recording()
    with desk(bill, plugins=PluginHost(objects={"ledger": Ledger()})) as opened:
        steps(opened, recording, BEFORE)
        opened.send("orders", "bad")
        steps(opened, recording, AFTER)
    return recording


def once_fails() -> Recording:
    """Whoever names the key cannot."""

    def number(message: Message) -> str:
        return str(message.properties["number"]) if message.body == b"bad" else "17"

    @consumer("orders", "billing", once="30m", key=number)
    async def once(message: Message) -> None: ...

    recording = Recording()
    with desk(once) as opened:
        steps(opened, recording, BEFORE)
        for _ in range(AFTER):
            opened.send("orders", "bad")
            steps(opened, recording, 1)
    return recording


def outbox_has_no_table() -> Recording:
    return _of_outbox("DROP TABLE outbox")


def outbox_waits() -> Recording:
    """A relay of another application has claimed it, and does not come back."""
    return _of_outbox(
        "INSERT INTO outbox (message_id, topic, properties, body, created_ms, due_ms) "
        "VALUES ('M1', 'orders', '', x'31', 0, 1 << 60)"
    )


def outbox_is_refused() -> Recording:
    return _of_outbox("INSERT INTO outbox (message_id, topic, properties, body) VALUES ('M1', 'no topic', '', x'31')")


def _of_outbox(fault: str) -> Recording:
    recording = Recording()
    with tempfile.TemporaryDirectory() as folder, desk(bill, outbox={"database": f"{folder}/shop.db"}) as opened:
        steps(opened, recording, BEFORE)
        with sqlite3.connect(f"{folder}/shop.db") as database:
            database.execute(fault)
        database.close()
        steps(opened, recording, AFTER)
    return recording


def process_is_silent() -> Recording:
    """As the listener has it of a process whose loop is blocked."""
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        other = asdict(opened.snapshot())
    for _ in range(AFTER):
        recording.add(
            {"worker": 0, "snapshot": other}, {"worker": 1, "error": "blocked at orders.py:17", "is_blocked": True}
        )
    return recording


def worker_is_replaced() -> Recording:
    """Both had dead letters long ago; the new one has none."""
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, Recording(), 1)
        picture = opened.snapshot()
    (group,) = picture.groups
    old, new = (
        asdict(replace(picture, session=session, groups=(replace(group, dead_lettered=count),)))
        for session, count in (("old", 3), ("new", 0))
    )
    for second in (*[old] * BEFORE, *[new] * AFTER):
        recording.add({"worker": 0, "snapshot": old}, {"worker": 1, "snapshot": second})
    return recording


def not_ready() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None
        app._membership.joining.held["billing"] = 3_600_000  # as one that flaps is held back at its next start
        steps(opened, recording, AFTER)
    return recording


def it_begins_again_and_again() -> Recording:
    async def scenario(story: Story) -> Recording:
        recording, (machine,) = Recording(), await story.start_apps(1)
        for step in range(BEFORE + AFTER):
            if step >= BEFORE and step % 8 == 0:
                story.crash(machine)
            elif not machine.is_alive:
                story.restart(machine)
            await story.sleep(f"{STEP_S}s")
            scrape(machine, recording)
        return recording

    return tell(scenario, Cluster(apps=0, workload=Workload(groups=(GroupLoad(fail_rate=0.0, poison_rate=0.0),))))


def one_of_two_is_down() -> Recording:
    recording = calm()
    recording.series[f"up{{{OTHER}}}"] = [float(step < BEFORE) for step in range(recording.scrapes)]
    return recording


def nothing_is_scraped() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        steps(opened, recording, BEFORE)
    for _ in range(AFTER):
        recording.add()
    return recording


RECORDED: Mapping[str, tuple[Callable[[], Recording], frozenset[str], str]] = {
    CALM: (calm, frozenset(), ""),
    "rollout": (rollout, frozenset(), "framework_app_members_absent"),
    "paused": (paused, frozenset(), "framework_app_paused"),
    "worker is replaced": (worker_is_replaced, frozenset(), ""),
    "dead letters": (dead_letters, frozenset({"DeadLetters"}), 'framework_app_messages_total{outcome="dead_lettered"'),
    "lag grows": (lag_grows, frozenset({"LagGrowing"}), "framework_app_lag_messages"),
    "lag grows at a rate": (lag_grows_at_a_rate, frozenset({"LagGrowing"}), "framework_app_lag_messages"),
    "queue stands still": (
        queue_stands_still, frozenset({"QueueWithoutProgress", "NotReady"}), "framework_app_stalled_queues",
    ),
    "queue is held": (queue_is_held, frozenset({"QueueHeld"}), 'framework_app_queues_held{reason="trouble"'),
    "owner is missing": (owner_is_missing, frozenset({"OwnerMissing"}), "framework_app_members_absent"),
    "queues are not divided": (queues_are_not_divided, frozenset({"OwnerMissing", "NotReady"}), ""),
    "nobody keeps what failed": (
        nobody_keeps_what_failed, frozenset({"CannotSendBack", "NotReady", "QueueHeld"}),
        "framework_app_cannot_send_back_messages",
    ),
    "handlers hang": (
        handlers_hang, frozenset({"HandlersHang", "NotReady", "QueueHeld"}), "framework_app_workers_hanging",
    ),
    "loop stalls": (loop_stalls, frozenset({"LoopStalls"}), "framework_app_loop_stalls_total"),
    "process is silent": (
        process_is_silent, frozenset({"ProcessSilent", "NotReady"}), "framework_app_processes_silent",
    ),
    "not ready": (not_ready, frozenset({"NotReady"}), "framework_app_not_ready_reasons"),
    "handlers fail": (handlers_fail, frozenset({"HandlersFail"}), 'framework_app_messages_total{outcome="retried"'),
    "plugin fails": (plugin_fails, frozenset({"PluginFails"}), "framework_app_plugin_failures_total"),
    "once fails": (once_fails, frozenset({"OnceFails"}), "framework_app_once_failures_total"),
    "outbox has no table": (
        outbox_has_no_table, frozenset({"OutboxFails"}), 'framework_app_plugin_count_total{figure="table_failures"',
    ),
    "outbox waits": (
        outbox_waits, frozenset({"OutboxWaits"}), 'framework_app_plugin_figure_max{figure="oldest_seconds"',
    ),
    "outbox is refused": (
        outbox_is_refused, frozenset({"OutboxRefused"}), 'framework_app_plugin_figure_max{figure="refused"',
    ),
    "it begins again and again": (it_begins_again_and_again, frozenset({"Restarts"}), ""),
    "one of two is down": (one_of_two_is_down, frozenset({"Down"}), ""),
    "nothing is scraped": (nothing_is_scraped, frozenset({"Down", "NoData"}), ""),
}  # fmt: skip
"""A fault -> how it is played, which alerts fire for it (without `FrameworkApp`) and no others, and which figure is 0
in a calm hour and above 0 with it.
"""
