"""ChannelTimer: the one timer of a channel: which requests are overdue, and when a peer's silence ends the channel.

- a frame that has begun stands still;
- nothing was sent or received for 120 s, as on the Java side;
- **half open**: a request got no answer in its time, that time was meaningful (above 100 ms, as in the Java client),
  and not one byte of any kind came since it was sent. The Java client closes on every such time-out; silence is asked
  for here because a peer that is only slow with one request still answers others, which closing would lose. A long
  poll needs no rule of its own: its time-out (30 s) is twice the broker's hold (15 s), so it is late by the margin.
  One such wait of a few seconds may be that request's fault, and the end of a connection is every group's: two do it.
- it was retired, and its last request has timed out.

While reading is paused, time stands still for the requests under way: their answers may lie unread before us. Not for
commits: a queue that is left waits for one, and what has used up the room to read may stay for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeAlias

from framework import marks
from framework.errors import BrokerUnreachable, ProtocolError, RequestTimedOut
from framework.wire.codes import RequestCode, request_name
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection, Limits

if TYPE_CHECKING:
    from framework.net.channel import Channel

IDLE_SECONDS = 120.0  # as NettyClientConfig and NettyServerConfig: longer than any long poll or heartbeat period
MEANINGFUL_SECONDS = 0.1  # below that a time-out says nothing about the peer
ALONE_SECONDS = 10.0  # a wait of so long is believed at once; of shorter ones it takes a second
STALL_SECONDS = 10.0  # in which a frame that has begun must end, or go on by at least ...
STALL_BYTES_MIN = 4096
GO_AWAY_REASON = "told to go away"
_COMMIT = int(RequestCode.UPDATE_CONSUMER_OFFSET)
STRAYS_MAX = Limits().in_flight_max
"""Between two looks of the timer: more than could ever have been asked for and given up, as of queues that go."""

Answered: TypeAlias = asyncio.Future[RemotingCommand]


_Deadline: TypeAlias = tuple[float, float, int]
"""When an answer is due, when its request was sent, and its code. One is made a pull."""


class ChannelTimer:
    """Runs from `start` until `stop`."""

    def __init__(self, channel: Channel, wire: Connection[Answered], *, stall_bytes_min: int) -> None:
        self._channel, self._wire, self._stall_bytes_min = channel, wire, stall_bytes_min
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.read_at = self.written_at = self._loop.time()
        """When bytes last came, and last went."""
        self.bytes_read = self.frames_read = 0
        self.unread: Collection[bytes] = ()
        """What was received and not taken apart yet."""
        self.deadlines: dict[int, _Deadline] = {}
        """Of the requests under way, by their number."""
        self.strays_max = STRAYS_MAX
        """More answers that nobody waits for than this, and the channel ends."""
        self._at_look: tuple[int, int] | None = None
        """Frames and bytes read at the last look, where a frame had begun by then."""
        self._doubted_at = float("-inf")
        """When the request was sent that ended a silence last."""
        self._paused_at: float | None = None

    def start(self) -> None:
        self._arm(self._loop.time() + IDLE_SECONDS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.deadlines.clear()

    def watch(self, number: int, code: int, timeout_ms: int) -> None:
        """A request was sent, whose answer is due by then."""
        now = self.written_at = self._loop.time()
        at = now + timeout_ms / 1000
        self.deadlines[number] = at, now, code
        if at < self._timer_at:
            self._arm(at)

    def note_read(self, count: int) -> None:
        """So many bytes came."""
        self.read_at = self._loop.time()
        self.bytes_read += count

    def watch_frame(self) -> None:
        """Look again in time to see whether the frame that has begun goes on."""
        until = self.read_at + STALL_SECONDS
        if self._timer_at > until:
            self._arm(until)

    @property
    def is_paused(self) -> bool:
        return self._paused_at is not None

    def pause(self) -> None:
        self._paused_at = self._loop.time()

    def resume(self) -> None:
        """The requests under way get back the time for which reading was paused."""
        assert self._paused_at is not None, "it was paused"
        paused, self._paused_at = self._loop.time() - self._paused_at, None
        self.read_at += paused
        self.written_at += paused
        self.deadlines = {
            number: (at, sent, code) if code == _COMMIT else (at + paused, sent + paused, code)
            for number, (at, sent, code) in self.deadlines.items()
        }
        self._arm(self._next_look(self._loop.time()))

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """What is overdue, who is silent, and when to look again."""
        self._timer = None
        now, channel = self._loop.time(), self._channel
        if self._paused_at is not None:
            self._look_at_commits(now)
            return  # `resume` arms it again
        self.strays_max = self._wire.strays + STRAYS_MAX
        silence = self._expire(now)
        if silence is not None:
            marks.sometimes("a half-open connection was closed")
            channel.is_faulty = True  # what keeps silent now may take the next connection, and keep silent there
            channel.abort(f"not one byte within {silence:g} s of a request")
        elif self._is_stalled():
            channel.fail(ProtocolError(f"a frame stood still for {STALL_SECONDS:g} s"))
        elif not channel.is_open and not self._wire.waiting:
            channel.close(GO_AWAY_REASON)
        elif now - max(self.read_at, self.written_at) >= IDLE_SECONDS:
            channel.close(f"idle for {IDLE_SECONDS:g} s")
        else:
            self._arm(self._next_look(now))

    def _look_at_commits(self, now: float) -> None:
        """While reading is paused, when silence means nothing."""
        commits = {number: each for number, each in self.deadlines.items() if each[-1] == _COMMIT}
        self._timer_at = float("inf")
        for number, each in commits.items():
            due, _, _ = each
            if due <= now:
                self._give_up(number, each)
            elif due < self._timer_at:
                self._arm(due)

    def _next_look(self, now: float) -> float:
        earliest = min(due for due, _, _ in self.deadlines.values()) if self.deadlines else now + IDLE_SECONDS
        earliest = min(earliest, max(self.read_at, self.written_at) + IDLE_SECONDS)
        return min(earliest, now + STALL_SECONDS) if self._at_look is not None else earliest

    def _expire(self, now: float) -> float | None:
        """Fail what is overdue; the longest budget among it that passed in complete silence, if meaningful."""
        silence: float | None = None
        for number, deadline in [entry for entry in self.deadlines.items() if entry[1][0] <= now]:
            due, sent, _ = deadline
            budget = due - sent
            if not self._give_up(number, deadline):
                continue
            if budget > MEANINGFUL_SECONDS and self.read_at <= sent:
                is_second = self.read_at <= self._doubted_at
                self._doubted_at = sent
                if is_second or budget >= ALONE_SECONDS:
                    silence = max(silence or 0.0, budget)
        return silence

    def _give_up(self, number: int, deadline: _Deadline) -> bool:
        """Whether somebody still waited for it."""
        future = self._wire.forget(number)
        del self.deadlines[number]
        if future is None or future.cancelled():
            return False
        due, sent, code = deadline
        name, peer, budget = request_name(code), self._channel.peer, due - sent
        fail_future(future, RequestTimedOut(f"{name}: no answer from {peer} within {budget * 1000:.0f} ms"))
        return True

    def _is_stalled(self) -> bool:
        """Whether the frame that had begun at the last look made too little headway since."""
        if self.unread:
            self._at_look = None  # it waits for us, and not we for it
            return False
        frames, count = self._at_look or (-1, 0)
        self._at_look = (self.frames_read, self.bytes_read) if self._wire.is_mid_frame else None
        is_same = self._at_look is not None and frames == self.frames_read
        return is_same and self.bytes_read - count < self._stall_bytes_min


def fail_future(future: Answered, error: BrokerUnreachable) -> None:
    """End the wait for an answer."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # looked at: a pull that was given up need not be complained of
