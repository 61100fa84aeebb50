"""Variety: the seldom ways of consuming, of which a run goes one or two, or none.

They are drawn from a stream of their own, after everything else: a way more changes no plan that does not go it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from framework.testing.streams import Stream
from framework.testing.workload import GroupLoad, Workload

VARIED = 0.5
"""Share of runs that go any of these ways; the others stay what they were drawn."""
SECOND = 0.3
"""Of those, the share that goes another one, too."""


def vary(workload: Workload, chance: Stream, *, is_calm: bool, kinds: Collection[str]) -> Workload:
    """`kinds` are the faults that may happen: some ways cannot be judged under some of them."""
    if not chance.happens(VARIED):
        return workload
    count = 2 if chance.happens(SECOND) else 1
    for name in chance.sample(tuple(WAYS), count):
        varied = WAYS[name](workload, chance, is_calm, kinds)
        if varied is not workload:
            workload = replace(varied, ways=(*varied.ways, name))
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
}
