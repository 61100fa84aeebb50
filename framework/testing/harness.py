"""Harness: tests your application with the real runtime, a real broker in memory, and virtual time.

    def test_a_declined_card_is_tried_again() -> None:
        with Harness("example_app") as desk:
            desk.send("orders", '{"number": "1", "cents": 2500}', tags="created")
            events = desk.settle()

        assert ["retry", "handled"] == [event["event"] for event in events]

Plain functions, no event loop of yours, no fixture, nothing patched: hours of retries pass in a second, and two
harnesses know nothing of each other. If a handler reaches outside (a socket, a thread, `asyncio.to_thread`), it gets a
SimEscape that says so; pass it a fake instead, or test it against `framework-app dev`.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from framework.broker.settings import BrokerSettings
from framework.broker.store.topics import Topic
from framework.client.outgoing import SendResult
from framework.declare import Consumer
from framework.errors import Findings, nearest, shorten
from framework.hooks.host import PluginHost
from framework.mistakes import ArgumentWrong, GroupUnknown, NothingToRun
from framework.model import death_reason
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.snapshot import Snapshot
from framework.runtime.app import App
from framework.runtime.plans.collect import check, consumers_in, gather, unknown_groups
from framework.runtime.plans.groups import look
from framework.settings.mistakes import without_mistaken
from framework.settings.schema import AppSettings
from framework.testing import contents
from framework.testing.cluster import Cluster
from framework.testing.errors import Violation
from framework.testing.sim.logs import hear_logs
from framework.testing.sim.virtual_loop import VirtualLoop

T = TypeVar("T")
Event = dict[str, Any]
START_S = 60.0
LOOK_EACH_S, LOOK_MAX_S = 0.25, 5.0
QUEUES = 4
SETTLE = "12h"
"""Sixteen retries take 4 h 46 min."""


class Harness:
    """One application and one broker, started by the `with` statement and stopped at its end."""

    def __init__(
        self,
        app: App | Consumer[..., Any] | Sequence[Consumer[..., Any]] | str,
        *,
        settings: AppSettings | Mapping[str, Any] | None = None,
        plugins: PluginHost | None = None,
        seed: int = 0,
    ) -> None:
        """`app`: an App, one consumer or several, or what `framework-app run` accepts. `settings`: as in YAML.

        Raises ConfigurationError, or several in one, for what `framework-app check` would refuse.
        """
        if isinstance(app, App):
            settings, plugins = settings or app.settings, plugins or app.plugins
        self._app, self._plugins = app, plugins
        chosen, consumers, host = self._checked(settings)
        self.events: list[Event] = []
        """Every delivery that was settled, in order, as `framework-app run --json` prints it."""
        self._seen = 0
        self._sent: set[str] = set()
        self._topics = sorted({consumer.spec.topic for consumer in consumers})
        self._groups = sorted({consumer.spec.group for consumer in consumers})
        self._cluster = Cluster(
            VirtualLoop(seed),
            consumers=consumers,
            settings=chosen,
            broker_settings=BrokerSettings(topic_queues=QUEUES),
            plugins=host,
        )
        self._cluster.add_app()
        self._cluster.on_app = self._listen
        self._is_open, self._thread = False, 0

    def __repr__(self) -> str:
        return f"<Harness {', '.join(self._groups)} at {self.now:.3f}s>"

    def _checked(
        self, settings: AppSettings | Mapping[str, Any] | None
    ) -> tuple[AppSettings, list[Consumer[..., Any]], PluginHost]:
        findings = Findings()
        chosen = _settings(settings, findings)
        # One application has this cluster to itself, and names are what its handlers call them.
        chosen = chosen.model_copy(update={"cluster": chosen.cluster.model_copy(update={"namespace": ""})})
        consumers = _consumers(self._app, chosen, findings)
        host = self._plugins or PluginHost(chosen.plugins, chosen, tolerant=True)
        look(chosen, consumers, host, findings)
        findings.check()
        return chosen, consumers, host

    # -- life

    def __enter__(self) -> Self:
        hear_logs()
        self._is_open, self._thread = True, threading.get_ident()
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._run(self._cluster.leave_all())
        finally:
            self._is_open = False
            self._cluster.loop.bury()
            for machine in self._cluster.machines:
                machine.disk.close()
        if error is None:
            self._check()

    async def _start(self) -> None:
        cluster = self._cluster
        await cluster.start_broker()
        assert cluster.broker.broker is not None
        for node in cluster.broker.broker.nodes:
            for topic in self._topics:
                node.rules.add(Topic(name=topic, read_queues=QUEUES, write_queues=QUEUES))
        await cluster.start_producer()
        await self._start_app()

    async def _start_app(self) -> None:
        cluster = self._cluster
        cluster.start_app(cluster.apps[0])
        until = cluster.loop.now + START_S
        while not self._has_positions():
            self._check()
            if cluster.loop.now > until:
                raise Violation(
                    "the application starts", f"not within {START_S:g}s: {self.snapshot()}", cluster.loop.now
                )
            await asyncio.sleep(LOOK_EACH_S)

    def _has_positions(self) -> bool:
        """Every queue knows where it begins, so that what is sent from now on is after that place. After a restart the
        handlers may fail all at once, so that a breaker is open by now.
        """
        snapshot = self.snapshot()
        queues = [queue for group in snapshot.groups for queue in group.queues]
        is_ready = snapshot.is_ready or any(group.breakers for group in snapshot.groups)
        return is_ready and all(queue.state == "flowing" or queue.reason == "breaker" for queue in queues)

    def _listen(self, app: App) -> None:
        app.on_event = self.events.append

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._cluster.loop.run_until_complete(work)
        finally:
            if collects:
                gc.enable()

    def _check_open(self) -> None:
        assert self._is_open, "use the harness inside its `with` statement"
        assert threading.get_ident() == self._thread, "use the harness in the thread that entered its `with` statement"

    def _check(self) -> None:
        """A breakdown inside is the test's failure, whatever the test asked."""
        for breakdown in self._cluster.breakdowns:
            raise breakdown
        for complaint in self._cluster.loop.complaints:
            raise Violation("nothing unexpected", f"{complaint['message']}: {complaint.get('exception')!r}", self.now)

    # -- doing things

    def send(
        self,
        message: Message | str,
        body: object = None,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        delay: str | float | None = None,
        delay_level: int = 0,
    ) -> SendResult:
        """Send as `Producer.send` does; returns when the broker has stored it. Nothing has been handled yet."""
        self._check_open()

        async def sending() -> SendResult:
            cluster = self._cluster
            assert cluster.producing is not None
            assert cluster.producer.node is not None
            work = cluster.producing.send(
                message, body, tags=tags, keys=keys, properties=properties, order_key=order_key, delay=delay,
                delay_level=delay_level,
            )  # fmt: skip
            return await cluster.loop.spawn(cluster.producer.node, work, name="send")

        result = self._run(sending())
        self._sent.add(result.message_id)
        return result

    def settle(self, *, within: str = SETTLE) -> list[Event]:
        """Let time pass until everything sent is finished, retries and all; the events since the last call."""
        self._check_open()
        assert self._cluster.apps[0].is_alive, "the application has crashed: restart() it before it can settle anything"
        self._run(self._settled(to_ms(within) / 1000))
        self._check()
        news = self.events[self._seen :]
        self._seen = len(self.events)
        return news

    async def _settled(self, seconds: float) -> None:
        cluster = self._cluster
        until, seen, pause = cluster.loop.now + seconds, 0, LOOK_EACH_S
        while not cluster.is_drained():
            self._check()
            if cluster.loop.now > until:
                left = "; ".join(contents.listed(cluster.owed()))
                raise Violation("everything is handled", f"not within {seconds:g}s: {left}", cluster.loop.now)
            # Looked at often while things happen, seldom while a retry waits for its hour.
            seen, pause = len(self.events), LOOK_EACH_S if seen < len(self.events) else min(pause * 1.5, LOOK_MAX_S)
            await asyncio.sleep(pause)

    def sleep(self, length: str | float) -> None:
        """Let so much virtual time pass."""
        self._check_open()
        self._run(asyncio.sleep(to_ms(length) / 1000))

    def crash(self) -> None:
        """Kill the application, as SIGKILL does: what it was at is lost. The broker goes on; `restart` starts it."""
        self._check_open()
        self._cluster.crash(self._cluster.apps[0])

    def restart(self, *, settings: AppSettings | Mapping[str, Any] | None = None) -> None:
        """Stop the application in order, as a deployment does (it drains), unless it crashed; then start it again.

        `settings`: with these in place of those before; checked before anything stops.
        """
        self._check_open()
        changed = None if settings is None else self._checked(settings)

        async def restarting() -> None:
            if self._cluster.apps[0].is_alive:
                await self._cluster.leave_all()
            if changed is not None:
                self._cluster.configure(changed[0], changed[2])
            await self._start_app()

        self._run(restarting())
        self._check()

    # -- looking

    def _check_group(self, group: str | None) -> None:
        """That there is nothing of a mistyped one is no answer."""
        if group is not None and group not in self._groups:
            raise GroupUnknown(f"no handler is in group {group!r}{nearest(group, self._groups)}")

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self._cluster.loop.now

    def published(self, topic: str | None = None) -> list[Message]:
        """What handlers sent, to this topic or to all, oldest first. A delayed message counts once it is due."""
        broker = self._cluster.broker.broker
        found = [] if broker is None else contents.ordinary(broker)
        return [each for each in found if topic in {None, each.topic} and each.message_id not in self._sent]

    def attempts(self, message: Message | SendResult | DeadMessage | str, group: str | None = None) -> list[Event]:
        """The deliveries of this message that were settled, in order, as in `events`; of one group, or of all.

        A message id stands for its message. A delivery that a crash cut short is not among them.
        """
        self._check_group(group)
        wanted = message if isinstance(message, str) else message.message_id
        return [each for each in self.events if each["message_id"] == wanted and group in {None, each["group"]}]

    def dead_letters(self, group: str | None = None) -> list[DeadMessage]:
        """The dead letters of a group, or of all, with their reasons; of each group the oldest first."""
        self._check_group(group)
        broker = self._cluster.broker.broker
        groups = self._groups if group is None else [group]
        if broker is None:
            return []
        return [DeadMessage(name, each) for name in groups for each in contents.dead_messages(broker, name)]

    def snapshot(self) -> Snapshot:
        """The state of the application now."""
        app = self._cluster.apps[0].app
        assert app is not None, "use the harness inside its `with` statement"
        return app.snapshot()

    @property
    def logs(self) -> list[Event]:
        """The log lines, as dictionaries."""
        return [dict(line) for line in self._cluster.logs]


