"""Variety: the rare ways of consuming. A run uses one or two of them, or none.

Each is drawn from a stream of its own, after everything else, so a new way changes no plan that does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from framework.testing.sim.streams import Stream
from framework.testing.swarm.workload import SECOND_TOPIC, GroupLoad, Workload

SHARE, LATER_SHARE = 0.12, 0.07
"""Of runs that go a way; those that came later are gone more seldom, so that a third of all runs goes none."""
WAYS_MAX = 2
"""In one run, so that what a seed costs does not grow with the ways that there are."""
STRATEGIES = ("circle", "consistent_hash", "sticky")
ROOMS = ("east", "west")
BROKERS = ("broker-a", "broker-b")
BROADCAST_MESSAGES_MAX = 50
"""Each is handled once more by each process."""
FORCED = {
    "second-topic": "unsubscribe",
    "broker-restarts": "one-broker-restart",
    "name-server-restarts": "partial-route",
}
"""Ways without which a kind of fault could never strike."""


def vary(workload: Workload, chance: Callable[[str], Stream], *, is_calm: bool, kinds: Collection[str]) -> Workload:
    """`chance` is each way's, by its name; `kinds` are the faults that may happen: some ways shun some of them."""
    for name, way in WAYS.items():
        own = chance(name)
        is_gone = own.happens(SHARE if name in EARLY else LATER_SHARE) and len(workload.ways) < WAYS_MAX
        if is_gone or FORCED.get(name) in kinds:
            varied = way(workload, own, is_calm, kinds)
            workload = replace(varied, ways=(*varied.ways, name)) if varied is not workload else workload
    return workload


def _batches(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """Of the concurrent group, with an outcome a message."""
    batch, linger = chance.pick((2, 5, 16)), chance.pick(("0s", "50ms", "1s"))
    return _with_first(workload, batch=batch, linger=linger)


def _explicit(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    return _with_first(workload, explicit_ack=True)


def _batches_in_order(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    batch, linger = chance.pick((2, 5, 16)), chance.pick(("0s", "50ms", "1s"))
    return _with_orderly(workload, chance, batch=batch, linger=linger)


def _by_hand(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    # Drawn behind batches in order, it may take the batch away: a linger without one is refused.
    return _with_orderly(workload, chance, by_hand=True, batch=chance.pick((0, 0, 4)), linger="0s")


def _allocation(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """Another strategy than the usual one, in each group its own."""
    groups = (replace(load, allocation=chance.pick(STRATEGIES)) for load in workload.groups)
    return replace(workload, groups=tuple(groups))


def _broadcasting(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """One group more, of which each process is given everything."""
    is_async, orderly, poison = chance.happens(0.7), chance.happens(0.25), chance.pick((0.0, 0.02))
    stuck = 0.0 if is_calm else chance.pick((0.0, 0.02))
    load = GroupLoad(
        "caches", is_async=is_async, orderly=orderly, concurrency=chance.pick((1, 4)),
        pauses_s=(0.002, 0.005, 0.02), fail_rate=0.02, poison_rate=poison, stuck_rate=stuck, broadcasting=True,
    )  # fmt: skip
    if "topic-remade" in kinds:
        return workload  # a file's offset of the topic's former life skips what is new; nothing in the protocol tells
    most = min(workload.messages, BROADCAST_MESSAGES_MAX)
    return replace(workload, groups=(*workload.groups, load), messages=most)


def _skips(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """The concurrent group does not want what is old, or what lies far behind."""
    older, backlog = chance.pick(((1.0, 0), (3.0, 0), (0.0, 2), (0.0, 5), (3.0, 5)))
    if {"topic-remade", "clock"} & set(kinds):
        return workload  # an age is told by a broker's clock, a backlog by an end of the log that stays
    return _with_first(workload, skip_older_s=older, skip_backlog=backlog)


def _second_topic(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """The first group consumes two topics, and some of the others do."""
    groups = (replace(load, reads_second=chance.happens(0.5)) for load in workload.groups[1:])
    first = replace(workload.groups[0], reads_second=True)
    return replace(workload, groups=(first, *groups), second_topic=SECOND_TOPIC)


def _by_config(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """The first group's queues are its members' by name, and one of them is nobody's."""
    return _with_first(workload, allocation="by_config")


def _machine_rooms(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """Two brokers in two rooms: a group reads from one of them, or what is in a room goes to the members there."""
    first, others = chance.pick(("machine_room", "nearby")), chance.pick(("averaging", "nearby"))
    groups = (replace(load, allocation=others) for load in workload.groups[1:])
    names = tuple(f"{room}@broker-{letter}" for room, letter in zip(ROOMS, "ab", strict=True))
    first_load = replace(workload.groups[0], allocation=first)
    return replace(workload, groups=(first_load, *groups), broker_names=names)


def _two_brokers(workload: Workload, chance: Stream, is_calm: bool, kinds: Collection[str]) -> Workload:
    """Two, of which one is started anew, or is left out of routes for a while."""
    return workload if is_calm or workload.broker_names else replace(workload, broker_names=BROKERS)


def _with_first(workload: Workload, **changed: object) -> Workload:
    first = replace(workload.groups[0], **changed)  # type: ignore[arg-type]  # fields of it, as its callers name them
    return replace(workload, groups=(first, *workload.groups[1:]))


def _with_orderly(workload: Workload, chance: Stream, **changed: object) -> Workload:
    """The group that keeps order; one in place of the second group, or beside the first, where none does."""
    is_async, poison = chance.happens(0.7), chance.pick((0.0, 0.01))
    found = next((load for load in workload.groups if load.orderly), None)
    load = found or GroupLoad(
        "inventory", is_async=is_async, pauses_s=(0.002, 0.005, 0.02), fail_rate=0.02, poison_rate=poison
    )
    load = replace(load, orderly=True, **changed)  # type: ignore[arg-type]  # fields of it, as above
    return replace(workload, groups=(workload.groups[0], load))


Way = Callable[[Workload, Stream, bool, Collection[str]], Workload]

WAYS: dict[str, Way] = {
    "batches": _batches,
    "explicit-ack": _explicit,
    "batches-in-order": _batches_in_order,
    "commits-by-hand": _by_hand,
    "allocation": _allocation,
    "second-topic": _second_topic,
    "broadcasting": _broadcasting,
    "skips": _skips,
    "by-config": _by_config,
    "machine-rooms": _machine_rooms,
    "broker-restarts": _two_brokers,
    "name-server-restarts": _two_brokers,
}
EARLY = ("batches", "explicit-ack", "batches-in-order", "commits-by-hand", "allocation")
BROUGHT: dict[str, str] = {
    "broadcasting": "crash",
    "second-topic": "unsubscribe",
    "broker-restarts": "one-broker-restart",
    "name-server-restarts": "partial-route",
}
"""The kind of fault that a way brings with it, where a run is not calm: what it promises is little without."""
IN_ORDER = ("unsubscribe",)
"""Those of these kinds that leave a run calm."""
