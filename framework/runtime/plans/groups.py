"""Settings, consumers and plugins become plans of groups. Wiring only: nothing is awaited, opened or started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from framework.core.ranges import key_of
from framework.core.skipping import SkipRules
from framework.declare import Consumer, ConsumerSpec
from framework.declare.arguments import Argument
from framework.errors import ConfigurationError, Findings, nearest
from framework.hooks.host import PluginHost
from framework.hooks.validated import choose, named
from framework.mistakes import FolderUnusable, NameUnknown, SettingUseless
from framework.model.contracts import ProgressStore
from framework.model.message import Message
from framework.model.namespaces import unwrap, unwrapping, wrap
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.model.subscription import BY_SQL, Subscription
from framework.net.real_world import real_world
from framework.ports import World
from framework.runtime.engine_groups import engine_answer, is_engine_group
from framework.runtime.group.plan import GroupPlan, Handling, Keeping
from framework.runtime.plans.codecs import with_codec
from framework.runtime.plans.collect import (
    AnyConsumer,
    max_retries_of,
    mixture,
    over_maximum,
    same_topic,
    without_meaning,
)
from framework.runtime.plans.connect import check_keys, check_tls
from framework.runtime.plans.stores import Onces, folder_of, once_for
from framework.runtime.reports import Reports
from framework.services.call.batch_calls import batching_for, one_of
from framework.services.call.deliver import DeliveryHooks, Rules, call_for, is_awaited, judging_for
from framework.services.call.exits import ExitGuard
from framework.services.call.once import Once
from framework.services.call.publishing import Means
from framework.services.call.resources import AnyResource
from framework.services.call.trace import ConsumeTrace
from framework.services.call.undecodable import Undecodable
from framework.services.offsets.local_offsets import OffsetFiles
from framework.services.orderly.desk import contained, sharding_key
from framework.services.recurring import Recurring
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings

ENGINES = {"spark": "framework-app-spark"}
"""The packages of our own plugins with an engine."""
AUTO = "auto"
"""The store that a group has of itself, from the first gap that lasts: `topic`, or `local` where that may not be."""


def group_plans(
    settings: AppSettings,
    consumers: Sequence[Consumer[..., object]],
    host: PluginHost,
    reports: Reports,
    world: World,
    *,
    worker: int = 0,
    means: Means | None = None,
    traces: dict[str, ConsumeTrace] | None = None,
    onces: Onces | None = None,
) -> list[GroupPlan]:
    """One plan a group, in the order of their names; raises ConfigurationError for what cannot work.

    `traces` are those of groups that run already, by name; new ones are added; so is what `onces` remember.
    """
    findings = Findings()
    by_group: dict[str, list[ConsumerSpec]] = {}
    for consumer in consumers:
        if findings.tried(partial(is_engine_group, consumer.spec, settings, host)) is not False:
            continue
        spec = findings.tried(partial(_prepared, consumer.spec, settings, host))
        group = unwrap(settings.cluster.namespace, consumer.spec.group)
        # One that cannot be prepared counts among its group's all the same: what is wrong with those is said, too.
        by_group.setdefault(group, []).append(spec or consumer.spec)
    parts = _Parts(
        settings, host, reports, world, world.clock.now_ms(), worker, means or Means(workers=world.workers),
        {} if traces is None else traces, {} if onces is None else onces,
    )  # fmt: skip
    found = [findings.tried(partial(_plan, group, specs, parts, findings)) for group, specs in sorted(by_group.items())]
    findings.check()
    return [plan for plan in found if plan is not None]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What every plan is put together from."""

    settings: AppSettings
    host: PluginHost
    reports: Reports
    world: World
    version: int
    worker: int
    means: Means
    traces: dict[str, ConsumeTrace]
    onces: Onces


