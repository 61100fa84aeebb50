"""Invariant: a clean leave never causes a second delivery: the new owner begins where the previous one confirmed."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.checkers.excuses import excuse
from tests.simulation.facts import Acquired, Fact, Fault, Finished, Life, Reassigned, Said, Started
from tests.simulation.history import History

NAME = "calm runs do not repeat"
JUST_TAKEN_S = 1.0
COMMITTED_S = 3.0
"""By when what was finished is committed where nobody hangs: a batch that lingers, a try, a flush and the disk."""


def calm_runs_do_not_repeat(history: History) -> Iterator[Violation]:
    """A clean hand-over repeats nothing, in runs of joins and clean leaves only.

    Nothing is started again that a process had finished which left before the present owner took the queue. A joining
    member may repeat what the old owner is still at, and what it had finished within the last seconds: members do not
    vote, and for a moment two of them own one queue. Not so in groups that announce what they let go (`progress`):
    there a newcomer waits for its word, and nothing comes twice, unless the old owner had itself only just taken the
    queue, could not keep a record of it, or was superseded by somebody who was given the queue in passing.
    What failed in an orderly group is tried again in place, by whoever owns the queue then: that is no repeat. Where
    the order of keys is kept it holds the offset while other keys go on, so that their ends are repeated with it;
    so are those of messages behind it in its batch, and what was not yet committed where commits are made by hand. Of
    broadcasting groups each member's own file tells (`saved offsets hold`). Nor is anything sent twice, as
    no answer is lost.
    """
    if not history.is_calm:
        return
    finished: dict[tuple[str, str, int], Finished] = {}
    members = _Members(history)
    at_ends = {group for group, keys in history.orderly.items() if keys > 1} | history.by_hand | history.broadcasting
    at_ends |= history.batched & set(history.orderly)
    for fact in history.facts:
        match fact:
            case Finished() if fact.group not in at_ends and (fact.is_ok or fact.group not in history.orderly):
                finished.setdefault((fact.group, fact.message_id, fact.attempt), fact)
            case Started():
                before = finished.get((fact.group, fact.message_id, fact.attempt))
                if before is None:
                    continue
                yield from members.repeated(fact, before)
            case _:
                members.hear(fact)


class _Members:
    """Who has left when, who took which queue when, and who announces what it lets go."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._gone: dict[str, float] = {}
        self._owners: dict[tuple[str, str], list[tuple[str, float]]] = {}
        """Group and queue -> who was given it or took it, and when."""
        self._given: dict[tuple[str, str, str], float] = {}
        self._asked: dict[tuple[str, str, str], float] = {}
        self._taken: dict[tuple[str, str, str], float] = {}
        self._mute: dict[str, str] = {}
        self._is_healed = False

    def hear(self, fact: Fact) -> None:
        match fact:
            case Life(event="left"):
                self._gone[fact.who] = fact.at
            case Fault(kind="healed"):
                self._is_healed = True  # by which topics may get queues, of which members hear within half a minute
            case Said(event="progress not kept"):
                self._mute[fact.who] = fact.fields["group"]
            case Reassigned():
                for queue in fact.gained:
                    self._owners.setdefault((fact.group, queue), []).append((fact.who, fact.at))
                self._given.update(dict.fromkeys(((fact.who, fact.group, queue) for queue in fact.gained), fact.at))
            case Acquired():
                # The offset was asked for at some time since the queue was given, and answered by now.
                key = (fact.who, fact.group, fact.queue)
                self._owners.setdefault((fact.group, fact.queue), []).append((fact.who, fact.at))
                self._asked[key], self._taken[key] = self._given.pop(key, fact.at), fact.at
            case _:
                pass

    def repeated(self, fact: Started, before: Finished) -> Iterator[Violation]:
        """Whether it may be started though somebody had finished it."""
        since = self._asked.get((fact.who, fact.group, str(fact.queue)), 0.0)
        owned = self._taken.get((before.who, fact.group, str(fact.queue)), since)
        left = self._gone.get(before.who, since)
        what = f"{fact.who} started {fact.message_id} for {fact.group} again; {before.who}"
        announces = not self._is_healed and fact.group in self._history.announcing - {self._mute.get(before.who)}
        passers_by = {who for who, at in self._owners.get((fact.group, str(fact.queue)), ()) if owned < at < since}
        if announces and since - owned > JUST_TAKEN_S and not passers_by - {fact.who, before.who}:
            yield Violation(NAME, f"{what} had finished it and let the queue go", fact.at)
        elif left < since:
            yield Violation(NAME, f"{what} finished it and left at {left:.3f}s", fact.at)
        elif before.at < since - COMMITTED_S:
            long = since - before.at
            yield Violation(NAME, f"{what} had finished it {long:.3f}s before the queue was taken", fact.at)
        else:
            excuse(self._history, NAME, "two members had the queue for a moment")
