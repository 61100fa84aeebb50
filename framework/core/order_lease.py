"""OrderLease: how long the broker's lock on a queue may be trusted.

The broker keeps a lock for 60 s from when it was last asked. We cannot see that instant, only that it came after the
sending, so trust is counted from there and ends well before the broker's own time: whoever starts a handler only while
`holds` is true never starts one under somebody else's lock. It knows no clock: time is an argument, of one that only
goes forward.
"""

from __future__ import annotations

from typing import NamedTuple

from framework.core import limits

_NEVER = -1
_NEVER_OVER = 2**62


class Asking(NamedTuple):
    """A lock request under way."""

    sent_ms: int
    epoch: int


class OrderLease:
    """The lease of one owned queue. The lease loop is its only writer; workers ask `holds` before each start."""

    __slots__ = ("_due_ms", "_epoch", "_is_asking", "granted_ms", "may_be_held", "until_ms", "where")

    def __init__(self, now_ms: int) -> None:
        self.until_ms = _NEVER
        """Trusted before this instant; -1 where nothing is held."""
        self.granted_ms = 0
        """When the lock was last confirmed."""
        self.where = ""
        """The address that was asked last: locks live in that broker's memory."""
        self.may_be_held = False
        """The broker may have the lock in our name, whether or not we trust it."""
        self._due_ms = now_ms
        self._is_asking = False
        self._epoch = 0
        """Raised whenever what was granted before, or is on its way, must not be believed any more."""

    @classmethod
    def for_ever(cls) -> OrderLease:
        """Of a queue that needs no lock: a broadcasting member's, since every member is given all of its messages."""
        lease = cls(0)
        lease.until_ms = _NEVER_OVER
        return lease

    def holds(self, now_ms: int) -> bool:
        return now_ms < self.until_ms

    @property
    def is_granted(self) -> bool:
        """Whether nothing has taken it away; its time may still be over."""
        return self.until_ms != _NEVER

    def is_due(self, now_ms: int) -> bool:
        """Whether to ask the broker now: for the first time, to renew, or again after a failure."""
        return not self._is_asking and now_ms >= self._due_ms

    def next_ms(self) -> int:
        """When there is something to do: ask, or notice that its time is over."""
        if self._is_asking:
            return self.until_ms if self.is_granted else self._due_ms + limits.LEASE_TRUST_MS
        return min(self._due_ms, self.until_ms) if self.is_granted else self._due_ms

    def ask(self, now_ms: int, where: str = "") -> Asking:
        """A request is being sent."""
        self._is_asking = self.may_be_held = True
        self.where = where
        return Asking(now_ms, self._epoch)

    def granted(self, asking: Asking, now_ms: int) -> bool:
        """The broker says that we hold the lock. False where that is no news, or comes too late to be believed."""
        self._is_asking = False
        if asking.epoch != self._epoch:
            self._due_ms = now_ms
            return False
        since_ms = asking.sent_ms
        until_ms = since_ms + limits.LEASE_TRUST_MS
        if now_ms >= until_ms:
            self._due_ms = now_ms
            return False
        is_new = not self.is_granted
        self.until_ms = until_ms
        self.granted_ms = now_ms
        self._due_ms = since_ms + limits.LEASE_RENEW_MS
        return is_new

    def refused(self, asking: Asking, now_ms: int) -> bool:
        """Somebody else holds the lock. True where we believed to hold it."""
        self._is_asking = self.may_be_held = False
        self._due_ms = now_ms + limits.LEASE_RETRY_MS
        if asking.epoch != self._epoch:
            return False
        return self._lose()

    def failed(self, now_ms: int) -> None:
        """Nobody answered: what is held stays held for its time, and the question is asked again soon."""
        self._is_asking = False
        self._due_ms = now_ms + limits.LEASE_RETRY_MS

    def unconfirmed(self, now_ms: int) -> bool:
        """The broker may have forgotten every lock: ask again at once. True where we believed to hold it."""
        self._due_ms = now_ms
        self._epoch += 1
        return self._lose()

    def expired(self, now_ms: int) -> bool:
        """Whether its time is over without a renewal; true once."""
        return self.is_granted and now_ms >= self.until_ms and self._lose()

    def _lose(self) -> bool:
        was_granted, self.until_ms = self.is_granted, _NEVER
        return was_granted

    def __repr__(self) -> str:
        return f"<OrderLease {f'until {self.until_ms}' if self.is_granted else 'not held'}, due {self._due_ms}>"
