"""Groups that an engine consumes by itself: we start, watch and stop them as our own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TypeVar

import structlog

from framework.core.limits import LATE_MS
from framework.declare import Consumer, ConsumerSpec
from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, bare, nearest, retold
from framework.hooks.failures import plugin_failure, plugin_failure_awaited
from framework.hooks.host import PluginHost
from framework.mistakes import GroupClash, GroupUnknown, OfferWrong, OptionWrong, SettingUseless
from framework.model.contracts import Counting, NamesGroups, Runner, Taken, TakesGroups, Taking
from framework.model.namespaces import unwrap, wrap
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.model.snapshot import EngineSnapshot
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.runtime.plans.collect import max_retries_of
from framework.services.pool.run import MessageCounts
from framework.settings.schema import AppSettings

log = structlog.get_logger()
T = TypeVar("T")

COUNTED = ("handled", "retried", "dead_lettered")
SETTINGS = ("max_retries", "start")
"""Of a group's, those that mean something to an engine; others are for what we do ourselves, and refused."""


@dataclass(slots=True)
class _Group:
    taking: Taking
    engine: str
    job: Taken
    task: asyncio.Task[None] | None = None
    has_failed: bool = False
    error: str = ""
    """What its run ended with, where that raised."""

    @property
    def own_name(self) -> str:
        return unwrap(self.taking.cluster.namespace, self.taking.group)

    def ask(self, question: Callable[[Taken], T], otherwise: T) -> T:
        """What the engine says of it while it runs. What it raises is said once, and hurts no snapshot and no stop."""
        try:
            return question(self.job)
        except BaseException as error:  # border: a plugin's code
            plugin_failure(error)
            if not self.has_failed:
                self.has_failed = True
                log.exception("engine failed", engine=self.engine, group=self.taking.group)
            return otherwise


def is_engine_group(spec: ConsumerSpec, settings: AppSettings, host: PluginHost) -> bool:
    """Whether the consumer's engine reads by itself."""
    runner: object = host.runners.get(spec.engine) if spec.engine else None
    if not isinstance(runner, TakesGroups):
        return False
    return bool(engine_answer(spec, "takes", lambda: runner.takes(unwrap(settings.cluster.namespace, spec.group))))


def engine_answer(spec: ConsumerSpec, method: str, call: Callable[[], T]) -> T:
    """What an engine answers; whatever it raises is a mistake at the handler that names it."""
    try:
        return call()
    except ConfigurationError as error:
        if error.place is not None or isinstance(error, ConfigurationMistakes):
            raise
        raise retold(error, f"consumer {spec.name!r}: {error}", place=spec.place) from error
    except BaseException as error:  # border: a plugin's code
        plugin_failure(error)
        reason = f"engine {spec.engine!r}: {method}() failed: {type(error).__name__}: {error}"
        raise OfferWrong(f"consumer {spec.name!r}: {reason}", place=spec.place) from error


def groups_of_engines(
    settings: AppSettings, consumers: Sequence[Consumer[..., object]], host: PluginHost
) -> list[tuple[ConsumerSpec, TakesGroups, Taking]]:
    """Handlers whose engine consumes their group by itself. Raises ConfigurationError, or several, where one cannot."""
    findings, found = Findings(), []
    specs = [consumer.spec for consumer in consumers]
    for spec in specs:
        if not findings.tried(partial(is_engine_group, spec, settings, host)):
            continue
        runner: object = host.runners[spec.engine]
        assert isinstance(runner, TakesGroups), "or it would not take the group"
        findings.note(
            *_mistakes(spec, [each for each in specs if each is not spec and each.group == spec.group], settings)
        )
        taking = findings.tried(partial(_taking, spec, settings))
        if taking is not None:
            found.append((spec, runner, taking))
    findings.check()
    return found


def strange_groups(
    settings: AppSettings,
    consumers: Sequence[Consumer[..., object]],
    host: PluginHost,
    elsewhere: Collection[str] = (),
) -> list[ConfigurationError]:
    """What engines' settings say about groups that have no handler of theirs, here or in the processes `elsewhere`."""
    mistakes: list[ConfigurationError] = []
    namespace = settings.cluster.namespace
    for engine, runner in host.runners.items():
        named: object = runner
        if not isinstance(named, NamesGroups):
            continue
        groups = {unwrap(namespace, each.spec.group) for each in consumers if each.spec.engine == engine}
        groups |= {unwrap(namespace, group) for group in elsewhere}
        for group, path in named.named.items():
            if group not in groups:
                known = nearest(group, groups) or f"; groups: {', '.join(sorted(groups)) or 'none'}"
                message = f"{'.'.join(path)}: no handler with engine={engine!r} is in this group{known}"
                mistakes.append(GroupUnknown(message, place=settings.place(*path)))
    return mistakes