def _plan(group: str, specs: list[ConsumerSpec], parts: _Parts, findings: Findings) -> GroupPlan | None:
    """None where something is wrong, which is noted: all of it, for one look at it should do."""
    settings, host, world, traces = parts.settings, parts.host, parts.world, parts.traces
    chosen, namespace = settings.consumer(group), settings.cluster.namespace
    orderly, broadcasting = specs[0].orderly, specs[0].broadcasting
    tried, own = findings.tried, len(findings)
    name = tried(lambda: check_name("group", wrap(namespace, group), GROUP_LENGTH_MAX))
    by_topic = {tried(partial(check_topic, wrap(namespace, spec.topic))): spec for spec in specs}
    findings.note(*same_topic(specs, namespace))
    mistake = mixture(specs)
    if mistake is not None:
        findings.note(mistake)
    else:
        findings.note(*without_meaning(group, specs[0], settings))
    findings.note(*over_maximum(specs, settings))
    path = ("consumers", group, "allocation")
    strategy = tried(lambda: choose(chosen.allocation, host.strategies, path, settings, host.contained))
    for_expiry = ("consumers", group, "expiry")
    expiry = tried(lambda: named("expiry policy", chosen.expiry, host.expiry_policies, for_expiry, settings))
    once = tried(lambda: once_for(group, specs, settings, host.dedup_stores, world, parts.onces))
    gates = tried(lambda: _gates(group, specs, settings))
    place = tried(lambda: _place(name or group, settings, parts.worker)) if broadcasting else None
    progress = tried(lambda: _keeping(group, settings, host.progress_stores, specs[0]))
    if len(findings) > own or name is None or strategy is None or expiry is None or once is None or gates is None:
        return None

    if chosen.trace and group not in traces:
        traces[group] = ConsumeTrace(group, chosen.trace_topic, world)
    trace = traces[group] if chosen.trace else None

    def inside(handling: Handling) -> Handling:
        return _without_namespace(handling, namespace) if namespace else handling

    return GroupPlan(
        name=name,
        subscriptions=tuple(_subscription(topic, spec, parts.version) for topic, spec in by_topic.items() if topic),
        handling={
            topic: inside(_handling(spec, chosen, parts, trace, once.get(spec.topic)))
            for topic, spec in by_topic.items()
            if topic
        },
        settings=chosen,
        max_retries=max_retries_of(chosen, specs[0]),
        strategy=strategy,
        expiry=expiry,
        orderly=orderly,
        skip=_skip(chosen),
        gates=gates,
        broadcasting=place,
        progress=progress,
        trace=trace,
        listeners=host.calls.listeners,
        namespace=namespace,
        keeps_times=bool(settings.observe.listen),
    )


def _keeping(
    group: str, settings: AppSettings, stores: Mapping[str, ProgressStore], spec: ConsumerSpec
) -> Keeping | None:
    """Where the group keeps what has ended above a gap, and the epochs of its acquisitions."""
    name, place = settings.consumer(group).progress, settings.place("consumers", group, "progress")
    if name == "none" or (name == AUTO and (spec.orderly or spec.broadcasting)):
        return None  # in order there is no gap, and broadcasting members take nothing over
    if settings.consumer(group).delivery == "pop":
        return None  # brokers keep it
    if spec.broadcasting:
        raise SettingUseless(
            f"consumers.{group}.progress: broadcasting groups keep their own offsets and need no progress; remove it",
            place=place,
        )
    path = ("consumers", group, "progress")
    store = named("store", "topic" if name == AUTO else name, stores, path, settings, also=(AUTO, "none"))
    instead, folder = stores.get("local") if store.name == "topic" and not spec.orderly else None, ""
    try:
        folder = str(folder_of(settings, "progress", "folder"))
    except ConfigurationError:
        if store.name == "local":
            raise
        instead = None  # only this machine's store needs it, and it is not what was asked for
    return Keeping(
        store,
        instead,
        folder,
        is_auto=name == AUTO,
        has_ranges=not spec.orderly,
        key=_key_of_proofs(settings),
    )


def _key_of_proofs(settings: AppSettings) -> bytes:
    secret = settings.progress.key or settings.cluster.credentials.secret_key
    return key_of(secret.reveal()) if secret else b""


def _gates(group: str, specs: Sequence[ConsumerSpec], settings: AppSettings) -> tuple[AnyResource, ...]:
    gates = tuple(spec.ready for spec in specs if spec.ready is not None)
    if gates and not settings.consumer(group).autostart:
        raise SettingUseless(
            f"consumers.{group}.autostart: false and ready_when ({gates[0].place}) both decide when the group starts; "
            "remove one of them",
            place=settings.place("consumers", group, "autostart"),
        )
    return gates


def _place(group: str, settings: AppSettings, worker: int) -> OffsetFiles:
    """Where a broadcasting group's offsets are kept: a folder a process, that stays the same when it starts again."""
    given = settings.broadcasting
    name = given.name or settings.app.name
    if "/" in name or name.startswith("."):
        raise FolderUnusable(
            f"app.name {name!r} cannot name a folder, as broadcasting group {group!r} needs; set broadcasting.name",
            place=settings.place("app", "name"),
        )
    folder = folder_of(settings, "broadcasting", "folder") / (f"{name}.{worker}" if worker else name)
    java = str(folder_of(settings, "broadcasting", "java_folder")) if given.java_folder else ""
    return OffsetFiles(str(folder), group, java)


def _skip(chosen: ConsumerSettings) -> SkipRules | None:
    rules = SkipRules(chosen.skip_older_than, chosen.skip_backlog_over)
    return None if rules == SkipRules() else rules


