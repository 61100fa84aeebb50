"""The metrics: each name with what it means and where the snapshot has it. Nothing is computed that stands there.

Labels are `topic` and `consumer_group`, as RocketMQ 5.x has them, so that queries join. What is not known has no
sample: it is never 0. A metric of several processes is their sum, unless its line says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from framework.model.namespaces import unwrap
from framework.runtime.observe.openmetrics import Family, Kind, Labels, Merge, Sample, Times, added
from framework.runtime.observe.probes import reasons_of
from framework.runtime.observe.sums import Sums

Picture: TypeAlias = dict[str, Any]
"""A `Snapshot` as JSON has it."""
Read: TypeAlias = Callable[[Picture], Iterable[Sample | Times]]

ENDS = ("handled", "retried", "dead_lettered", "dropped", "late", "skipped", "damaged", "abandoned")
FAILURES = {"exception": "raised", "answer": "failed", "no_answer": "nothing", "timed_out": "timed_out"}
HELD = frozenset({"span", "count", "bytes", "budget", "paused", "rate", "breaker"})
"""Reasons of our own flow. All others are sentences, with numbers and names in them: the snapshot has those."""


def _of_app(value: Callable[[Picture], float | None]) -> Read:
    def read(picture: Picture) -> Iterator[Sample]:
        found = value(picture)
        if found is not None:
            yield Sample((), found)

    return read


def _of_group(value: Callable[[Picture, Picture], float | None]) -> Read:
    def read(picture: Picture) -> Iterator[Sample]:
        for group in picture["groups"]:
            found = value(group, picture)
            if found is not None:
                yield Sample(_group(group), found)

    return read


def _field(name: str) -> Read:
    return _of_group(lambda group, _: group[name])


def _group(group: Picture) -> Labels:
    return (("consumer_group", group["own_name"]),)


def _topic(topic: str, picture: Picture) -> Labels:
    """As its owner calls it, like the group."""
    return (("topic", unwrap(picture["namespace"], topic)),)


def _by(label: str, names: Sequence[str] | dict[str, str]) -> Callable[[Picture], Iterator[Sample]]:
    """One sample for each of these fields of a group, by the label."""
    fields = names if isinstance(names, dict) else dict(zip(names, names, strict=True))

    def read(picture: Picture) -> Iterator[Sample]:
        for group in picture["groups"]:
            for value, name in fields.items():
                yield Sample((*_group(group), (label, value)), group[name])

    return read


def _each(name: str, label: str) -> Read:
    """A mapping of the application's, such as plugins to failures."""
    return lambda picture: [Sample(((label, key),), value) for key, value in picture[name].items()]


def _queues(value: Callable[[Picture], float | None]) -> Callable[[Picture], Iterator[Sample]]:
    """Of each topic of a group: the sum over its queues here."""

    def read(picture: Picture) -> Iterator[Sample]:
        for group in picture["groups"]:
            for queue in group["queues"]:
                found = value(queue)
                if found is not None:
                    yield Sample((*_group(group), *_topic(queue["place"][0], picture)), found)

    return read


def _lag(queue: Picture) -> float | None:
    """Of a queue that is not pulled (its group is paused, its broker away) 0 is what was last heard, and no lag."""
    return None if queue["is_lag_least"] and not queue["lag"] else queue["lag"]


def _lags(picture: Picture) -> Iterator[Sample]:
    yield from _queues(_lag)(picture)
    for engine in picture["engines"]:
        for lag in engine["lag"].values():
            yield Sample((*_group(engine), *_topic(engine["topic"], picture)), lag)


def _ends(picture: Picture) -> Iterator[Sample]:
    yield from _by("outcome", ENDS)(picture)
    for engine in picture["engines"]:
        for outcome, count in engine["counts"].items():
            yield Sample((*_group(engine), ("outcome", outcome)), count)


def _held(picture: Picture) -> Iterator[Sample]:
    for group in picture["groups"]:
        for queue in group["queues"]:
            reason = queue["reason"]
            if reason is not None:
                yield Sample((*_group(group), ("reason", reason if reason in HELD else "trouble")), 1)


def _times(picture: Picture) -> Iterator[Times]:
    for group in picture["groups"]:
        for topic, each in group["times"].items():
            yield _read_times((*_group(group), *_topic(topic, picture)), each)


def _operations(picture: Picture) -> Iterator[Times]:
    if picture["sends"] is not None:
        yield _read_times((("operation", "send"),), picture["sends"])
    for group in picture["groups"]:
        for topic, each in group["pulls"].items():
            yield _read_times((*_group(group), ("operation", "pull"), *_topic(topic, picture)), each)


def _consumed(picture: Picture) -> Iterator[Sample]:
    """Each delivery, so that a message that is retried counts again."""
    for times in _times(picture):
        yield Sample(times.labels, sum(times.counts))


def _sent(picture: Picture) -> Iterator[Sample]:
    """`error_type` only where there was an error, as OpenTelemetry has it."""
    for kind, count in picture["sent"].items():
        yield Sample((("error_type", kind),) if kind else (), count)


