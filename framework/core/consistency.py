"""Consistency: what is wrong with a group whose members are not of one kind.

Members divide a group's queues without talking to each other, so one that is orderly, broadcasting or subscribed
otherwise is not refused by anybody: it only makes messages go missing, come twice or come out of order. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.model.reserved import RETRY_PREFIX

OTHER_ORDER = "orderly and concurrent members"
OTHER_MODEL = "broadcasting and clustering members"
OTHER_TOPICS = "members with different subscriptions"
SHARED_ID = "one client id in several processes"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a member says of itself; None where it says nothing about that."""

    orderly: bool | None = None
    model: str | None = None
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    """Topic -> expression."""

    @property
    def wanted(self) -> dict[str, str]:
        """The subscriptions that members choose; that of the retry topic is not one."""
        return {
            topic: " || ".join(sorted(part.strip() for part in text.split("||")))
            for topic, text in self.subscriptions.items()
            if not topic.startswith(RETRY_PREFIX)
        }


def differences(own: Profile, others: Mapping[str, Profile], shared_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What is wrong -> the ids of the members that differ from us."""
    found: dict[str, list[str]] = {}
    for member, other in sorted(others.items()):
        if other.orderly is not None and other.orderly != own.orderly:
            found.setdefault(OTHER_ORDER, []).append(member)
        if other.model is not None and other.model != own.model:
            found.setdefault(OTHER_MODEL, []).append(member)
        if other.wanted != own.wanted:
            found.setdefault(OTHER_TOPICS, []).append(member)
    if shared_ids:
        found[SHARED_ID] = sorted(shared_ids)
    return {problem: tuple(members) for problem, members in found.items()}


def asked(own: str, members: Sequence[str], count_max: int) -> list[str]:
    """Whom this member asks: all others, or in a large group the next ones in the order of ids.

    Each asks its successors, so that wherever two kinds meet somebody sees it, and a group that starts does not cost a
    question for every pair of members.
    """
    around = sorted({own, *members})
    at = around.index(own)
    return (around[at + 1 :] + around[:at])[:count_max]


def repeated_ids(connections: Sequence[str]) -> list[str]:
    """Client ids that several connections of one broker's list have."""
    return sorted(each for each, count in Counter(connections).items() if count > 1)
