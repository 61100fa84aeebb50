"""Invariant: where queues are allotted by name no other member takes them, and queues without an owner are logged."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from tests.simulation.facts import Acquired, Said, Started
from tests.simulation.history import History, machine_of

NAME = "only who is named"
WITHOUT_NAMES = ("outside the rooms", " more")
"""How a remark ends that says how many queues it means, and not all their names."""


def only_who_is_named(history: History) -> Iterator[Violation]:
    """`by_config` and `machine_room`: a queue is its named member's or nobody's, also while that one is away. Each
    member that is up at the end has said which queues have no owner, or how many.
    """
    said: dict[tuple[str, str], str] = {}
    for fact in history.facts if history.strict else ():
        match fact:
            case Acquired() | Started() if fact.group in history.strict:
                allowed = history.allotted[fact.group].get(str(fact.queue))
                if allowed is not None and machine_of(fact.who) not in allowed:
                    whose = " and ".join(allowed) or "nobody"
                    did = "took" if isinstance(fact, Acquired) else f"started {fact.offset} of"
                    what = f"{fact.who} {did} {fact.queue} for {fact.group}"
                    yield Violation(NAME, f"{what}, which is {whose}'s", fact.at)
            case Said(event="allocation incomplete" | "allocation complete") if fact.fields["group"] in history.strict:
                key = (fact.who, fact.fields["group"])
                said[key] = f"{said.get(key, '')} {' '.join(fact.fields['remarks'])}"
            case _:
                pass
    end = history.facts[-1].at if history.facts else 0.0
    for group, queue in sorted(history.owners):
        if group not in history.strict or not history.is_nobodys(group, queue):
            continue
        for who in history.members:
            remarks = said.get((who, group), "")
            is_counted = any(phrase in remarks for phrase in WITHOUT_NAMES)
            if queue not in remarks and not is_counted:
                yield Violation(NAME, f"{who} never said that {queue} of {group} is nobody's", end)
