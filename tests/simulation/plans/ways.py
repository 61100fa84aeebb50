"""The ways of consuming: each is one entry of `WAYS`, from which plans draw and which is a row of the matrix.

A way's function changes a workload. `goes` says which groups go that way in the end, however it came about: ways that
undo each other are not drawn together, and the matrix counts what is so and not what was wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from framework.testing.sim.streams import Stream
from tests.simulation.ways import breaking, dialogue, listening, once, popping, publishing, rated, results, tags
from tests.simulation.workload import EXPIRY_S, SECOND_TOPIC, GroupLoad, Workload

Dress = Callable[[Workload, Stream], Workload]
Goes = Callable[[Workload, GroupLoad], bool]
Shuns = Mapping[str, str]

ROOMS = ("east", "west")
BROKERS = ("broker-a", "broker-b")
BROADCAST_MESSAGES_MAX = 50
"""Each is handled once more by each process."""
BATCH_FAIL_RATE = 0.1
"""At least so many messages fail where it matters how a batch says so."""
PAUSES_S = (0.002, 0.005, 0.02)
"""Groups that handle one message of a queue at a time are quick, or a run would be over before they are."""
SLOW_S, SLOW_FAIL_RATE, SLOW_AT_ONCE = (0.02, 2.0, 3.0, 4.0), 0.4, 8
SLOW_WITHIN_S = (0.02, 1.0, 1.5, 2.0)
"""They end within the drain limit of five seconds, and take the shortest of these once everything is healed."""
AGES: Shuns = {
    "topic-remade": "a backlog is told by an end of the log that stays",
    "clock": "a message's age is told by its broker's clock",
}
FILES: Shuns = {
    "topic-remade": "a file's offset of the topic's former life skips what is new; nothing in the protocol tells",
    "offsets-reset": "its offsets are files of each process, which an administrator's command does not reach",
}
SWITCHED: Shuns = {
    "offsets-reset": "a group that pops has no positions that an administrator could reset",
    "damaged-records": "what is damaged on its way is answers to pulls",
}
POPS: Shuns = {**SWITCHED, "consume-mode": "its own setting says that it pops, whatever its brokers are told"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way. `shuns`: the kinds of fault that it is never drawn with, each with the reason."""

    dress: Dress
    goes: Goes
    shuns: Shuns = field(default_factory=dict)
    in_calm: bool = True
    """Whether a calm run keeps its promises with it: that queues are handed over in time, and nothing comes twice."""
    is_usual: bool = False
    """Many runs go it, drawn or not: it needs no turn of its own."""


def dressed(
    workload: Workload, names: Sequence[str], chance: Callable[[str], Stream], *, most: int | None = None
) -> Workload:
    """The workload that goes the first few of these ways; those that undo earlier ones are left out.

    `chance` is each way's own.
    """
    done = workload.ways
    for name in names:
        changed = WAYS[name].dress(workload, chance(name))
        if len(done) != most and name not in done and all(_is_gone(each, changed) for each in (*done, name)):
            workload, done = changed, (*done, name)
    return replace(workload, ways=done)


def ways_of(workload: Workload, load: GroupLoad) -> list[str]:
    """All that this group goes, drawn or not."""
    return [name for name, way in WAYS.items() if way.goes(workload, load) and (name in OF_POPS or not load.pops)]


def _is_gone(name: str, workload: Workload) -> bool:
    return any(WAYS[name].goes(workload, load) for load in workload.groups)


# -- what ways' functions use


def changed_group(workload: Workload, name: str, **changes: Any) -> Workload:
    """With these fields of the group of this name."""
    groups = (replace(load, **changes) if load.name == name else load for load in workload.groups)
    return replace(workload, groups=tuple(groups))


def with_group(workload: Workload, load: GroupLoad) -> Workload:
    """With one group more, or instead of the one of its name."""
    others = tuple(each for each in workload.groups if each.name != load.name)
    return replace(workload, groups=(*others, load))


def first(**changes: Any) -> Dress:
    """A way that changes nothing but fields of the first group."""
    return lambda workload, chance: changed_group(workload, workload.groups[0].name, **changes)


def _as_it_is(workload: Workload, chance: Stream) -> Workload:
    return workload


# -- batches


def _batch(chance: Stream) -> dict[str, Any]:
    return {"batch": chance.pick((2, 5, 16)), "linger": chance.pick(("0s", "50ms", "1s"))}


def _answering(manner: str) -> Way:
    """Batches of the first group, which says in this manner that some of a batch failed."""

    def dress(workload: Workload, chance: Stream) -> Workload:
        load = workload.groups[0]
        fail_rate = max(load.fail_rate, BATCH_FAIL_RATE)
        return changed_group(workload, load.name, answers=(manner,), fail_rate=fail_rate, **_batch(chance))

    def goes(workload: Workload, load: GroupLoad) -> bool:
        return (
            bool(load.batch)
            and not load.results
            and load.answers == (manner,)
            and (manner == "each" or not load.explicit_ack)
        )

    return Way(dress, goes)