def _subscription(topic: str, spec: ConsumerSpec, version: int) -> Subscription:
    if spec.sql is None:
        return Subscription(topic, spec.tags, version)
    return Subscription(topic, spec.sql, version, BY_SQL)


def _handling(
    spec: ConsumerSpec, chosen: ConsumerSettings, parts: _Parts, trace: ConsumeTrace | None, once: Once | None
) -> Handling:
    calls, clock, means = parts.host.calls, parts.world.clock, parts.means
    observer = parts.reports.observer(in_threads=not is_awaited(spec))
    before, after = calls.before, calls.after if observer is None else (observer, *calls.after)
    if trace is not None:  # outermost: a delivery that a plugin decides on has its two records, too
        before, after = (trace.before, *before), (trace.after, *after)
    undecodable = Undecodable(spec.group, chosen.undecodable, chosen.undecodable_max, Recurring(clock))
    rules = Rules(undecodable, explicit_ack=chosen.explicit_ack, stuck_after_ms=chosen.stuck_after)
    hooks = DeliveryHooks(before, after, calls.around)
    batching = batching_for(spec, hooks, clock, rules, means) if spec.batch else None
    guard = None
    if means.exits is not None:
        guard = ExitGuard(
            means.exits, spec.group, spec.place, chosen.exits, max_retries_of(chosen, spec),
            moves=chosen.delivery != "pull",
        )  # fmt: skip
        if batching is not None:
            many = guard.many(batching.call, is_async=batching.is_async, is_orderly=spec.orderly)
            batching = replace(batching, call=many)
    call = call_for(spec, hooks, clock, rules, means, once) if batching is None else one_of(batching)
    if guard is not None and batching is None:
        call = guard.call(call, is_async=is_awaited(spec))
    by_hand = spec.commit == "manual"
    return Handling(
        call, is_awaited(spec), judging_for(spec, hooks, clock, rules, means), undecodable,
        commits_by_hand=by_hand, key_of=_key_of(spec), batching=batching, once=once,
    )  # fmt: skip


def _prepared(spec: ConsumerSpec, settings: AppSettings, host: PluginHost) -> ConsumerSpec:
    """The consumer with the decoders of its codec, and the function that its engine has called; most have neither."""
    spec = with_codec(spec, host.codecs)
    if not spec.engine:
        return spec
    runner = host.runners.get(spec.engine)
    if runner is None:
        package = f"pip install {ENGINES[spec.engine]}" if spec.engine in ENGINES else "install"
        offered = nearest(spec.engine, list(host.runners)) or f"; {package}, and load the plugin that offers it"
        if spec.engine in host.models:  # the plugin's name, as with all of our own
            offered = "; its plugin is left out, since its settings are wrong"
        raise NameUnknown(f"consumer {spec.name!r}: no engine {spec.engine!r}{offered}", place=spec.place)
    arguments = (Argument("messages", "message", many=list),)
    group = unwrap(settings.cluster.namespace, spec.group)
    function = engine_answer(spec, "prepared", lambda: runner.prepared(spec.function, spec.name, group))
    return replace(spec, function=function, arguments=arguments)


def _key_of(spec: ConsumerSpec) -> Callable[[Message], str] | None:
    if not spec.by_key:
        return None
    return sharding_key if spec.key is None else contained(spec.key, spec.group)


def _without_namespace(handling: Handling, namespace: str) -> Handling:
    """The same handling, whose calls get messages without the namespace. Around them messages keep the cluster's names:
    what is sent back, sent again or dead-lettered must name the topic as the broker knows it.
    """
    seen, call, key_of, batching = unwrapping(namespace), handling.call, handling.key_of, handling.batching
    if batching is not None:
        many = batching.call
        batching = replace(batching, call=lambda messages: many([seen(message) for message in messages]))
    return replace(
        handling,
        call=lambda message: call(seen(message)),
        key_of=None if key_of is None else lambda message: key_of(seen(message)),
        batching=batching,
    )


def look(settings: AppSettings, consumers: Sequence[AnyConsumer], host: PluginHost, findings: Findings) -> None:
    """Note what is wrong with settings, handlers and plugins together, as a start would find it; nothing is started. A
    part that is wrong is left out, so that no mistake hides another. For `check`, and for a test's application.

    What is wrong between consumers is `collect.py`'s to say, and with an engine's groups its own.
    """
    world = real_world()
    if not any("cluster.credentials" in str(mistake) for mistake in findings.mistakes):  # a key that is wrong is no key
        findings.tried(lambda: check_keys(settings))
    findings.tried(lambda: check_tls(settings))
    findings.note(*host.mistakes)
    findings.tried(lambda: group_plans(settings, consumers, host, Reports(None, world.workers), world))