def _read_times(labels: Labels, each: Picture) -> Times:
    return Times(labels, tuple(each["bounds"]), tuple(each["counts"]), each["total"], tuple(each["examples"]))


def _figures(*, growing: bool) -> Read:
    """What engines count: Spark's, or another plugin's (`figures(group)`)."""

    def read(picture: Picture) -> Iterator[Sample]:
        of_groups = [(group["own_name"], group["figures"]) for group in picture["groups"]]
        of_engines = [(engine["own_name"], engine["figures"]) for engine in picture["engines"]]
        for name, figures in (*of_groups, *of_engines):
            for figure, value in figures.items():
                if figure.endswith("_total") is growing:
                    label = figure.removesuffix("_total")
                    yield Sample((("consumer_group", name), ("figure", label)), value)

    return read


def _of_plugins(ending: str = "") -> Read:
    """What plugins count (the hook `figures`), by how the figure's name ends."""

    def read(picture: Picture) -> Iterator[Sample]:
        for plugin, figures in picture["plugin_figures"].items():
            for figure, value in figures.items():
                if figure.endswith(ending or ("_total", "_max")) is bool(ending):
                    yield Sample((("figure", figure.removesuffix(ending)), ("plugin", plugin)), value)

    return read


def _clock_off(picture: Picture) -> float | None:
    clock = picture["clock"]
    return max(clock["low_ms"], -clock["high_ms"], 0) / 1000 if clock["brokers"] else None


def _behind(group: Picture, picture: Picture) -> float | None:
    behind = group["behind_ms"]
    return None if behind is None else (picture["taken_ms"] - behind) / 1000


def _oldest(group: Picture, picture: Picture) -> float | None:
    return None if group["oldest_ms"] is None else (picture["taken_ms"] - group["oldest_ms"]) / 1000


_TABLE: tuple[tuple[str, Kind, str, Read, Merge], ...] = (
    ("framework_app_build", "info", "The framework's version.", lambda _: (), max),
    ("framework_app_ready", "gauge", "1 where every process is ready.", _of_app(lambda it: it["is_ready"]), min),
    ("framework_app_live", "gauge", "1 where every process lives.", _of_app(lambda it: not it["not_live"]), min),
    ("framework_app_not_ready_reasons", "gauge", "Why it is not ready: how many reasons; /ready says which.",
     _of_app(lambda it: len(it["not_ready"])), added),
    ("framework_app_stalled_queues", "gauge",
     "Queues where messages wait and nothing moves for no known reason, and engines that ended by an error.",
     _of_app(lambda it: len(it["not_live"])), added),
    ("framework_app_start_timestamp_seconds", "gauge", "When the youngest process began.",
     _of_app(lambda it: it["started_ms"] / 1000 or None), max),
    ("framework_app_messages", "counter", "What became of messages.", _ends, added),
    ("framework_app_failures", "counter", "Handlers that ended without success, by how.",
     _by("reason", FAILURES), added),
    ("framework_app_repeats_avoided", "counter", "Messages that `once` had handled already.", _field("repeats"), added),
    ("framework_app_once_failures", "counter", "How often the store of `once` failed.", _field("once_failures"), added),
    ("framework_app_lag_messages", "gauge", "Messages that are stored and not done, of queues where it is known.",
     _lags, added),
    ("framework_app_lag_unknown_queues", "gauge", "Owned queues whose lag is not known.",
     _queues(lambda queue: _lag(queue) is None), added),
    ("framework_app_oldest_unhandled_timestamp_seconds", "gauge",
     "When the oldest message that is not done was stored; the time of the look where none is left.",
     _of_group(_behind), min),
    ("framework_app_oldest_in_flight_timestamp_seconds", "gauge", "When the oldest handler that runs began.",
     _of_group(_oldest), min),
    ("framework_app_in_flight_messages", "gauge", "Messages that were pulled and are not done.",
     _queues(lambda queue: queue["messages"]), added),
    ("framework_app_held_bytes", "gauge", "Bytes of pulled messages.", _queues(lambda queue: queue["bytes"]), added),
    ("framework_app_budget_bytes", "gauge", "Bytes that pulled messages may take.",
     _of_app(lambda it: it["budget_limit"]), added),
    ("framework_app_workers", "gauge", "Handlers that may run at once.", _field("concurrency"), added),
    ("framework_app_workers_busy", "gauge", "Handlers that run.", _field("running"), added),
    ("framework_app_workers_hanging", "gauge", "Workers missing because timed-out handlers do not end.",
     _field("hanging"), added),
    ("framework_app_retries_waiting_messages", "gauge", "Failed messages that wait in this process.",
     _field("retries_waiting"), added),
    ("framework_app_cannot_send_back_messages", "gauge", "Failed messages of which no broker keeps a copy yet.",
     _field("cannot_send_back"), added),
    ("framework_app_paused", "gauge", "Processes in which the group is paused.", _field("is_paused"), added),
    ("framework_app_balanced", "gauge", "1 where the group's queues are divided.", _field("is_balanced"), min),
    ("framework_app_queues_owned", "gauge", "Queues that this member owns.", _queues(lambda _: 1), added),
    ("framework_app_queues_held", "gauge", "Owned queues that do not flow, by reason.", _held, added),
    ("framework_app_rebalances", "counter", "How often the group's queues here became others.",
     _field("rebalances"), added),
    ("framework_app_queues_moved", "counter", "Queues that came and went.",
     _by("direction", {"gained": "queues_gained", "lost": "queues_lost"}), added),
    ("framework_app_members_absent", "gauge", "Members that are away and keep their queues.",
     _of_group(lambda group, _: len(group["absent"])), max),
    ("framework_app_loop_stalls", "counter", "How often the event loop was blocked for over a second.",
     _of_app(lambda it: it["stalls"]["count"]), added),
    ("framework_app_loop_blocked_max_seconds", "gauge", "For how long it was blocked at most.",
     _of_app(lambda it: it["stalls"]["longest_ms"] / 1000), max),
    ("framework_app_loop_lag_seconds", "gauge", "How late the event loop was at its last beat.",
     _of_app(lambda it: it["stalls"]["late_ms"] / 1000), max),
    ("framework_app_failed_loops", "counter", "Internal loops that were started again after an error.",
     _of_app(lambda it: sum(each["failures"] for each in it["failed_loops"])), added),
    ("framework_app_plugin_failures", "counter", "Hooks that raised, by plugin.",
     _each("hook_failures", "plugin"), added),
    ("framework_app_plugin_slow_calls", "counter", "Hooks that took over 0.1 s, by plugin.",
     _each("slow_hooks", "plugin"), added),
    ("framework_app_replies", "counter",
     "Replies that handlers sent, or dropped because the requester was gone, and late ones to own requests.",
     _each("replies", "outcome"), added),
    ("framework_app_lost_lines", "counter", "Lines of log and events that could not be written.",
     _of_app(lambda it: it["lost_lines"]), added),
    ("framework_app_clock_off_seconds", "gauge", "How far this machine's clock is off the brokers', at least.",
     _of_app(_clock_off), max),
    ("framework_app_engine_figure", "gauge", "What an engine counts, as it is.", _figures(growing=False), added),
    ("framework_app_engine_count", "counter", "What an engine counts and what only grows.",
     _figures(growing=True), added),
    ("framework_app_plugin_figure", "gauge", "What a plugin counts, as it is.", _of_plugins(), added),
    ("framework_app_plugin_figure_max", "gauge", "What each process's plugin sees alike: the largest.",
     _of_plugins("_max"), max),
    ("framework_app_plugin_count", "counter", "What a plugin counts and what only grows.",
     _of_plugins("_total"), added),
    ("messaging_process_duration_seconds", "histogram",
     "How long handlers took. Messages that a worker handles in one go count with their mean.", _times, added),
    ("messaging_client_operation_duration_seconds", "histogram",
     "How long sends took, with their retries, and pulls that brought something, with the broker's wait for it.",
     _operations, added),
    ("messaging_client_consumed_messages", "counter", "Messages that handlers were given, each time one was.",
     _consumed, added),
    ("messaging_client_sent_messages", "counter", "Messages whose send has ended, well or not.",
     _sent, added),
)  # fmt: skip
SILENT = "framework_app_processes_silent"
NAMES = (*(name for name, *_ in _TABLE), SILENT)