def _batches_on_threads(workload: Workload, chance: Stream) -> Workload:
    return with_group(workload, replace(_audit(chance), fail_rate=0.05, **_batch(chance)))


# -- threads, order, everything for everybody


def _audit(chance: Stream) -> GroupLoad:
    return GroupLoad("audit", is_async=False, concurrency=chance.pick((1, 4)), fail_rate=0.02)


def _threads(workload: Workload, chance: Stream) -> Workload:
    return with_group(workload, _audit(chance))


def _in_order(workload: Workload, chance: Stream, **changes: Any) -> Workload:
    """With the group that keeps order, made where there is none yet."""
    is_key = chance.happens(0.4)
    made = GroupLoad(
        "inventory", orderly="key" if is_key else True, is_async=chance.happens(0.7),
        concurrency=4 if is_key else chance.pick((1, 4)), pauses_s=PAUSES_S,
        fail_rate=chance.pick((0.0, 0.02)), poison_rate=chance.pick((0.0, 0.01)),
    )  # fmt: skip
    load = next((load for load in workload.groups if load.orderly and not load.broadcasting), made)
    return with_group(workload, replace(load, **changes))


def _by_queue(workload: Workload, chance: Stream) -> Workload:
    return _in_order(workload, chance, orderly=True)


def _by_key(workload: Workload, chance: Stream) -> Workload:
    return _in_order(workload, chance, orderly="key", concurrency=4)


def _batches_in_order(workload: Workload, chance: Stream) -> Workload:
    return _in_order(workload, chance, **_batch(chance))


def _by_hand(workload: Workload, chance: Stream) -> Workload:
    """One by one or in batches."""
    return _in_order(workload, chance, orderly=True, by_hand=True, **(_batch(chance) if chance.happens(0.3) else {}))


def _broadcasting(workload: Workload, chance: Stream) -> Workload:
    """One group more, of which each process is given everything."""
    load = GroupLoad(
        "caches", is_async=chance.happens(0.7), orderly=chance.happens(0.25), concurrency=chance.pick((1, 4)),
        pauses_s=PAUSES_S, fail_rate=0.02, poison_rate=chance.pick((0.0, 0.02)),
        stuck_rate=chance.pick((0.0, 0.02)), broadcasting=True,
    )  # fmt: skip
    return replace(with_group(workload, load), messages=min(workload.messages, BROADCAST_MESSAGES_MAX))


# -- progress, time limits, what is not wanted


def _progress(store: str, *, is_everybodys: bool) -> Way:
    """Where a group keeps what has ended above a gap. Orderly groups have no gaps, but epochs with some stores."""

    def dress(workload: Workload, chance: Stream) -> Workload:
        for number, load in enumerate(workload.groups):
            if number == 0 or (is_everybodys and load.orderly and not load.broadcasting):
                workload = changed_group(workload, load.name, progress=store)
        return workload

    return Way(dress, lambda workload, load: load.progress == store and not load.broadcasting)


def _timeouts(workload: Workload, chance: Stream) -> Workload:
    """Some handlers take longer than they may."""
    load = workload.groups[0]
    pauses_s = SLOW_WITHIN_S if load.pauses_s == SLOW_S else load.pauses_s
    rate, stuck_s = max(load.stuck_rate, 0.04), chance.pick((8.0, 40.0))
    return changed_group(workload, load.name, timeout_s=EXPIRY_S, stuck_rate=rate, stuck_s=stuck_s, pauses_s=pauses_s)


def _slow(workload: Workload, chance: Stream) -> Workload:
    """Handlers of the first group are at several messages at any time, many of which fail where none waits for them.

    Well within their time limit, if they have one. Pauses of about the limit, in batches, break `expired in time`:
    whether it or the limit of a batch errs is open (seeds 86157077 and 86157198 at 4cf3d70).
    """
    load = workload.groups[0]
    pauses_s = SLOW_WITHIN_S if load.timeout_s else SLOW_S
    # In order a failure holds all behind it for a second, and hundreds of them would not be over in time.
    fail_rate = load.fail_rate if load.orderly else max(load.fail_rate, SLOW_FAIL_RATE)
    return changed_group(workload, load.name, pauses_s=pauses_s, fail_rate=fail_rate, concurrency=SLOW_AT_ONCE)


def _skip_older(workload: Workload, chance: Stream) -> Workload:
    return first(skip_older_s=chance.pick((1.0, 3.0)))(workload, chance)


def _skip_backlog(workload: Workload, chance: Stream) -> Workload:
    return first(skip_backlog=chance.pick((2, 5)))(workload, chance)


# -- topics, members, strategies, brokers


def _second_topic(workload: Workload, chance: Stream) -> Workload:
    """The first group consumes two topics, and some of the others do."""
    groups = (replace(load, reads_second=chance.happens(0.5)) for load in workload.groups[1:])
    reader = replace(workload.groups[0], reads_second=True)
    return replace(workload, groups=(reader, *groups), second_topic=SECOND_TOPIC)


def _named(workload: Workload, chance: Stream) -> Workload:
    return replace(workload, is_named=True)


