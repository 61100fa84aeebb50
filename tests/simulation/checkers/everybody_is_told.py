"""Invariant: each member of a broadcasting group handles every message of every queue, and commits to no broker."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.checkers.former_life import deleted
from tests.simulation.facts import Committed, Finished, Said, Sent
from tests.simulation.history import History, machine_of

NAME = "everybody is told"


def everybody_is_told(history: History) -> Iterator[Violation]:
    """Nothing is lost in groups whose members divide nothing, machine by machine: what one life has finished, no later
    one need.

    A message that failed is tried in place, as often as the group allows, and is then dropped and named: no copy of it
    goes to a broker, nor does an offset.
    """
    if not history.broadcasting:
        return
    ended: set[tuple[str, str, str]] = set()
    tried: set[tuple[str, str, str]] = set()
    """What failed for the last time that it may."""
    for fact in history.facts:
        match fact:
            case Finished() if fact.group in history.broadcasting:
                key = (machine_of(fact.who), fact.group, fact.message_id)
                if fact.is_ok:
                    ended.add(key)
                elif fact.attempt > history.max_retries:
                    tried.add(key)
            case Said(event="message dropped") if fact.fields["group"] in history.broadcasting:
                key = (machine_of(fact.who), fact.fields["group"], fact.fields["message_id"])
                if key not in tried:
                    what = f"{fact.who} dropped {key[2]} of {key[1]} at try {fact.fields['attempt']}"
                    yield Violation(NAME, f"{what}, and had tries left", fact.at)
                ended.add(key)
            case Committed() if fact.group in history.broadcasting:
                what = f"{fact.by} told a broker {fact.offset} of {fact.queue}"
                yield Violation(NAME, f"{what}, and {fact.group} is broadcasting", fact.at)
            case _:
                pass
    end = history.facts[-1].at if history.facts else 0.0
    for group, message_id, _, _ in history.copies:
        if group in history.broadcasting:
            yield Violation(NAME, f"a broker has a copy of {message_id} for {group}, which is broadcasting", end)
    if history.is_drained:
        yield from _untold(history, ended)


def _untold(history: History, ended: set[tuple[str, str, str]]) -> Iterator[Violation]:
    gone = deleted(history)
    machines = [machine_of(who) for who in history.members]
    for sent in history.of(Sent):
        for group in sorted(history.broadcasting):
            if sent.at < gone.get(sent.queue.topic, 0.0) or not history.reads(group, sent.queue.topic):
                continue
            for machine in machines:
                if (machine, group, sent.message_id) not in ended and sent.at < history.excused_until:
                    excuse(history, NAME, "its topic was made anew while it was on its way")
                elif (machine, group, sent.message_id) not in ended:
                    what = f"{machine} never finished {sent.message_id} ({sent.queue} {sent.offset}) for {group}"
                    yield Violation(NAME, what, sent.at)
