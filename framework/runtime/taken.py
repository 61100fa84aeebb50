"""Groups that their engine consumes by itself: started, asked and stopped as ours are. How they read is its affair."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from framework.declare import Consumer, ConsumerSpec
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.contracts import Taken, TakesGroups, Taking
from framework.model.namespaces import unwrap, wrap
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.model.snapshot import EngineSnapshot
from framework.net.task_tree import TaskTree
from framework.ports import Workers
from framework.runtime.collect import max_retries_of
from framework.runtime.counting import EngineFigures
from framework.settings.schema import AppSettings

log = structlog.get_logger()

SETTINGS = ("max_retries", "start")
"""Of a group's, those that mean something to an engine; others are for what we do ourselves, and refused."""
LATE_MS = 10_000  # beyond the drain limit: for an engine to give up what still runs


@dataclass(slots=True)
class _Group:
    taking: Taking
    engine: str
    taken: Taken
    task: asyncio.Task[None] | None = None


def takes(spec: ConsumerSpec, settings: AppSettings, host: PluginHost) -> bool:
    """Whether the consumer's engine reads by itself."""
    runner: object = host.runners.get(spec.engine) if spec.engine else None
    return isinstance(runner, TakesGroups) and runner.takes(unwrap(settings.cluster.namespace, spec.group))


class TakenGroups:
    """Those of one application."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._groups: list[_Group] = []

    def take(self, settings: AppSettings, consumers: Sequence[Consumer[..., object]], host: PluginHost) -> None:
        """Find them. Nothing is started; raises ConfigurationError for what cannot work."""
        specs = [consumer.spec for consumer in consumers]
        for spec in specs:
            if not takes(spec, settings, host):
                continue
            others = [other for other in specs if other is not spec and other.group == spec.group]
            runner: object = host.runners[spec.engine]
            assert isinstance(runner, TakesGroups), "or it would not take the group"
            taking = _taking(spec, others, settings)
            self._groups.append(_Group(taking, spec.engine, runner.taken(taking)))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def topics(self) -> list[str]:
        return [each.taking.topic for each in self._groups]

    @property
    def idle_ms(self) -> list[int]:
        return [each.taken.idle_ms for each in self._groups]

    def start(self, tree: TaskTree) -> None:
        for each in self._groups:
            each.task = tree.start(self._run(each), name=f"{each.engine} {each.taking.group}")

    async def _run(self, group: _Group) -> None:
        try:
            await self._workers.run(group.taken.run)
        except Exception:  # border: a plugin's code. It goes over its own troubles; this one is a mistake of its
            log.exception("engine failed", engine=group.engine, group=group.taking.group)

    async def stop(self, drain_ms: int) -> None:
        """Returns when all have ended, or when they had time enough."""
        tasks = [each.task for each in self._groups if each.task is not None]
        for each in self._groups:
            each.taken.stop(drain_ms)
        if tasks:
            try:
                async with asyncio.timeout((drain_ms + LATE_MS) / 1000):
                    for task in tasks:
                        await task
            except TimeoutError:
                log.warning("engines still at work", tasks=sorted(each.get_name() for each in tasks if not each.done()))

    def pictures(self, figures: EngineFigures) -> tuple[EngineSnapshot, ...]:
        return tuple(
            EngineSnapshot(
                each.taking.group,
                each.taking.topic,
                each.engine,
                dict(each.taken.picture),
                figures.of(unwrap(each.taking.cluster.namespace, each.taking.group)),
                dict(each.taken.lag),
            )
            for each in self._groups
        )


def _taking(spec: ConsumerSpec, others: Sequence[ConsumerSpec], settings: AppSettings) -> Taking:
    namespace = settings.cluster.namespace
    group = unwrap(namespace, spec.group)
    if others:
        raise ConfigurationError(
            f"group {group!r}: the engine {spec.engine!r} consumes it by itself, so it has one handler: {spec.name}; "
            f"give {others[0].name} a group of its own",
            place=others[0].place,
        )
    if spec.retry is not None or spec.broadcasting:
        option = "broadcasting" if spec.broadcasting else "retry"
        raise ConfigurationError(
            f"consumer {spec.name!r}: {option}= has no meaning where the engine {spec.engine!r} consumes the group by "
            f"itself; remove it{', and write consumers.GROUP.max_retries' if option == 'retry' else ''}",
            place=spec.place,
        )
    chosen = settings.consumer(group)
    for name in sorted(chosen.model_fields_set.difference(SETTINGS)):
        raise ConfigurationError(
            f"consumers.{group}.{name}: the engine {spec.engine!r} consumes this group by itself, where only "
            f"{' and '.join(SETTINGS)} have a meaning; remove it",
            place=settings.place("consumers", group, name),
        )
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
