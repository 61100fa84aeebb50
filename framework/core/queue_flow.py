"""QueueFlow: the life of one owned queue, and what its pull loop does next.

    state         event               next state     what the shell does
    CLAIMED       lease_granted       POSITIONING    asks for the stored offset (orderly groups only begin here)
    POSITIONING   position_known      FLOWING        pulls
    POSITIONING   position_refused    POSITIONING    names the reason, asks again later; never pulls, never commits
    FLOWING       throttled           HELD           waits for room
    HELD          room                FLOWING        pulls
    FLOWING/HELD  offset_illegal      POSITIONING*   *the broker's corrected offset is taken at once
    FLOWING/HELD  offset_doubted      POSITIONING    asks the master what is stored; a second such answer is believed
    these three   reset               FLOWING        what was pulled is dropped; goes on from the offset that was asked
    any of these  lease_lost          CLAIMED        forgets what it holds; what still ends changes nothing
    any           revoked             RETIRING       no new pulls, no new deliveries
    RETIRING      lease_lost          RETIRING       the same; there is nothing left to commit
    RETIRING      released            RELEASED       committed with an answer, forgotten; later ends are counted no-ops

Only this file decides what a pull's answer means and how long to stand back. It knows no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from framework.core import limits
from framework.core.backoff import Health, Trouble
from framework.core.budget import Budget
from framework.core.chunk import Chunk, Run
from framework.core.window import FlowLimits, Window, reason_to_wait
from framework.model.message import Message
from framework.model.pulled import BUSY, Damaged, Failed, Found, NothingNew, OffsetIllegal, Popped, PullResult
from framework.model.queue import MessageQueue


class QueueState(Enum):
    CLAIMED = "claimed"
    POSITIONING = "positioning"
    FLOWING = "flowing"
    HELD = "held"
    RETIRING = "retiring"
    RELEASED = "released"


_POSITIONING, _FLOWING, _HELD = QueueState.POSITIONING, QueueState.FLOWING, QueueState.HELD
_CLAIMED, _RETIRING, _RELEASED = QueueState.CLAIMED, QueueState.RETIRING, QueueState.RELEASED

# (state, event) -> state. A pair that is absent is a bug, and `_move` raises with both names.
TRANSITIONS: dict[tuple[QueueState, str], QueueState] = {
    (_CLAIMED, "lease_granted"): _POSITIONING,
    (_POSITIONING, "position_known"): _FLOWING,
    (_POSITIONING, "position_refused"): _POSITIONING,
    (_FLOWING, "throttled"): _HELD,
    (_HELD, "throttled"): _HELD,
    (_HELD, "room"): _FLOWING,
    (_FLOWING, "offset_illegal"): _POSITIONING,
    (_HELD, "offset_illegal"): _POSITIONING,
    (_FLOWING, "offset_doubted"): _POSITIONING,
    (_HELD, "offset_doubted"): _POSITIONING,
    (_POSITIONING, "reset"): _FLOWING,
    (_FLOWING, "reset"): _FLOWING,
    (_HELD, "reset"): _FLOWING,
    (_POSITIONING, "lease_lost"): _CLAIMED,
    (_FLOWING, "lease_lost"): _CLAIMED,
    (_HELD, "lease_lost"): _CLAIMED,
    (_RETIRING, "lease_lost"): _RETIRING,
    (_CLAIMED, "revoked"): _RETIRING,
    (_POSITIONING, "revoked"): _RETIRING,
    (_FLOWING, "revoked"): _RETIRING,
    (_HELD, "revoked"): _RETIRING,
    (_RETIRING, "revoked"): _RETIRING,
    (_RETIRING, "released"): _RELEASED,
}


class Position:
    """Ask where to begin."""

    __slots__ = ()


class Pull:
    """Pull from `offset`; one record only where it is asked for `alone`."""

    __slots__ = ("alone", "offset")

    def __init__(self, offset: int, *, alone: bool = False) -> None:
        self.offset = offset
        self.alone = alone


@dataclass(frozen=True, slots=True)
class Wait:
    """Until the bell rings, or until an instant where there is one."""

    reason: str
    until_ms: int | None = None


class Retire:
    """Leave the loop."""

    __slots__ = ()


Step: TypeAlias = Position | Pull | Wait | Retire
POSITION, RETIRE = Position(), Retire()


class QueueFlow:
    """One owned queue. Its pull loop asks `next_step`, does it, and tells what came of it."""

    __slots__ = (
        "_asked_ms", "_budget", "_stored", "bounds", "caught_up", "damage", "doubted", "health", "held_because",
        "hold_reason", "is_paused", "is_popped", "is_tripped", "max_offset", "next_offset", "queue", "reached", "run",
        "state", "window",
    )  # fmt: skip

    def __init__(
        self,
        queue: MessageQueue,
        budget: Budget,
        bounds: FlowLimits,
        *,
        jitter: float = 0.5,
        needs_lease: bool = False,
    ) -> None:
        self.queue = queue
        self.state = _CLAIMED if needs_lease else _POSITIONING
        self.window = Window.closed()
        """Of what was pulled since the queue has its position; closed while it has none."""
        self.next_offset = 0
        self.max_offset = -1
        """As the last answer said; -1 before the first."""
        self.caught_up = False
        """Nothing was left at the broker, as of the last answer. What comes later ends the long poll under way."""
        self.health = Health(jitter)
        self.damage = Damage()
        self.held_because: str | None = None
        """Why it is HELD; None in every other state."""
        self.doubted: int | None = None
        """Where the broker wants us to go on, which the master is asked about first; None once a pull succeeded."""
        self._stored: int | None = None
        """What the master had stored when it was asked because of `doubted`; None for nothing."""
        self.reached: int | None = None
        """Below this all had ended here when the queue was lost; None once it has a position again."""
        self.bounds = bounds
        """How much it may hold. Whoever changes them rings the pull loop's bell."""
        self.is_paused = False
        """Somebody wants no more messages for now."""
        self.is_popped = False
        """Its messages are popped; set once, before the first position."""
        self.is_tripped = False
        """The breaker of its topic is open: what it holds is tried one message at a time, and no more is pulled."""
        self.hold_reason: str | None = None
        """Why it must not pull, though it may hold more: a message cannot be opened here. The lease's end clears it."""
        self.run: Run | None = None
        """What the shell runs this queue's chunks with; set once, before the first position."""
        self._budget = budget
        self._asked_ms = 0

    # What to do

    def next_step(self, now_ms: int) -> Step:
        state = self.state
        if state is _RETIRING or state is _RELEASED:
            return RETIRE
        if state is _CLAIMED:
            return Wait("lease")
        if now_ms < self.health.until_ms:
            return Wait("failure", self.health.until_ms)
        if state is _POSITIONING:
            return POSITION
        reason = "paused" if self.is_paused else self.hold_reason
        if reason is None and self.is_tripped and self.window.has_unstarted:
            reason = "breaker"
        if reason is None:
            reason = reason_to_wait(self.window, self.bounds, self._budget.has_room)
        if reason is not None:
            self._move("throttled")
            self.held_because = reason
            return Wait(reason)
        if state is _HELD:
            self._move("room")
        self._asked_ms = now_ms
        offset = self.next_offset
        return Pull(offset, alone=offset < self.damage.until)

    # What came of it

    def positioned(self, offset: int, end: int = -1) -> None:
        """The broker (or the policy) named the offset to begin at; `end` is where the queue ends now, where known."""
        assert offset >= 0, f"{self.queue}: position {offset}"
        self._move("position_known")
        self.health.succeeded()
        self._begin_at(offset)
        self.max_offset = end
        self.caught_up = 0 <= end <= offset

    @property
    def is_sent_back(self) -> bool:
        """Whether that is behind us: the queue lost its end, or is another one of the same name, all of it unread."""
        return self.doubted is not None and self.doubted < self.next_offset

    def stays_after_doubt(self, stored: int | None) -> bool:
        """Whether what the master has stored lets us go on where we are: what is held is at least as far."""
        self._stored = stored
        if self.doubted is None or stored is None or stored > self.window.settle():
            return False
        self._move("position_known")
        self.health.succeeded()
        return True

    def position_refused(self, reason: str, now_ms: int, trouble: Trouble = "pull failed") -> None:
        self._move("position_refused")
        self._failed(reason, now_ms, trouble)

    def pulled(self, result: PullResult, now_ms: int) -> Chunk | None:
        """Take in a pull's answer; a chunk comes back where there is something to handle."""
        if self.state is _RETIRING or self.state is _RELEASED:
            return None
        if type(result) is Found:
            return self._found(result, now_ms)
        match result:
            case Popped(messages=messages, size=size, rest=rest):
                self.health.got_on()
                following = self.next_offset + len(messages)
                return self._go_on(messages, size, following, following + rest)
            case NothingNew(next_offset=offset, max_offset=end) if self._is_plausible(offset, end, now_ms):
                if offset == self.next_offset and now_ms - self._asked_ms < limits.AT_ONCE_MS:
                    self.health.brought_nothing(f"nothing new at offset {offset}, and answered at once", now_ms)
                else:
                    self.health.got_on()
                # The answer covers what lies between; without a chunk the range would never be committed.
                self._go_on((), 0, offset, end)
            case OffsetIllegal():
                self._illegal(result, now_ms)
            case Damaged(reason=reason, max_offset=end):
                to = self.damage.skipped_to(self.next_offset, result)
                if to is None or not self._is_plausible(to, end, now_ms):
                    self._failed(reason, now_ms, "record damaged")
                else:
                    self.window.admit((), self.next_offset, to, 0)
                    self.next_offset = to
                    self.health.got_on()
            case Failed(reason=reason, code=code, is_away=is_away):
                self._failed(reason, now_ms, "broker away" if is_away else "pull failed", is_busy=code == BUSY)
        return None

    def _found(self, result: Found, now_ms: int) -> Chunk | None:
        begin, messages, following = self.next_offset, result.messages, result.next_offset
        if messages and not begin <= messages[0].queue_offset <= messages[-1].queue_offset < following:
            found = f"messages {messages[0].queue_offset} to {messages[-1].queue_offset}"
            self._failed(f"pulled from {begin} and got {found}, next offset {following}", now_ms)
            return None
        if not self._is_plausible(following, result.max_offset, now_ms):
            return None
        if messages or following > begin:
            self.health.got_on()
        else:
            self.health.brought_nothing(f"messages found at offset {begin}, and none sent", now_ms)
        chunk = self._go_on(messages, result.size, following, result.max_offset)
        return chunk if chunk is not None and chunk.count else None

    def _go_on(self, messages: Sequence[Message], size: int, next_offset: int, max_offset: int) -> Chunk | None:
        assert not self.window.is_closed, f"{self.queue} has no position yet"
        begin, self.next_offset, self.max_offset = self.next_offset, next_offset, max_offset
        self.doubted, self.caught_up = None, next_offset >= max_offset
        return self.window.admit(messages, begin, next_offset, size)

    def _is_plausible(self, next_offset: int, max_offset: int, now_ms: int) -> bool:
        """A next offset that goes back, or far beyond the queue's end, would lose messages if it were believed.

        A broker reads its end before the messages, so an honest answer may be a little beyond.
        """
        if self.next_offset <= next_offset <= max(max_offset, self.next_offset) + limits.OFFSET_JUMP_MAX:
            return True
        self._failed(f"pulled from {self.next_offset} and was sent on to {next_offset} (end {max_offset})", now_ms)
        return False

    def _illegal(self, result: OffsetIllegal, now_ms: int) -> None:
        offset = result.next_offset
        if offset < 0:
            self._failed(f"offset {self.next_offset} is illegal and the broker names {offset}", now_ms)
            return
        self.health.brought_nothing(f"offset {self.next_offset} called illegal, to go on from {offset}", now_ms)
        if offset == self.next_offset:
            return  # what is held is before it, and stays
        # Inside of its own range nothing is illegal: somebody has reset the group, and that is said only once.
        is_reset = result.min_offset <= self.next_offset <= result.max_offset
        if not is_reset and self.doubted is None:
            self._move("offset_doubted")
            # What is held goes on: most such answers come from a broker that is not all there yet.
            self.doubted, self.caught_up = offset, False
            return
        if self.is_sent_back and self._stored is not None:
            offset = min(offset, self._stored)  # what lies between is still at work, or nobody has read it
        self._move("offset_illegal")
        self._move("position_known")
        self._begin_at(offset)  # what it held lies outside the broker's range, or before a reset
        self.max_offset = result.max_offset  # the end that was known may be that of a topic's former life

    def reset(self, offset: int) -> None:
        """Somebody asked to go on from elsewhere. A pull that is under way must not be answered to this flow."""
        assert offset >= 0, f"{self.queue}: reset to {offset}"
        self._move("reset")
        self.health.got_on()
        self.doubted = None
        self._begin_at(offset)

    @property
    def can_reset(self) -> bool:
        return (self.state, "reset") in TRANSITIONS

    def lease_granted(self) -> None:
        """The broker's lock is ours: the queue may be positioned and pulled."""
        self._move("lease_granted")

    def lease_lost(self) -> None:
        """It is not, or nobody can say: whoever holds it now begins at what is stored. Next time we begin there, or
        where we were if that is further.
        """
        self._move("lease_lost")
        self._lose()
        if self.state is _CLAIMED:
            self.window = Window.closed()
        self.doubted = self.hold_reason = None
        self.caught_up = False
        self.health.got_on()

    def revoke(self) -> None:
        """The queue goes to another member, or the group stops."""
        self._move("revoked")
        self.window.stop_handing_out()

    def released(self) -> None:
        self._move("released")
        self._lose()

    # Parts

    def _lose(self) -> None:
        if not self.window.is_closed:
            self.reached = self.window.settle()
        self.window.close()

    @property
    def failure(self) -> str | None:
        """Why the last try failed; None while things go well."""
        return self.health.failure

    @property
    def is_full(self) -> bool:
        """Whether what it holds lets no more in until something ends; not where it was paused."""
        if self.is_paused:
            return False
        return self.held_because == "budget" or reason_to_wait(self.window, self.bounds, has_budget=True) is not None

    def _begin_at(self, offset: int) -> None:
        """What still ends of what was pulled before changes nothing."""
        self.window.close()
        self.next_offset, self.reached = offset, None
        self.caught_up = False
        self.window = Window(offset, self._budget, self.run)
        self.window.is_popped = self.is_popped

    def _failed(self, reason: str, now_ms: int, trouble: Trouble = "pull failed", *, is_busy: bool = False) -> None:
        self.caught_up = False
        self.health.failed(reason, now_ms, trouble, is_busy=is_busy)

    def _move(self, event: str) -> None:
        following = TRANSITIONS.get((self.state, event))
        assert following is not None, f"{self.queue}: {event} cannot happen while {self.state.value}"
        self.state = following
        self.held_because = None

    def __repr__(self) -> str:
        return f"<QueueFlow {self.queue} {self.state.value} next={self.next_offset} window={self.window}>"


