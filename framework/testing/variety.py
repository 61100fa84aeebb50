"""Variety: the seldom ways of consuming, of which a run goes one or two, or none.

Each is drawn from a stream of its own, after everything else: a way more changes no plan that does not go it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from framework.testing.streams import Stream
from framework.testing.workload import GroupLoad, Workload

SHARE = 0.12
"""Of runs that go a way."""
WAYS_MAX = 2
"""In one run, so that what a seed costs does not grow with the ways that there are."""
STRATEGIES = ("circle", "consistent_hash", "sticky")


def vary(workload: Workload, chance: Callable[[str], Stream], *, is_calm: bool, kinds: Collection[str]) -> Workload:
    """`chance` is each way's, by its name; `kinds` are the faults that may happen: some ways shun some of them."""
    for name, way in WAYS.items():
        own = chance(name)
        if own.happens(SHARE) and len(workload.ways) < WAYS_MAX:
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
}