def _allocation(strategy: str, dress: Dress = _as_it_is) -> Way:
    """The queues of one group are divided by this strategy, and perhaps those of others that have none of their own."""

    def allocated(workload: Workload, chance: Stream) -> Workload:
        workload = dress(workload, chance)
        free = [load for load in workload.groups if load.allocation == "averaging" and not load.broadcasting]
        for number, load in enumerate(free):
            if number == 0 or (strategy not in ONE_ONLY and chance.happens(0.5)):
                workload = changed_group(workload, load.name, allocation=strategy)
        return workload

    return Way(allocated, lambda workload, load: load.allocation == strategy and not load.broadcasting)


ONE_ONLY = ("by_config", "machine_room")
"""By these some queues have no owner; the other groups show that theirs have."""


def _rooms(workload: Workload, chance: Stream) -> Workload:
    """Two brokers in two rooms: a group reads from one of them, or what is in a room goes to the members there."""
    names = tuple(f"{room}@broker-{letter}" for room, letter in zip(ROOMS, "ab", strict=True))
    return replace(workload, broker_names=names)


def _two_brokers(workload: Workload, chance: Stream) -> Workload:
    return workload if workload.broker_names else replace(workload, broker_names=BROKERS)


WAYS: dict[str, Way] = {
    "concurrent": Way(
        _as_it_is,
        lambda workload, load: load.is_async and not (load.batch or load.orderly or load.broadcasting or load.pops),
        is_usual=True,
    ),
    "threads": Way(_threads, lambda workload, load: not load.is_async and not load.batch, is_usual=True),
    "batches-list": _answering("each"),
    "batches-index": _answering("up to"),
    "batches-raise-at": _answering("from"),
    "batches-raise": _answering("all"),
    "batches-on-threads": Way(
        _batches_on_threads, lambda workload, load: bool(load.batch) and not load.is_async, is_usual=True
    ),
    "orderly": Way(_by_queue, lambda workload, load: load.orderly is True and not load.broadcasting, is_usual=True),
    "orderly-by-key": Way(_by_key, lambda workload, load: load.orderly == "key", is_usual=True),
    "batches-in-order": Way(_batches_in_order, lambda workload, load: bool(load.batch and load.orderly), is_usual=True),
    "commits-by-hand": Way(_by_hand, lambda workload, load: load.by_hand and load.orderly is True),
    "broadcasting": Way(_broadcasting, lambda workload, load: load.broadcasting, FILES),
    "progress-none": _progress("none", is_everybodys=False),
    "progress-auto": replace(_progress("auto", is_everybodys=False), is_usual=True),
    "progress-local": _progress("local", is_everybodys=False),
    "progress-broker": _progress("broker", is_everybodys=True),
    "progress-topic": _progress("topic", is_everybodys=True),
    "explicit-ack": Way(first(explicit_ack=True), lambda workload, load: load.explicit_ack),
    "timeouts": Way(_timeouts, lambda workload, load: bool(load.timeout_s)),
    "slow-handlers": Way(_slow, lambda workload, load: load.pauses_s in {SLOW_S, SLOW_WITHIN_S}, in_calm=False),
    "skip-older": Way(_skip_older, lambda workload, load: bool(load.skip_older_s), AGES),
    "skip-backlog": Way(_skip_backlog, lambda workload, load: bool(load.skip_backlog), AGES),
    "second-topic": Way(_second_topic, lambda workload, load: load.reads_second, is_usual=True),
    "named-members": Way(_named, lambda workload, load: workload.is_named),
    "averaging": replace(_allocation("averaging"), is_usual=True),
    "circle": _allocation("circle"),
    "consistent-hash": _allocation("consistent_hash"),
    "sticky": _allocation("sticky"),
    "by-config": _allocation("by_config"),
    "machine-room": _allocation("machine_room", _rooms),
    "nearby": _allocation("nearby", _rooms),
    "results": Way(results.dress, results.goes),
    "results-in-order": Way(results.dress_in_order, results.goes_in_order),
    "publishing": Way(publishing.dress, publishing.goes),
    "once": Way(once.dress, once.goes),
    "rate": Way(rated.dress, rated.goes, in_calm=False),
    "breaker": Way(breaking.dress, breaking.goes),
    "listening": Way(listening.dress, listening.goes),
    "tags": Way(tags.dress, tags.goes),
    "transactions": Way(dialogue.dress_transactions, dialogue.has_transactions),
    "requests": Way(dialogue.dress_requests, dialogue.has_requests),
    "pop": Way(popping.dress, popping.goes, POPS),
    "pop-switched": Way(popping.dress_switched, popping.is_switched, SWITCHED, in_calm=False),
    "two-brokers": Way(_two_brokers, lambda workload, load: len(workload.broker_names) > 1, is_usual=True),
}
OF_POPS = frozenset(
    ("pop", "pop-switched", "second-topic", "named-members", "listening", "transactions", "two-brokers")
)
"""Ways that a group that pops can go: it divides no queues, keeps no order and has no offsets of its own."""
USUAL = frozenset(name for name, way in WAYS.items() if way.is_usual)
