"""Subscriptions as the broker filters by them: hashes of tags, or an SQL92 condition on a message's properties.

RocketMQ compares the hashes of tags, and clients check their text; what SQL92 lets through no client checks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from framework.broker.request import Refusal
from framework.errors import Sql92Error, bare
from framework.model import sql92
from framework.model.subscription import EVERYTHING, Subscription, java_hash
from framework.wire.codes import ResponseCode

if TYPE_CHECKING:
    from framework.broker.node import Node

TAG = "TAG"
SQL92 = "SQL92"
KINDS = (TAG, SQL92)
NO_TAG = 0
"""The hash of nothing: what a message without tags is stored with."""
TAG_BYTES = 64
CONDITION_BYTES = 64  # a character
_KEPT_CHARS_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a group wants of a topic, as its last heartbeat or this pull says."""

    topic: str
    expression: str = EVERYTHING
    kind: str = TAG
    version: int = 0
    hashes: frozenset[int] | None = None
    """None: every message."""
    condition: sql92.Expression | None = None
    """Of an SQL92 subscription that can be understood."""
    mistake: str = ""
    """Why one cannot."""


def wanted(
    topic: str, expression: str | None, *, kind: str | None = None, version: int = 0, is_strict: bool = False
) -> Wanted:
    """The subscription; an empty expression of tags is everything, as RocketMQ reads it.

    `is_strict` refuses SQL92 that RocketMQ takes and reads as something else than what was written.
    """
    text = expression or EVERYTHING
    if kind == SQL92:
        condition = _condition(expression or "", is_strict)
        if isinstance(condition, str):
            return Wanted(topic=topic, expression=text, kind=kind, version=version, mistake=condition)
        return Wanted(topic=topic, expression=text, kind=kind, version=version, condition=condition)
    if (kind or TAG) != TAG:
        return Wanted(topic=topic, expression=text, kind=kind or TAG, version=version)
    return Wanted(topic=topic, expression=text, version=version, hashes=_hashes(text))


def check_kind(node: Node, kind: str) -> None:
    """Refuse (1) kinds of expression that are none, or that are switched off."""
    if kind not in KINDS or (kind == SQL92 and not node.switches.filters_sql):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            "The broker does not support consumer to filter message by " + bare(kind),
        )


def weight_of(wanted: Wanted) -> int:
    """About how many bytes it holds: an expression that was read costs much more than its text."""
    tags = 0 if wanted.hashes is None else len(wanted.hashes)
    text = len(wanted.expression) * (1 if wanted.condition is None else CONDITION_BYTES)
    return len(wanted.topic) + text + tags * TAG_BYTES


def _hashes(expression: str) -> frozenset[int] | None:
    return _short_hashes(expression) if len(expression) <= _KEPT_CHARS_MAX else _hashes_in(expression)


@lru_cache(maxsize=1024)
def _short_hashes(expression: str) -> frozenset[int] | None:
    return _hashes_in(expression)


def _hashes_in(expression: str) -> frozenset[int] | None:
    subscription = Subscription("", expression)
    return frozenset(subscription.tag_hashes) if subscription.tags else None


@lru_cache(maxsize=128)  # the longest has a quarter of a MiB
def _condition(expression: str, is_strict: bool) -> sql92.Expression | str:
    """The condition, or what is wrong with it and where."""
    try:
        return sql92.parse(expression, is_strict=is_strict)
    except Sql92Error as error:
        return str(error)


@lru_cache(maxsize=4096)
def tag_hash(tag: str | None) -> int:
    return java_hash(tag) if tag else NO_TAG
