"""Quotas: what clients together may have waiting for the disk. Beyond it they are told 2, SYSTEM_BUSY, and wait.

Java's producer then tries another broker or fails the send, its consumers pull again after three seconds. Requests that
are small, and that members live by, are served in any case: a group must not lose its queues because a broker is busy.
The last quarter is kept for connections that have little there, so that nobody shuts out the others.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getsizeof

import structlog

from framework.broker.answers import Client, refuse
from framework.broker.request import Request
from framework.broker.settings import BrokerSettings
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand

log = structlog.get_logger()

_NO_WRITES = frozenset(
    {
        RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ, RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE,
    }
)  # fmt: skip
_KEPT_SHARE = 4  # one in so many
_QUIET_SECONDS = 60
# About what a request costs that waits, beside its texts: itself, its answer to be, and the record's own objects.
WRITE_BYTES = 2500


def cost_of(command: RemotingCommand) -> int:
    """About how many bytes of memory a request holds until it is answered. Its texts are there twice."""
    return WRITE_BYTES + len(command.body) + 2 * sum(map(getsizeof, command.fields.values()))


class Quotas:
    """One per broker process. A write is counted here when it is submitted, and taken out when it is answered."""

    def __init__(self, settings: BrokerSettings, now: Callable[[], float]) -> None:
        self.writes = 0
        self.write_bytes = 0
        self._own: dict[Client, list[int]] = {}
        """How many of them, and of their bytes, are of one connection."""
        self._writes = _Limit("requests wait for the disk", settings.writes_max, settings.channels_max, now)
        self._bytes = _Limit(
            "bytes of requests wait for the disk", settings.write_bytes_max, settings.channels_max, now
        )

    def refusal(self, request: Request) -> RemotingCommand | None:
        """The answer to a request that there is no room for."""
        if self._writes.is_far(self.writes) and self._bytes.is_far(self.write_bytes):
            return None
        for limit, held in ((self._writes, self.writes), (self._bytes, self.write_bytes)):
            if limit.is_near(held) and request.command.code not in _NO_WRITES:
                count, size = self._own.get(request.client, (0, 0))
                own = count if limit is self._writes else size + cost_of(request.command)
                if not limit.has_room(held, own):
                    return limit.refusal()
        return None

    def take(self, client: Client, cost: int) -> None:
        self.writes += 1
        self.write_bytes += cost
        own = self._own.get(client)
        if own is None:
            self._own[client] = [1, cost]
        else:
            own[0] += 1
            own[1] += cost

    def give_back(self, client: Client, cost: int) -> None:
        self.writes -= 1
        self.write_bytes -= cost
        own = self._own[client]
        own[0] -= 1
        own[1] -= cost
        if not own[0]:
            del self._own[client]


class _Limit:
    """Entered when all but the kept part is taken, left a tenth below.

    A line in the log for each, but not twice a minute: a client that sends faster than the disk writes has the limit
    entered and left every second. The next line says how many times that was.
    """

    def __init__(self, what: str, most: int, clients: int, now: Callable[[], float]) -> None:
        self._what, self._most, self._now = what, most, now
        kept = most // _KEPT_SHARE
        self._open = most - kept
        self._little = kept // clients
        self._is_entered, self._is_logged = False, False
        self._quiet_until, self._times = float("-inf"), 0

    def is_far(self, held: int) -> bool:
        return held < self._open and not self._is_entered

    def is_near(self, held: int) -> bool:
        if held >= self._open:
            if not self._is_entered:
                self._enter()
        elif self._is_entered and held <= self._open * 9 // 10:
            self._is_entered = False
            if self._is_logged:
                log.info("requests accepted again", reason=self._what)
        return self._is_entered

    def _enter(self) -> None:
        self._is_entered = True
        self._times += 1
        now = self._now()
        self._is_logged = now >= self._quiet_until
        if self._is_logged:
            log.warning("requests refused", reason=self._what, limit=self._most, times=self._times)
            self._quiet_until, self._times = now + _QUIET_SECONDS, 0

    def has_room(self, held: int, own: int) -> bool:
        """Whether one more may come of a connection that has so much there."""
        return held < self._most and own < self._little

    def refusal(self) -> RemotingCommand:
        return refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {self._what}, {self._most} at most; try again later")