def lag_of(flow: QueueFlow) -> int | None:
    """Messages of the queue that are not done, as of the last answer; None before the first."""
    window = flow.window
    if window.is_closed or flow.max_offset < 0:
        return None
    if flow.is_popped:
        # What waits at the broker is every member's: while this one asks no more, others have taken it.
        rest = 0 if flow.is_paused else max(flow.max_offset - flow.next_offset, 0)
        return rest + window.unfinished
    return max(flow.max_offset - window.committable, 0)


class Damage:
    """How a record that contradicts itself is found among others, and when it may be left behind; one a queue.

    A pull that holds one fails as a whole. Where the group skips such records, the range of that pull is asked for
    again one record at a time, so that nothing but the damaged one is left out; and that only after it came damaged
    again.
    """

    __slots__ = ("_at", "_times", "skips", "until")

    def __init__(self, *, skips: bool = False) -> None:
        self.skips = skips
        """Whether a record that stays damaged is left behind; else its queue waits until it is mended."""
        self.until = 0
        self._at, self._times = -1, 0

    def asks_alone(self, offset: int) -> bool:
        """Whether the pull from here is to bring one record."""
        return offset < self.until

    def skipped_to(self, offset: int, result: Damaged) -> int | None:
        """A pull from here came damaged: where to go on instead, or None where it is to be tried again."""
        if not self.skips:
            return None
        if not self.asks_alone(offset):
            self.until = min(max(result.following, offset + 1), offset + limits.ALONE_MAX)
            return None
        if offset != self._at:
            self._at, self._times = offset, 0
        self._times += 1
        if self._times < limits.DAMAGED_TRIES:
            return None
        return result.until

    def __repr__(self) -> str:
        return f"<Damage {'skips' if self.skips else 'holds'}, alone until {self.until}>"
