"""How a lot is settled, step by step. Pure: each step is yielded to who can take it, and what came of it is sent back.

A stock broker stores a second message for a second commit, and forgets with a crash which half messages it has
committed. So a commit that was not confirmed is never simply told again. First comes a pause, in which it takes place
or never will; then the queues are looked at; only what is not there is committed again. A check never commits: it says
"unknown" until a lot is over, and then "rollback" to whatever of it is still half.

The process may end between any two steps, also in the middle of one. The next one begins anew with `settling`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from framework.client.dialogue.halves import HalfMessage
from framework.client.dialogue.lot_records import Claimed, Done, Record, Standing, decision
from framework.errors import Refused
from framework.model.queue import MessageQueue
from framework.wire.codes import ResponseCode

AT_ONCE = 1_000
"""Commits between two looks at whether another process has claimed the lot."""
ROUNDS_MAX = 20
"""Commits that are not confirmed so often are given up for now; what settles the lot next goes on."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read the records, at least up to those that this process wrote. Answer: the Standing."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write these records, in this order, as often as needed until each is confirmed."""

    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Ask where these queues end. Answer: pairs of queue and offset."""

    queues: Sequence[MessageQueue]


@dataclass(frozen=True, slots=True)
class CommitSome:
    """Commit these, each once. Answer: those that were not confirmed."""

    halves: Sequence[HalfMessage]
    in_order: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until what was asked for before has taken place, or never will."""


@dataclass(frozen=True, slots=True)
class LookAt:
    """Read the queues from these offsets to their ends. Answer: the ids of the messages there."""

    lows: Sequence[tuple[MessageQueue, int]]


@dataclass(frozen=True, slots=True)
class RollBack:
    """Roll these back; what is not confirmed is left to checks."""

    halves: Sequence[HalfMessage]


Step: TypeAlias = Read | Write | AskEnds | CommitSome | Pause | LookAt | RollBack
Steps: TypeAlias = Generator[Step, Any, None]


def settling(lot: int, token: str, mine: Sequence[HalfMessage], *, in_order: bool = False) -> Steps:
    """Commit a lot: these half messages of it, or those that were decided on in an earlier attempt.

    When it ends the lot is done, and each of its half messages is committed, once.
    """
    standing: Standing = yield Read()
    while standing.pending is not None:  # an earlier attempt got so far: of this lot, or of one before it
        yield from _finishing(standing, token)
        standing = yield Read()
    if not standing.is_over(lot):
        lows = yield AskEnds(sorted({half.queue for half in mine}))
        yield Write(decision(lot, token, mine, lows, in_order=in_order))
        standing = yield Read()
        if standing.pending is None:
            return  # another process has done it; whether by this decision, nobody says, so checks drop the rest
        if standing.pending.token == token:
            _hold(standing, token)
            yield from _committing(standing, token)
            return
        yield from _finishing(standing, token)  # another decision was there first
    if mine:
        yield RollBack(mine)


def _finishing(standing: Standing, token: str) -> Steps:
    """Commit what another attempt has decided on, and may have begun to commit."""
    yield Write([Claimed(standing.lot, token)])
    standing = yield Read()
    if standing.pending is None:
        return  # it is done meanwhile
    _hold(standing, token)
    yield from _committing(standing, token, is_begun=True)


def _committing(standing: Standing, token: str, *, is_begun: bool = False) -> Steps:
    decided, left = standing.pending, standing.halves()
    assert decided is not None, "an open lot has a decision"
    for attempt in range(ROUNDS_MAX):
        if is_begun or attempt:
            yield Pause()
            queues = {half.queue for half in left}
            there = yield LookAt([(queue, low) for queue, low in decided.lows if queue in queues])
            left = [half for half in left if half.message_id not in there]
        unsure: list[HalfMessage] = []
        for at in range(0, len(left), AT_ONCE):
            if at or is_begun or attempt:
                _hold((yield Read()), token)
            unsure += yield CommitSome(left[at : at + AT_ONCE], decided.in_order)
            if unsure and decided.in_order:
                unsure += left[at + AT_ONCE :]
                break
        left = unsure
        if not left:
            yield Write([Done(standing.lot)])
            return
    raise Refused(
        ResponseCode.SYSTEM_ERROR,
        f"{len(left)} half messages could not be committed, the first one of {left[0].queue}; what settles it next "
        "goes on with them",
        request=f"lot {standing.lot}", peer=left[0].queue.broker,
    )  # fmt: skip


def _hold(standing: Standing, token: str) -> None:
    """Stop where another process has taken the lot over: two that commit would do it twice."""
    if standing.pending is None or standing.claim != token:
        raise Refused(
            ResponseCode.ILLEGAL_OPERATION, "another process settles it; this one must not go on",
            request=f"lot {standing.lot}", peer="the records of its name",
        )  # fmt: skip


def said_of(standing: Standing, lot: int) -> str:
    """What a check answers about a half message of this lot. Never "commit": that is told with the answer awaited."""
    return "rollback" if standing.is_over(lot) else "unknown"