def _settings(given: AppSettings | Mapping[str, Any] | None, findings: Findings) -> AppSettings:
    """Without what is wrong, which is noted."""
    if isinstance(given, AppSettings):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentWrong(f"Harness: settings={shorten(given)}: give a dict as in YAML, or AppSettings")
    values = dict(given or {})
    parsed = AppSettings.parsed(values, {})
    if isinstance(parsed, AppSettings):
        return parsed
    findings.note(*parsed)
    return AppSettings.model_validate(without_mistaken(AppSettings, values))


def _consumers(app: object, settings: AppSettings, findings: Findings) -> list[Consumer[..., Any]]:
    if isinstance(app, str):
        return gather(settings, app, findings)
    consumers = consumers_in(app.consumers if isinstance(app, App) else app, "Harness")
    if not consumers:
        raise NothingToRun("Harness: there is no consumer; mark a function with @consumer(topic, group)")
    findings.note(*check(consumers, settings))
    groups = [*(each.spec.group for each in consumers), *(app.elsewhere if isinstance(app, App) else ())]
    # A file has the settings of a whole application, of which a test may take one group.
    findings.note(*(each for each in unknown_groups(settings, groups) if each.place is None))
    return consumers


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """One message in a group's dead-letter queue."""

    group: str
    message: Message
    """As it is stored."""

    @property
    def reason(self) -> str:
        """What the handler answered or raised; empty where its broker gave it up."""
        return self.message.properties.get(death_reason.REASON, "")

    @property
    def error(self) -> str:
        """The class of the exception; empty where the handler answered, or took too long."""
        return self.message.properties.get(death_reason.ERROR, "")

    @property
    def attempts(self) -> int:
        """How often a handler was called for it."""
        return int(self.message.properties.get(death_reason.ATTEMPTS, self.message.attempt))

    @property
    def message_id(self) -> str:
        return self.message.message_id

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def properties(self) -> Mapping[str, str]:
        return self.message.properties

    def __getattr__(self, name: str) -> Any:
        """All else that a message has."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.message, name)
