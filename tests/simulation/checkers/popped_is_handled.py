"""Invariants: what a group pops is handled or among its dead letters, and dead letters are as many as have failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.disturbances import Disturbances
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.checkers.one_copy_an_attempt import KEEPS_ANSWERS, RECOVERED_S
from tests.simulation.facts import Bent, CopyAsked, Sent
from tests.simulation.history import History
from tests.simulation.ways.facts import PopFinished, PopStarted

HANDLED, CALM = "popped messages are handled", "calm pops do not repeat"


def popped_is_handled(history: History) -> Iterator[Violation]:
    """Once everything was to be handled. A dead letter has failed at its last attempt, once for each letter that there
    is, unless an answer may have been lost: no broker compares plain sends. A crash uses up an attempt unfailed.
    """
    done = {(fact.group, fact.message_id) for fact in history.of(PopFinished) if fact.is_ok}
    letters, last = Counter(history.pop_dead), history.max_retries + 1
    gone = deleted(history)
    for sent in history.of(Sent) if history.is_drained else ():
        if sent.at < gone.get(sent.queue.topic, 0.0):
            continue
        for group in sorted(history.popping):
            key = group, sent.message_id
            if not history.reads(group, sent.queue.topic) or key in done or key in letters:
                continue
            if sent.at < history.excused_until:
                excuse(history, HANDLED, "its topic was made anew while it was on its way")
            else:
                where = f"{sent.message_id} ({sent.queue} {sent.offset})"
                yield Violation(HANDLED, f"group {group} never finished {where}", sent.at)
    failed = Counter(
        (fact.group, fact.message_id) for fact in history.of(PopFinished) if not fact.is_ok and fact.attempt >= last
    )
    harm, bent = Disturbances(history, KEEPS_ANSWERS, RECOVERED_S), any(history.of(Bent))
    asked: dict[tuple[str, str], list[float]] = {}
    for ask in history.of(CopyAsked):
        asked.setdefault((ask.group, ask.message_id), []).append(ask.at)
    end = history.facts[-1].at if history.facts else 0.0
    for key, count in sorted(letters.items()):
        group, message_id = key
        if not failed[key]:
            yield Violation(HANDLED, f"{message_id} is a dead letter of {group} and had tries left", end)
        elif count > failed[key]:
            if bent or any(harm.touch(at, at + RECOVERED_S) for at in asked.get(key, ())):
                excuse(history, HANDLED, "an answer was lost or late, and no broker compares plain sends")
            else:
                what = (
                    f"{message_id} is {count} dead letters of {group}, and failed its last attempt {failed[key]} times"
                )
                yield Violation(HANDLED, what, end)


def pops_do_not_repeat(history: History) -> Iterator[Violation]:
    """In calm runs: nobody begins with a message that another is at, or that is done."""
    if not history.is_calm:
        return
    running: dict[tuple[str, str], PopStarted] = {}
    done: dict[tuple[str, str], PopFinished] = {}
    for fact in history.facts:
        if not isinstance(fact, PopStarted | PopFinished) or fact.group in history.switched:
            continue
        key = fact.group, fact.message_id
        if isinstance(fact, PopFinished):
            running.pop(key, None)
            if fact.is_ok:
                done[key] = fact
            continue
        before = done.get(key) or running.get(key)
        if before is not None:
            did = "had finished it" if key in done else "was at it"
            what = f"{fact.who} started {fact.message_id} for {fact.group}; {before.who} {did}"
            yield Violation(CALM, what, fact.at)
        running[key] = fact
