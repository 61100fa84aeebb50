"""Invariant: plugins are told what happened: each change of queues once, each offset once, each message handled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.offsets_forward import LATE_S
from tests.simulation.facts import Acquired, Committed, Finished, Life, Reassigned, Remade, Subscribed
from tests.simulation.history import History, place_of
from tests.simulation.ways.facts import ToldChunk, ToldGains, ToldOffsets

NAME = "listeners are told"


def listeners_are_told(history: History) -> Iterator[Violation]:
    """Of runs with a plugin that listens. An offset counts as committed when it was sent, though a broker may lose it.

    Of a process that ended in order, the last offset that it committed of a queue was told as well; and in calm runs,
    in which no result comes late, as many messages were reported as its handlers ended plainly.
    """
    if not history.is_heard:
        return
    yield from _changes(history)
    yield from _offsets(history)
    if history.is_calm:
        yield from _handled(history)


def _changes(history: History) -> Iterator[Violation]:
    """The log says the same, queue by queue; of a topic that is left it says nothing."""
    left = {(fact.at, fact.who, fact.group, fact.topic) for fact in history.of(Subscribed) if not fact.is_on}
    owed: Counter[tuple[str, str, tuple[str, ...], tuple[str, ...]]] = Counter()
    at = 0.0
    for fact in history.facts:
        if type(fact) is Reassigned:
            owed[fact.who, fact.group, fact.gained, fact.lost] += 1
        elif type(fact) is ToldGains and _are_left(fact, left):
            continue
        elif type(fact) is ToldGains:
            owed[fact.who, fact.group, fact.gained, fact.lost] -= 1
        at = fact.at
    for (who, group, gained, lost), count in sorted(owed.items()):
        if count:
            often = "not told" if count > 0 else "told too often"
            yield Violation(NAME, f"{who} was {often} that {group} gained {gained} and lost {lost}", at)


def _are_left(fact: ToldGains, left: set[tuple[float, str, str, str]]) -> bool:
    topics = {place_of(queue).topic for queue in fact.lost}
    return not fact.gained and all((fact.at, fact.who, fact.group, topic) in left for topic in topics)


def _offsets(history: History) -> Iterator[Violation]:
    told: dict[tuple[str, str, str], int] = {}
    committed: dict[tuple[str, str, str], int] = {}
    remade: dict[str, float] = {}
    begun: dict[tuple[str, str, str], float] = {}  # since when the topic is whose first offset was told
    for fact in history.facts:
        if getattr(fact, "group", "") in history.switched:
            continue  # where its brokers have it pop again, its offsets begin anew
        if type(fact) is Acquired:
            key = (fact.who, fact.group, fact.queue)
            told.pop(key, None)
            committed.pop(key, None)
        elif type(fact) is Remade:
            remade[fact.topic] = fact.at
        elif type(fact) is Committed and not fact.is_refused:
            key = (fact.by, fact.group, str(fact.queue))
            if fact.before is None or fact.offset > fact.before:
                committed[key] = max(committed.get(key, 0), fact.offset)
        elif type(fact) is ToldOffsets:
            for queue, offset in fact.offsets.items():
                key = (fact.who, fact.group, queue)
                before, made_at = told.get(key, -1), remade.get(place_of(queue).topic, -LATE_S)
                if offset <= before and fact.at < made_at + LATE_S and begun.get(key) != made_at:
                    begun[key] = made_at
                    excuse(history, NAME, "what was on its way belongs to the topic's former life")
                elif offset <= before:
                    what = f"{fact.who} told that {group_of(key)} has committed {offset} of {queue}"
                    yield Violation(NAME, f"{what}, after {before}", fact.at)
                told[key] = offset
        elif type(fact) is Life and fact.event == "left":
            yield from _left(fact, history, told, committed)


def _left(
    fact: Life, history: History, told: dict[tuple[str, str, str], int], committed: dict[tuple[str, str, str], int]
) -> Iterator[Violation]:
    for key, offset in sorted(committed.items()):
        if key[0] != fact.who or told.get(key, -1) >= offset:
            continue
        if not history.is_calm:
            excuse(history, NAME, "a commit's answer may have been lost, or its queue")
            continue
        what = f"{fact.who} left, and was not told that {group_of(key)} has committed {offset} of {key[2]}"
        yield Violation(NAME, what, fact.at)


def _handled(history: History) -> Iterator[Violation]:
    """What a handler answers with is no plain success: those groups are left out."""
    counted: Counter[tuple[str, str]] = Counter()
    ended: Counter[tuple[str, str]] = Counter()
    at = 0.0
    for fact in history.facts:
        if type(fact) is ToldChunk:
            counted[fact.who, fact.group] += fact.handled
        elif type(fact) is Finished and fact.group in history.plain and fact.is_ok:
            ended[fact.who, fact.group] += 1
        at = fact.at
    for key, count in sorted(ended.items()):
        if counted[key] != count:
            yield Violation(
                NAME, f"{key[0]} was told of {counted[key]} messages of {key[1]}, and {count} ended well", at
            )


def group_of(key: tuple[str, str, str]) -> str:
    return key[1]
