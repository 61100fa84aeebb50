"""What a producer's properties ask for: a delay level, a delay of its own, or an instant. RocketMQ's names and order.

DELAY               a level of the ladder; wins over the others
TIMER_DELAY_SEC     seconds from now
TIMER_DELAY_MS      milliseconds from now
TIMER_DELIVER_MS    an instant by the wall clock; one that is over is no delay
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from framework.broker.node import Node
from framework.broker.request import Refusal
from framework.errors import shorten
from framework.model.message import DELAY_LEVEL
from framework.wire.codes import ResponseCode

SECONDS, MILLISECONDS, INSTANT = "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
OUT = "TIMER_OUT_MS"
"""In every message that was delayed by its own time: when it was due. A copy of such a message is not delayed again."""
_DIGITS_MAX = 18
_WISHES = frozenset({DELAY_LEVEL, SECONDS, MILLISECONDS, INSTANT})


class Level(NamedTuple):
    """A level of the ladder, from 1."""

    number: int


class Instant(NamedTuple):
    """A time of its own, by the schedule's clock and by the wall clock."""

    due_ms: int
    wall_ms: int


DelayWish: TypeAlias = Level | Instant


def wish_of(node: Node, properties: Mapping[str, str]) -> DelayWish | None:
    """How long the message is to wait, None for not at all; a Refusal (13) for what is no time or too far away."""
    if _WISHES.isdisjoint(properties):
        return None
    level = _level(properties.get(DELAY_LEVEL, ""))
    if level > 0:
        return Level(level)
    name = next((name for name in (SECONDS, MILLISECONDS, INSTANT) if name in properties), None)
    if name is None or OUT in properties:
        return None
    time_ms = _number(name, properties[name]) * (1000 if name == SECONDS else 1)
    wall_ms = node.world.clock.now_ms()
    wait_ms = time_ms - wall_ms if name == INSTANT else time_ms
    if wait_ms <= 0:
        return None
    if wait_ms > node.settings.timer_ms_max:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"timer message illegal, the delay time should not be bigger than the max delay"
            f" {node.settings.timer_ms_max}ms; {name} asks for {wait_ms}ms",
        )
    out_ms = wall_ms + wait_ms
    return Instant(node.delays.at_wall_ms(out_ms), out_ms)


def _level(text: str) -> int:
    """0 for what is no number, as RocketMQ reads it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def _number(name: str, text: str) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {name}={shorten(text)} is no whole number")
    return int(text)
