"""What becomes of a batch of an orderly line: what is in front and went well has ended, the rest is tried again.

The first message that is to be tried again holds all behind it, however they ended: they come again with it, in order.
Only what ends for good by itself does not: a message that was dropped, or is a dead letter because it was called one or
because it, and it alone, has reached the maximum. (In Java a batch sends such a message again at each further try.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from framework.core.retry import SendBack, Settle, Stay, decide_in_order
from framework.model.outcome import Outcome


@dataclass(slots=True)
class BatchEnds:
    """By the indexes of the batch."""

    done: int = 0
    """So many in front were handled, or were dropped, or are given up."""
    dropped: list[int] = field(default_factory=list)
    copies: list[tuple[int, SendBack]] = field(default_factory=list)
    """Given up: a broker is to keep them."""
    stay: Stay | None = None
    """How the one at `done` is tried again, and with it all behind it that are in neither list."""


def decide_batch(
    outcomes: Sequence[Outcome],
    attempts: Sequence[int],
    max_retries: int,
    decide: Callable[[Outcome, int, int], Settle | SendBack | Stay] = decide_in_order,
) -> BatchEnds:
    """One outcome a message, the attempts that this was of each, and what decides about one message."""
    ends = BatchEnds(done=len(outcomes))
    for index, (outcome, attempt) in enumerate(zip(outcomes, attempts, strict=True)):
        decision = decide(outcome, attempt, max_retries)
        match decision:
            case SendBack():
                ends.copies.append((index, decision))
            case Settle(event="dropped"):
                ends.dropped.append(index)
            case Stay() if ends.stay is None:
                ends.done, ends.stay = index, decision
            case _:
                pass
    return ends
