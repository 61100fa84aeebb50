"""What a batch handler's answer means for each message of its batch.

None: all is well. An outcome: it is each message's. A list: one outcome or None a message. A number: all is well up to
that index, and the rest is tried again (-1: nothing is). `BatchFailed(at=index)`: the same, said by raising, with the
index of the first that failed. Any other exception: the whole batch is tried again. `Commit()` and `Rollback()` are
said of the batch as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from framework.core.retry import SendBack, Settle, Stay, decide_in_order
from framework.model.answers import understood
from framework.model.outcome import Ack, BatchFailed, Commit, DeadLetter, Drop, Outcome, RetryLater, Rollback, Suspend

_OUTCOMES = (Ack, RetryLater, DeadLetter, Suspend, Drop)
_OF_ALL = (Commit, Rollback)
"""Said of the batch as a whole, and of nothing in it."""


def spread(answer: object, count: int) -> list[object]:
    """One result a message, in their order: None for plain success, an outcome, or the error that made it fail.

    An answer that fits no batch of this size is a mistake of the handler's: nobody knows what it handled, so all of the
    batch is tried again.
    """
    if answer is None:
        return [None] * count
    answer = understood(answer)
    if isinstance(answer, BatchFailed):
        if not 0 <= answer.at < count:
            return _mistaken(f"BatchFailed(at={answer.at}) is not in a batch of {count}", count)
        return _tail(answer.at, answer, count)
    if isinstance(answer, (*_OUTCOMES, *_OF_ALL, Exception)):
        return [answer] * count
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not -1 <= answer < count:
            return _mistaken(f"{answer} is no index of a batch of {count}", count)
        reason = f"the handler answered that all is well up to {answer}"
        return _tail(answer + 1, RetryLater(reason=reason), count)
    if isinstance(answer, Sequence) and not isinstance(answer, str | bytes):
        return _each(answer, count)
    return _mistaken(
        f"a batch handler answers None, an outcome, a list or an index, not a {type(answer).__name__}", count
    )


def _each(answers: Sequence[object], count: int) -> list[object]:
    if len(answers) != count:
        return _mistaken(f"{len(answers)} outcomes for a batch of {count}", count)
    for index, each in enumerate(answers):
        if isinstance(each, _OF_ALL):
            return _mistaken(f"outcome {index} is {each}, which is said of a whole batch: return it alone", count)
        meant = understood(each)
        if meant is not each:
            return _mistaken(f"outcome {index} of the batch: {meant}", count)
        if each is not None and not isinstance(each, (*_OUTCOMES, Exception)):
            return _mistaken(f"outcome {index} of the batch is a {type(each).__name__}", count)
    return list(answers)


def _tail(first_failed: int, result: object, count: int) -> list[object]:
    return [None] * first_failed + [result] * (count - first_failed)


def _mistaken(message: str, count: int) -> list[object]:
    return [ValueError(message)] * count


@dataclass(slots=True)
class BatchEnds:
    """What becomes of a batch of an orderly line, by its indexes.

    The first message that is to be tried again holds all behind it, however they ended: they come again with it, in
    order. Only what ends for good by itself does not: a message that was dropped, or is a dead letter because it was
    called one or because it, and it alone, has reached the maximum. (In Java a batch sends such a message again at each
    further try.)
    """

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
