"""SharedLimits: what the connections of a process share: turns, and limits for all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.net.turns import Turns

if TYPE_CHECKING:
    from framework.net.frame_writer import AnswerWriter
    from framework.net.served import Served

# Of each connection, each time that the loop looks around; less where many send large frames, so that it looks often.
READ_BYTES_MAX, READ_BYTES_IN_A_CROWD, CROWD = 64 * 1024, 16 * 1024, 32
FRAMES_BYTES_MAX = 32 * 1024 * 1024
UNREAD_BYTES_MAX = 64 * 1024 * 1024
STRANGERS_QUIET_S = 60.0
STRANGERS_MAX = 1024  # hosts remembered for it


class SharedLimits:
    """What the connections of a process share: turns, and limits for all of them together."""

    def __init__(
        self, turns: Turns, *, frames_bytes_max: int = FRAMES_BYTES_MAX, unread_bytes_max: int = UNREAD_BYTES_MAX
    ) -> None:
        self.turns = turns
        self._frames_bytes_max, self._unread_bytes_max = frames_bytes_max, unread_bytes_max
        self.frames_bytes = 0
        """Of frames that have begun and not ended."""
        self._begun: dict[Served, int] = {}
        """How much of a frame is here, in the order in which these began."""
        self.behind: dict[AnswerWriter, None] = {}
        """Who has not taken in his answers, the one that has been so for longest first. The others have at most the
        transport's high-water mark of 64 KiB each."""
        self._quiet: dict[str, float] = {}
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))
        """What is read goes in here, and out again at once."""

    @property
    def unread_bytes(self) -> int:
        """Of answers that are not taken in."""
        return sum(answers.unread_bytes for answers in self.behind)

    def room(self) -> memoryview:
        """Where the next bytes that come are put."""
        return self.buffer if len(self._begun) < CROWD else self.buffer[:READ_BYTES_IN_A_CROWD]

    def note_frame(self, channel: Served, size: int, *, is_new: bool) -> None:
        """So much of a frame is here. Beyond what all may have, whoever began first goes: he had most time to end."""
        before = self._begun.get(channel, 0)
        self.frames_bytes += size - before
        if before and (is_new or not size):
            del self._begun[channel]
        if size:
            self._begun[channel] = size
        while self.frames_bytes > self._frames_bytes_max:
            strangers = (each for each in self._begun if not each.is_proven)
            first = next(strangers, None) or next(iter(self._begun))
            first.abort(f"frames of {self.frames_bytes} bytes are unfinished, {self._frames_bytes_max} at most")

    def look_at_unread(self) -> None:
        """Beyond what may be unread of all, whoever has been behind for longest goes."""
        while self.behind and self.unread_bytes > self._unread_bytes_max:
            first = next(iter(self.behind))
            del self.behind[first]
            first.abort(f"{self.unread_bytes} bytes of answers are unread, {self._unread_bytes_max} at most")

    def forget(self, channel: Served) -> None:
        self.note_frame(channel, 0, is_new=False)

    def may_complain(self, host: str, now: float) -> bool:
        """Whether a line about this host may be logged: one a minute, whatever it sends."""
        if now < self._quiet.get(host, now):
            return False
        self._quiet.pop(host, None)
        self._quiet[host] = now + STRANGERS_QUIET_S
        if len(self._quiet) > STRANGERS_MAX:
            del self._quiet[next(iter(self._quiet))]
        return True