def families(
    workers: Sequence[Picture], version: str, *, by_worker: bool = False, sums: Sums | None = None
) -> list[Family]:
    """Answers of `Control` to `snapshot`, of one process or several, as metrics. With `by_worker` each process has its
    own samples, with its number as a label; else they are merged. `sums` are those of the looks before.
    """
    found = [(Family(name, kind, text, merge), read) for name, kind, text, read, merge in _TABLE]
    found[0][0].add(Sample((("version", version),), 1))
    silent = Family(SILENT, "gauge", "Processes that do not answer: blocked, or about to start.")
    if not by_worker:
        silent.add(Sample((), 0))
    sums = Sums() if sums is None else sums
    answers = {int(each.get("worker", 0)): each for each in workers}
    pictures = {number: each["snapshot"] for number, each in answers.items() if "snapshot" in each}
    sums.look({number: picture["session"] for number, picture in pictures.items()})

    def add(family: Family, number: int, sample: Sample | Times) -> None:
        family.add(replace(sample, labels=(*sample.labels, ("worker", str(number)))) if by_worker else sample)

    for family, read in found:
        for number, picture in pictures.items():
            for sample in read(picture):
                if not (family.grows and sums.keep(family.name, number, sample)):
                    add(family, number, sample)
        for number, sample in sums.of(family.name):
            add(family, number, sample)
    by_name = {family.name: family for family, _ in found}
    for number, answer in answers.items():
        add(silent, number, Sample((), number not in pictures))
        if number not in pictures:
            for name, value in _of_silent(answer).items():
                add(by_name[name], number, Sample((), value))
    return [*by_name.values(), silent]


def _of_silent(answer: Picture) -> dict[str, float]:
    """What probes say of a process that has no picture."""
    return {
        "framework_app_ready": 0,
        "framework_app_live": not reasons_of(answer, "live"),
        "framework_app_not_ready_reasons": len(reasons_of(answer, "ready")),
    }
