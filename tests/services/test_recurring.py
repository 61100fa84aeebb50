"""Recurring: the first few lines of a kind are written, the rest of a minute is one line."""

from __future__ import annotations

import asyncio

from framework.services import recurring
from framework.services.recurring import FIRST, KINDS_MAX, Recurring
from tests.services.parts import LoopClock, play_logged


def test_behind_the_first_few_of_a_kind_a_minute_is_one_line_with_the_newest() -> None:
    async def story() -> None:
        lines = Recurring(LoopClock())
        for number in range(1_000):
            lines.say("warning", "handler failed", ("orders", "ValueError"), error=f"no {number}", exc_info=True)
            await asyncio.sleep(0.01)
        lines.say("warning", "handler failed", ("orders", "KeyError"), error="other")
        await asyncio.sleep(60)
        lines.look()
        lines.look()
        lines.say("warning", "handler failed", ("orders", "ValueError"), error="anew")

    _, logged = play_logged(story)
    seen = [line for line in logged if line["log_level"] != "debug"]
    assert [f"no {number}" for number in range(FIRST)] + ["other", "no 999", "anew"] == [each["error"] for each in seen]
    (more,) = [line for line in seen if line["event"] == "handler failed: more"]
    assert (1_000 - FIRST, "warning") == (more["count"], more["log_level"])
    assert "exc_info" not in more, "a traceback would keep a pull's bytes"
    assert 1_000 - FIRST == len([line for line in logged if line["log_level"] == "debug"]), "each at debug"


def test_a_minute_ends_by_the_next_line_too_and_at_the_stop() -> None:
    async def story() -> None:
        lines = Recurring(LoopClock())
        for pause_s in (1.0, 61.0, 1.0, 0.0):
            lines.say("info", "message retried", ("orders",), first=0, reason=f"{pause_s}")
            await asyncio.sleep(pause_s)
        lines.close()
        lines.close()

    _, logged = play_logged(story)
    seen = [(line["event"], line["count"], line["reason"]) for line in logged if line["log_level"] == "info"]
    assert [("message retried: more", 2, "61.0"), ("message retried: more", 2, "0.0")] == seen


def test_kinds_are_bounded() -> None:
    """Users choose what exceptions are called."""

    async def story() -> Recurring:
        lines = Recurring(LoopClock())
        for number in range(3 * KINDS_MAX):
            lines.say("warning", "handler failed", (f"Error{number}",), error=f"{number}")
        return lines

    lines, logged = play_logged(story)
    assert f"<Recurring {KINDS_MAX + 1} kinds>" == repr(lines)
    assert KINDS_MAX + FIRST == len([line for line in logged if line["log_level"] == "warning"])
    assert recurring.DEAD_LETTERS_FIRST > FIRST