class EngineGroups:
    """Those of one application."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._groups: list[_Group] = []

    def find(self, settings: AppSettings, consumers: Sequence[Consumer[..., object]], host: PluginHost) -> None:
        """Find them. Nothing is started; raises ConfigurationError, or several, for what cannot work."""
        findings = Findings()
        for spec, runner, taking in groups_of_engines(settings, consumers, host):
            job = findings.tried(partial(engine_answer, spec, "taken", partial(runner.taken, taking)))
            if job is not None:
                self._groups.append(_Group(taking, spec.engine, job))
        findings.check()

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def topics(self) -> list[str]:
        return [each.taking.topic for each in self._groups]

    @property
    def idle_ms(self) -> list[int]:
        return [each.ask(lambda job: job.idle_ms, 0) for each in self._groups]

    @property
    def counts(self) -> list[MessageCounts]:
        """What became of messages, a group each; nothing of one whose engine fails to say."""
        return [_counts(each) for each in self._groups]

    def start(self, tree: TaskTree) -> None:
        for each in self._groups:
            each.task = tree.start(self._run(each), name=f"{each.engine} {each.taking.group}")

    async def _run(self, group: _Group) -> None:
        try:
            await self._workers.run(group.job.run)
        except BaseException as error:  # border: a plugin's code. It goes over its own troubles; this is a mistake
            plugin_failure_awaited(error)
            group.error = bare(f"{type(error).__name__}: {error}")
            log.exception("engine failed", engine=group.engine, group=group.taking.group)

    async def stop(self, drain_ms: int) -> None:
        """Returns when all have ended, or when they had time enough."""
        tasks = [each.task for each in self._groups if each.task is not None]
        for each in self._groups:
            each.ask(lambda job: job.stop(drain_ms), None)
        if tasks:
            try:
                async with asyncio.timeout((drain_ms + LATE_MS) / 1000):
                    for task in tasks:
                        await task
            except TimeoutError:
                log.warning("engines left running", tasks=sorted(each.get_name() for each in tasks if not each.done()))

    def pictures(self, figures: EngineFigures) -> tuple[EngineSnapshot, ...]:
        return tuple(
            EngineSnapshot(
                each.taking.group,
                each.taking.topic,
                each.engine,
                each.ask(lambda job: dict(job.picture), {}),
                figures.of(each.own_name),
                each.ask(lambda job: dict(job.lag), {}),
                {name: getattr(counts, name) for name in COUNTED},
                each.own_name,
            )
            for each, counts in zip(self._groups, self.counts, strict=True)
        )

    @property
    def failed(self) -> Iterator[str]:
        """Groups that nobody consumes any more, each with its reason; what runs them goes over its own troubles."""
        for each in self._groups:
            if each.error:
                yield f"group {each.own_name}: its engine {each.engine} has ended: {each.error}"


def _counts(group: _Group) -> MessageCounts:
    def counted(job: Taken) -> MessageCounts:
        found = job.counts
        return MessageCounts(*(int(found.get(name, 0)) for name in COUNTED))

    return group.ask(counted, MessageCounts())


def _mistakes(
    spec: ConsumerSpec, others: Sequence[ConsumerSpec], settings: AppSettings
) -> Iterator[ConfigurationError]:
    """What cannot be where an engine consumes the group by itself."""
    group = unwrap(settings.cluster.namespace, spec.group)
    if others:
        yield GroupClash(
            f"group {group!r}: the engine {spec.engine!r} consumes the whole group with one handler, "
            f"{spec.name} ({spec.place}); give {others[0].name} its own group",
            place=others[0].place,
        )
    for option, is_set, instead in (
        ("broadcasting", spec.broadcasting, ""),
        ("retry", spec.retry is not None, ", and write consumers.GROUP.max_retries"),
    ):
        if is_set:
            yield OptionWrong(
                f"consumer {spec.name!r}: {option}= has no effect, because the engine {spec.engine!r} consumes the "
                f"group; remove it{instead}",
                place=spec.place,
            )
    for name in sorted(settings.consumer(group).model_fields_set.difference(SETTINGS)):
        yield SettingUseless(
            f"consumers.{group}.{name}: the engine {spec.engine!r} consumes this group, so only "
            f"{' and '.join(SETTINGS)} have an effect; remove it",
            place=settings.place("consumers", group, name),
        )


def _taking(spec: ConsumerSpec, settings: AppSettings) -> Taking:
    namespace = settings.cluster.namespace
    group = unwrap(namespace, spec.group)
    chosen = settings.consumer(group)
    return Taking(
        name=spec.name,
        function=spec.function,
        group=check_name("group", wrap(namespace, group), GROUP_LENGTH_MAX),
        topic=check_topic(wrap(namespace, spec.topic)),
        tags=spec.tags,
        sql=spec.sql,
        batch=spec.batch,
        linger_ms=spec.linger_ms,
        max_retries=max_retries_of(chosen, spec),
        start=chosen.start,
        cluster=settings.cluster,
    )


class EngineFigures:
    """What an application's engines count of the groups whose handlers they run. An error of theirs is logged once."""

    def __init__(self, runners: Mapping[str, Runner]) -> None:
        found: dict[str, object] = dict(runners)
        self._counting = {name: runner for name, runner in found.items() if isinstance(runner, Counting)}
        self._failed: set[str] = set()

    def of(self, group: str) -> dict[str, float]:
        """By the group's name in the settings."""
        figures: dict[str, float] = {}
        for name, runner in self._counting.items():
            try:
                figures.update({str(name): value for name, value in runner.figures(group).items() if isfinite(value)})
            except BaseException as error:  # border: a plugin's
                plugin_failure(error)
                if name not in self._failed:
                    self._failed.add(name)
                    log.exception("engine counts unavailable", engine=name)
        return figures
