"""Subscriptions as the broker filters by them: hashes of tags. RocketMQ compares hashes; clients check the text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from framework.model.subscription import EVERYTHING, Subscription, java_hash

TAG = "TAG"
SQL92 = "SQL92"
NO_TAG = 0
"""The hash of nothing: what a message without tags is stored with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a group wants of a topic, as its last heartbeat or this pull says."""

    topic: str
    expression: str = EVERYTHING
    kind: str = TAG
    version: int = 0
    hashes: frozenset[int] | None = None
    """None: every message."""


def wanted(topic: str, expression: str | None, *, kind: str | None = None, version: int = 0) -> Wanted:
    """The subscription; an empty expression is everything, as RocketMQ reads it."""
    text = expression or EVERYTHING
    if (kind or TAG) != TAG:
        return Wanted(topic=topic, expression=text, kind=kind or TAG, version=version)
    return Wanted(topic=topic, expression=text, version=version, hashes=_hashes(text))


@lru_cache(maxsize=1024)
def _hashes(expression: str) -> frozenset[int] | None:
    subscription = Subscription("", expression)
    return frozenset(subscription.tag_hashes) if subscription.tags else None


@lru_cache(maxsize=4096)
def tag_hash(tag: str | None) -> int:
    return java_hash(tag) if tag else NO_TAG
