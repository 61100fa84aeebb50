"""Faults played in virtual time, with what /metrics says meanwhile, each 15 s as a scraper has it.

`make alerts-check` hands these recordings to promtool, which says which alerts fire. `RECORDED` says which must, and
that a calm hour has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from framework import DeadLetter, Message, RetryLater, consumer
from framework.broker.intercept import Interceptor
from framework.broker.store.topics import Topic
from framework.model.snapshot import Snapshot, StallSnapshot
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import text_of
from framework.runtime.observe.totals import Totals
from framework.testing import Harness
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.runtime.observe.asking import series
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

STEP_S = 15
CALM = "calm"
CALM_STEPS, BEFORE, AFTER = 240, 20, 64
"""Scrapes: an hour; before a fault, five minutes; from its beginning on, sixteen."""
WHO = 'job="order-desk",instance="10.0.4.7:9464"'
LISTEN: Mapping[str, Any] = {"observe": {"listen": "127.0.0.1:9464"}}


@dataclass(slots=True)
class Recording:
    """Each series with its values, None where it had none."""

    series: dict[str, list[float | None]] = field(default_factory=dict)
    scrapes: int = 0
    totals: Totals = field(default_factory=Totals)
    _began_s: float | None = None

    def add(self, *workers: dict[str, Any]) -> None:
        """A scrape. No worker: nobody answers."""
        found = series(text_of(families(workers, "1.0", totals=self.totals))) if workers else {}
        for name in found:
            self.series.setdefault(name, [None] * self.scrapes)
        self.scrapes += 1
        for name, values in self.series.items():
            value = found.get(name)
            # Promtool's clock begins at 0, and so do the instants that it compares with it.
            values.append(value - self._base(workers) if value is not None and _is_instant(name) else value)

    def of(self, snapshot: Snapshot) -> None:
        self.add({"worker": 0, "snapshot": asdict(snapshot)})

    def _base(self, workers: tuple[dict[str, Any], ...]) -> float:
        if self._began_s is None:
            self._began_s = min(each["snapshot"]["taken_ms"] for each in workers if "snapshot" in each) / 1000
        return self._began_s

    def known(self, name: str, *labels: str) -> list[float]:
        """All values of a metric; with labels, of the series that have them."""
        return [
            value
            for each, values in self.series.items()
            if each.partition("{")[0] == name and all(label in each for label in labels)
            for value in values
            if value is not None
        ]


def _is_instant(name: str) -> bool:
    return name.partition("{")[0].endswith("_timestamp_seconds")


class _Over(Exception):
    """The recording is made; nothing has to be put in order for a stop."""


@contextmanager
def desk(handler: Any, **settings: Any) -> Iterator[Harness]:
    group = {"consumers": {"billing": settings}} if settings else {}
    with suppress(_Over), Harness(handler, settings={**LISTEN, **group}) as opened:
        yield opened
        raise _Over


def _steps(opened: Harness, recording: Recording, count: int, messages: int = 1) -> None:
    """So many scrapes, and so many messages before each."""
    for _ in range(count):
        for _ in range(messages):
            opened.send("orders", "tea")
        opened.sleep(f"{STEP_S}s")
        recording.of(opened.snapshot())


@contextmanager
def _refusing(opened: Harness, *codes: int) -> Iterator[None]:
    broker = opened._cluster.broker.broker
    assert broker is not None
    answer = RemotingCommand(1, remark="not today")
    removers = [broker.intercept(Interceptor(code=code, answer=answer, times=None)) for code in codes]
    try:
        yield
    finally:
        for remove in removers:
            remove()


@consumer("orders", "billing")
async def bill(message: Message) -> None:
    await asyncio.sleep(0.05)


def calm() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, CALM_STEPS, 3)
    return recording


def dead_letters() -> Recording:
    @consumer("orders", "billing")
    async def bury(message: Message) -> DeadLetter | None:
        return DeadLetter("no card") if message.body == b"bad" else None

    recording = Recording()
    with desk(bury) as opened:
        _steps(opened, recording, BEFORE)
        opened.send("orders", "bad")
        _steps(opened, recording, AFTER)
    return recording


def lag_grows() -> Recording:
    @consumer("orders", "billing")
    async def slow(message: Message) -> None:
        await asyncio.sleep(5)

    recording = Recording()
    with desk(slow, concurrency=1) as opened:
        _steps(opened, recording, BEFORE)
        _steps(opened, recording, AFTER, 10)
    return recording


def paused() -> Recording:
    """Lag grows, and somebody wants it to."""
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None

        async def pause() -> None:
            app.pause("billing")

        opened._run(pause())
        _steps(opened, recording, AFTER, 10)
    return recording


def queue_stands_still() -> Recording:
    """Its loop has ended as by a defect, and what is to start it anew does not."""
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None
        (group,) = app._groups

        async def end() -> None:
            for queue in group.owned:
                group._tasks[queue].cancel()

        kept, type(group).start_anew = type(group).start_anew, lambda *_: None  # type: ignore[method-assign]
        try:
            opened._run(end())
            _steps(opened, recording, AFTER)
        finally:
            type(group).start_anew = kept  # type: ignore[method-assign]
    return recording


def queue_is_held() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
        with _refusing(opened, RequestCode.PULL_MESSAGE):
            _steps(opened, recording, AFTER, 0)
    return recording


def owner_is_missing() -> Recording:
    """A member with a name goes, and its grace is long."""
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
            if step == BEFORE:
                story.crash(machines[0])
            await story.sleep(f"{STEP_S}s")
            app = machines[1].app
            assert app is not None
            recording.of(app.snapshot())
        return recording

    return tell(scenario, Cluster(apps=0, workload=workload))


def queues_are_not_divided() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
        with _refusing(opened, RequestCode.GET_CONSUMER_LIST_BY_GROUP):
            _steps(opened, recording, AFTER)
    return recording


def nobody_keeps_what_failed() -> Recording:
    @consumer("orders", "billing")
    async def fail(message: Message) -> RetryLater | None:
        await asyncio.sleep(1)  # by when brokers refuse
        return RetryLater("1h") if message.body == b"bad" else None

    recording = Recording()
    ways = (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2)
    with desk(fail) as opened:
        _steps(opened, recording, BEFORE)
        opened.send("orders", "bad")
        with _refusing(opened, *ways):
            _steps(opened, recording, AFTER, 0)
    return recording


def handlers_hang() -> Recording:
    @consumer("orders", "billing")
    async def hang(message: Message) -> None:
        while message.body == b"bad":
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    recording = Recording()
    with desk(hang, concurrency=1, timeout="1s") as opened:
        _steps(opened, recording, BEFORE)
        for _ in range(4):
            opened.send("orders", "bad")
        _steps(opened, recording, AFTER, 0)
    return recording


def loop_stalls() -> Recording:
    """A simulation has no thread beside its loop: what that one would have counted is put into the pictures."""
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
        for _ in range(AFTER):
            opened.send("orders", "tea")
            opened.sleep(f"{STEP_S}s")
            recording.of(
                replace(opened.snapshot(), stalls=StallSnapshot(count=1, longest_ms=2100, place="orders.py:17"))
            )
    return recording


def process_is_silent() -> Recording:
    """As the listener has it of a process whose loop is blocked."""
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
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
        _steps(opened, Recording(), 1)
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
        _steps(opened, recording, BEFORE)
        app = opened._cluster.apps[0].app
        assert app is not None
        app._membership.joining.held["billing"] = 3_600_000  # as one that flaps is held back at its next start
        _steps(opened, recording, AFTER)
    return recording


def nothing_is_scraped() -> Recording:
    recording = Recording()
    with desk(bill) as opened:
        _steps(opened, recording, BEFORE)
    for _ in range(AFTER):
        recording.add()
    return recording


RECORDED: Mapping[str, tuple[Callable[[], Recording], frozenset[str], str]] = {
    CALM: (calm, frozenset(), ""),
    "paused": (paused, frozenset(), "framework_app_paused"),
    "worker is replaced": (worker_is_replaced, frozenset(), ""),
    "dead letters": (dead_letters, frozenset({"DeadLetters"}), 'framework_app_messages_total{outcome="dead_lettered"'),
    "lag grows": (lag_grows, frozenset({"LagGrowing"}), "framework_app_lag_messages"),
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
    "nothing is scraped": (nothing_is_scraped, frozenset({"NoData"}), ""),
}  # fmt: skip
"""A fault -> how it is played, which alerts fire for it (without `FrameworkApp`) and no others, and which figure is 0
in a calm hour and above 0 with it.
"""
