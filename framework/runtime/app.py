"""App: a whole consuming application, from the first connection to the last confirmed offset."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import structlog

from framework.client.cluster import Cluster
from framework.client.producing.publisher import Publisher
from framework.client.producing.told import send_hooks
from framework.core.limits import CONCURRENCY_MAX
from framework.core.statistics import Sends
from framework.declare import Consumer
from framework.errors import Findings, shorten
from framework.hooks.host import PluginHost
from framework.mistakes import ArgumentWrong
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.snapshot import LoopSnapshot, Snapshot
from framework.net.library_logs import log_as_a_library
from framework.net.real_world import real_world
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.control import Control, Stopping
from framework.runtime.engine_groups import EngineFigures, EngineGroups, groups_of_engines
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.group.subscribing import asked_by, check_open, with_consumer, without_topic
from framework.runtime.inbound import AppAdministration, Inbound
from framework.runtime.life import PATIENCE, Life, beside, producer_over, started
from framework.runtime.logs.streams import lost_lines
from framework.runtime.membership import Membership
from framework.runtime.pauses import pause_ms
from framework.runtime.plans.collect import checks_beside, consumers_in, unknown_groups
from framework.runtime.plans.connect import Patience, cluster_options
from framework.runtime.plans.groups import group_plans
from framework.runtime.plans.stores import Onces, close_onces
from framework.runtime.plugin_tasks import PluginTasks
from framework.runtime.report.observe import group_picture, idle_ms, total
from framework.runtime.report.reasons import why_not_live, why_not_ready
from framework.runtime.reports import OnEvent, Reports
from framework.services.call.exits import ExitWatch
from framework.services.call.notes import Notes
from framework.services.call.publishing import Means
from framework.services.call.resources import Resources
from framework.services.call.trace import ConsumeTrace
from framework.services.clocks import AlignedClock
from framework.services.pool.run import MessageCounts
from framework.settings.changes import Kind, changes, taken_over
from framework.settings.schema import AppSettings

if TYPE_CHECKING:
    from pathlib import Path

    from structlog.typing import Processor

    from framework.runtime.observe.listener import Mounted

log = structlog.get_logger()


class App:
    """An application: handlers, settings and plugins in one process, one member of each of its groups."""

    IS_APPLICATION: ClassVar = True
    """Marks the class for `declare`: a parameter with this annotation gets the application."""

    def __init__(
        self,
        settings: AppSettings,
        consumers: Sequence[Consumer[..., Any]],
        *,
        world: World | None = None,
        plugins: PluginHost | None = None,
        on_event: OnEvent | None = None,
        worker: int = 0,
        elsewhere: frozenset[str] = frozenset(),
        is_alone: bool = True,
        notes: Notes | None = None,
    ) -> None:
        if not isinstance(settings, AppSettings):
            raise ArgumentWrong(
                f"App: settings={shorten(settings)}: give AppSettings, or make it by App.from_yaml(path)"
            )
        self.settings = settings
        self.consumers = tuple(consumers_in(consumers, "App"))
        if world is None:
            log_as_a_library()
        self._clock = AlignedClock((world := world or real_world()).clock)
        self.world = replace(world, clock=self._clock)
        self.plugins = plugins or PluginHost(settings.plugins, settings)
        self.plugins.calls.now = self.world.clock.monotonic
        self.on_event = on_event
        """Called for each settled delivery. May be set before `run`. None costs nothing."""
        self._membership = Membership(settings, self.world, self._clock)
        self.worker = worker
        """The number of this process among those of one parent. Broadcasting groups keep their offsets under it."""
        self.elsewhere = elsewhere
        """Groups of this application that another process runs. Changed settings may name them."""
        self.is_alone = is_alone
        """Whether no parent answers for this process at `observe.listen`."""
        self._exits = None if notes is None else ExitWatch(notes)
        self.cluster: Cluster | None = None
        """The connection to the cluster, while running. Plugins may send with `Producer(cluster=app.cluster)`."""
        self.publisher = Publisher(lambda: producer_over(self.cluster, self._life))
        """For what handlers send and return, and what a web application sends, while it runs."""
        self._traces: dict[str, ConsumeTrace] = {}
        self._onces: Onces = {}
        self._engines = EngineGroups(self.world.workers)
        self._figures = EngineFigures(self.plugins.runners)
        self._plugin_tasks = PluginTasks()
        self._resources = Resources([each for consumer in consumers for each in asked_by(consumer)], self)
        self._drain_ms = settings.app.drain
        # A start that still waits for a broker does so no longer when its end is asked for.
        name = f"application {settings.app.name!r}"
        self._life = Life(name, self._membership.accepted.set, self._membership.forked)
        self._membership.joining.life = self._life
        self._reasons = partial(why_not_ready, self._membership, self._life, self._engines)
        self._started_ms, self._started_at, self._is_started = 0, 0.0, False
        self.about: dict[str, str] = {}
        """What the control socket says of this process beside its name, for people who have several to choose from."""
        self.log_processors: Sequence[Processor] = ()
        """What a command has its lines pass first, also after a setting of `logging` has changed."""
        self.mounted: Mounted | None = None
        """Pages beside the metrics (`observe.dashboard`), which the commands bring."""
        self._sends = Sends() if settings.observe.listen else None
        self._control = Control(self, self.world, lambda: self._groups)

    @classmethod
    def from_yaml(cls, path: str | Path) -> App:
        """An application from a settings file, with the handlers that it names."""
        from framework.runtime.plans.collect import collect
        from framework.settings.sources import load

        settings = load(path)
        return cls(settings, collect(settings))

    # Life

    async def run(self) -> MessageCounts:
        """Consume until `stop` is called, drain, and return the counts of messages. The end was clean if `abandoned`
        and `unconfirmed` are 0. Cancelling `run` stops at once, without draining.
        """
        with self._life.lived():
            self._started_ms, self._started_at = self.world.clock.now_ms(), self.world.clock.monotonic()
            await self._run()
        return self.counts

    async def _run(self) -> None:
        tree, membership = TaskTree(), self._membership

        async def reply(request: Message, body: bytes) -> None:
            await cluster.replies.send(request, body)

        def now_at(broker: str) -> int | None:
            return membership.ages.now_ms(broker)

        reports = Reports(self.on_event, self.world.workers, self.settings.cluster.namespace)
        self._planned = partial(
            group_plans, host=self.plugins, reports=reports, world=self.world, worker=self.worker,
            means=Means(self._resources.values, self._publish, self.world.workers, reply, now_at, self._exits),
            traces=self._traces, onces=self._onces,
        )  # fmt: skip
        plans = self._planned(self.settings, self.consumers)
        self._engines.find(self.settings, self.consumers, self.plugins)
        admin = self.settings.admin
        inbound = Inbound(
            AppAdministration(lambda: self._groups, self.snapshot, self.world),
            tree,
            may_reset=admin.reset,
            may_consume=admin.direct,
        )
        cluster = self.cluster = Cluster(
            self.world,
            cluster_options(self.settings, self.member),
            on_request=inbound,
            on_connected=membership.connected,
            on_disconnected=membership.disconnected,
            send_hooks=send_hooks(self.plugins.calls, self._sends),
            state=lambda: self._life.state,
        )
        try:
            self._control.start()
            for check in checks_beside(self.consumers):
                group = cluster.checks.add(check)
                tree.start(cluster.introductions.keep(group), name=f"transaction checks {group}")
            await self._resources.open()
            membership.open(plans, self.member, cluster, reports, tree)
            for trace in self._traces.values():
                trace.start(cluster, tree)
            async with Patience(
                membership.accepted, self.settings.cluster, lambda: membership.search.trouble
            ) as patience:
                await membership.introduce(self._engines.topics, patience)
            if self._life.goes_on:
                membership.start(self._resources.values)
                self._engines.start(tree)
                self._is_started = True
                log.info("app started", app=self.settings.app.name, member=self.member, groups=len(plans))
                self.plugins.calls.app_started(self)
            await self._life.asked.wait()
            log.info("app stopping", app=self.settings.app.name, drain_ms=self._drain_ms)
            if self._is_started:
                self.plugins.calls.app_stopping(self)
            membership.dormant.join = None
            await _drain(self._groups, self._engines, self._plugin_tasks, self._drain_ms)
            await membership.leave()
            for trace in self._traces.values():  # handlers have ended, and the cluster is still connected
                await trace.tracer.close()
            membership.joining.check()
        finally:
            self._control.stop()
            await self._plugin_tasks.close()
            await tree.close()
            await cluster.close()
            membership.close()
            await close_onces(self._onces)
            await self._resources.close(self._drain_ms)
        log.info(
            "app stopped",
            app=self.settings.app.name,
            abandoned=self.counts.abandoned,
            unconfirmed=self.counts.unconfirmed,
        )

    async def started(self, within: str | float | None = PATIENCE) -> None:
        """Return when the application is ready, or raise why it isn't: what `run` has failed with, that it has stopped,
        or what is missing after `within`. `run` goes on in a task of its own.
        """
        await started(self._life, self._reasons, None if within is None else to_ms(within) / 1000)

    def lifespan(self, web: object = None) -> AbstractAsyncContextManager[None]:
        """Run it for as long as an ASGI application serves: `FastAPI(lifespan=app.lifespan)`. It is ready before the
        first request, and drained after the last one.
        """
        return beside(self)

    async def _publish(self, message: Message) -> None:
        await self.publisher.send(message)

    async def stop(self, drain: str | float | None = None) -> None:
        """Let running handlers finish within `drain`, confirm offsets, leave the groups, and return when that is done.
        Messages that `counts` has as `abandoned` or `unconfirmed` are delivered again.

        In a handler, a hook or a resource it returns at once, because the stop waits for that code.
        """
        if drain is not None:
            self._drain_ms = to_ms(drain)
        await self._life.over()

    def stop_soon(self, drain: str | float | None = None) -> None:
        """The same without waiting, for plain handlers, other threads and signal handlers."""
        if drain is not None:
            self._drain_ms = to_ms(drain)
        self._life.ask()

    def accompany(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """For plugins, in `app_started`: run `work` beside the groups. End it in `app_stopping`: the stop waits for it
        as long as for handlers, then cancels it.
        """
        self._life.on_loop(f"accompany({name!r})", lambda: self._plugin_tasks.start(work, name))

    # Changes while it runs: from any thread; each returns when it was made, on the event loop's thread

    def start_consumer(self, group: str) -> None:
        """Let a group join that `autostart: false` keeps back."""
        dormant = self._membership.dormant
        self._life.on_loop(
            f"start_consumer({group!r})", lambda: dormant.start(group, [each.plan for each in self._groups])
        )

    def pause(self, group: str, *, length: str | float | None = None, reason: str = "", by: str = "") -> None:
        """Start no handler of this group and pull nothing until `resume`, or for a `length` ("10m", or seconds). The
        group keeps its queues. The snapshot says who paused it (`by`), why and until when.
        """
        length_ms = None if length is None else pause_ms(group, length)
        self._life.on_loop(
            f"pause({group!r})",
            lambda: self._membership.pause(group, length_ms=length_ms, by=by, reason=reason),
        )

    def resume(self, group: str) -> None:
        """Let a paused group continue where it stopped."""
        self._life.on_loop(f"resume({group!r})", lambda: self._membership.resume(group))

    def resize(self, group: str, concurrency: int) -> None:
        """Run `concurrency` handlers of this group at once from now on. Running handlers finish, and count."""
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise ArgumentWrong(
                f"resize({group!r}, {concurrency}): write a number from 1 to {CONCURRENCY_MAX}; to have none, pause it"
            )
        self._life.on_loop(f"resize({group!r})", lambda: self._membership.change(group, concurrency=concurrency))

    def subscribe(self, consumer: Consumer[..., Any]) -> None:
        """Let a running group consume another topic, or a topic of its own in another way (tags, `sql`, handler).

        Its queues are pulled within about a second. Queues of a topic that changes are released and acquired again.
        """
        (consumer,) = consumers_in(consumer, "subscribe")
        group, topic = consumer.spec.group, consumer.spec.topic

        def change() -> None:
            running = self._membership.find(group)
            check_open(consumer, self._resources.values)
            consumers = with_consumer(self.consumers, consumer)
            self._membership.resubscribe(running, topic, self._planned(self.settings, consumers))
            self.consumers = consumers

        self._life.on_loop(f"subscribe({topic!r})", change)

    def unsubscribe(self, group: str, topic: str) -> None:
        """Let a running group leave this topic: handlers finish, offsets are confirmed, locks released."""

        def change() -> None:
            running = self._membership.find(group)
            consumers = without_topic(self.consumers, group, topic)
            self._membership.resubscribe(running, topic, self._planned(self.settings, consumers))
            self.consumers = consumers

        self._life.on_loop(f"unsubscribe({group!r}, {topic!r})", change)

    def adopt(self, settings: AppSettings) -> None:
        """Apply the live settings among these. If the application could not start with them, ConfigurationError is
        raised and nothing changes.
        """

        def change() -> None:
            wanted = [change for change in changes(self.settings, settings) if change.kind is Kind.LIVE]
            findings = Findings()
            groups = {*(each.spec.group for each in self.consumers), *self.elsewhere, *self.settings.consumers}
            findings.note(*unknown_groups(settings, groups), *self.plugins.mistakes_in(settings.plugins, settings))
            planned = partial(
                group_plans, host=self.plugins, reports=Reports(None, self.world.workers), world=self.world
            )
            plans = findings.tried(lambda: planned(settings, self.consumers, onces=self._onces)) or []
            findings.tried(lambda: groups_of_engines(settings, self.consumers, self.plugins))
            findings.check()
            self.settings = taken_over(self.settings, wanted)
            for change in wanted:
                if change.path == ("app", "drain"):
                    self._drain_ms = change.after
            self._membership.adopt(wanted, plans)

        self._life.on_loop("adopt", change)

    # Pictures

    @property
    def _groups(self) -> list[ConsumerGroup]:
        return self._membership.groups

    @property
    def member(self) -> str:
        """The client id, by which brokers and other members know this process."""
        return self._membership.joining.member(self.worker)

    @property
    def counts(self) -> MessageCounts:
        """Counts of messages, all groups together."""
        return total([*(group.counts for group in self._groups), *self._engines.counts])

    def idle_ms(self) -> int:
        """How long nothing was handled and no message waited, in milliseconds; 0 while there is work."""
        return idle_ms(self._groups, self._engines.idle_ms, self.world.clock) if self.is_ready else 0

    @property
    def stopping(self) -> Stopping:
        """What its end may take, and what it waits for. From any thread, also while the event loop is blocked."""
        hanging = sum(group.kind.pool.hanging for group in self._groups)
        return Stopping(self._drain_ms, self._control.running, hanging)

    @property
    def is_ready(self) -> bool:
        """Whether every group has joined, is balanced, has all its workers and does not wait for its `ready_when`;
        brokers store retries, no group is only partly orderly, no queue is stalled, and no internal loop has just
        failed. False as soon as a stop was requested. `snapshot().not_ready` says why not.
        """
        return next(self._reasons(), None) is None

    def snapshot(self) -> Snapshot:
        """The state of the application now."""
        membership, settings, calls = self._membership, self.settings, self.plugins.calls
        not_ready, phase = tuple(self._reasons()), self._life.phase
        of_group = self._figures.of
        return Snapshot(
            name=settings.app.name,
            member=self.member,
            is_ready=not not_ready,
            groups=tuple(
                group_picture(group, settings.consumer(name), self._clock, of_group(name), membership.pauses.of(name))
                for group in self._groups
                for name in [group.plan.own_name]
            ),
            budget_used=membership.budget.used,
            budget_limit=membership.budget.limit,
            name_servers=tuple(settings.cluster.name_servers),
            started_ms=self._started_ms,
            dormant=membership.dormant.names,
            hook_failures={**self.plugins.unfailing, **calls.failures},
            slow_hooks={**self.plugins.unfailing, **calls.slow},
            plugin_figures=calls.figures(),
            engines=self._engines.pictures(self._figures),
            clock=self._clock.picture(),
            held_back=dict(membership.joining.held),
            host=membership.joining.host,
            session=membership.joining.session,
            lost_lines=lost_lines(),
            failed_loops=tuple(
                LoopSnapshot(name, each.count, each.reason, stands_back=each.standing_back > 0)
                for name, each in membership.failed_loops.items()
            ),
            not_ready=not_ready,
            not_live=tuple(why_not_live(membership, self._engines)),
            phase="starting" if phase == "running" and not self._is_started else phase,
            taken_ms=self.world.clock.now_ms(),
            up_ms=int((self.world.clock.monotonic() - self._started_at) * 1000) if self._started_at else 0,
            namespace=settings.cluster.namespace,
            process=self.world.identity.process,
            worker=self.worker,
            stalls=self._control.stalls(),
            sends=self._sends.times.picture() if self._sends is not None else None,
            sent=dict(self._sends.messages) if self._sends is not None else {},
            replies=self.cluster.counted_replies() if self.cluster is not None else {},
        )

    def __repr__(self) -> str:
        return f"<App {self.settings.app.name} {self.member}: {len(self._groups)} groups>"


async def _drain(
    groups: Sequence[ConsumerGroup], engines: EngineGroups, plugin_tasks: PluginTasks, drain_ms: int
) -> None:
    """In this order: no new queues, no new handlers, running ones end, offsets confirmed. Groups are left behind it."""
    tree = TaskTree()
    stopping = [tree.start(group.stop(drain_ms), name=f"stop {group.plan.name}") for group in groups]
    stopping.append(tree.start(engines.stop(drain_ms), name="stop engines"))
    if plugin_tasks:
        stopping.append(tree.start(plugin_tasks.end(drain_ms), name="stop plugins' work"))
    for task in stopping:
        await task
