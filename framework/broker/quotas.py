"""Quotas: what all clients together may make the broker hold. Beyond it they are told 2, SYSTEM_BUSY, and wait.

Java's producer then tries another broker or fails the send, its consumers pull again after three seconds. Requests that
are small, and that members live by, are served in any case: a group must not lose its queues because a broker is busy.
"""

from __future__ import annotations

import structlog

from framework.broker.request import refuse
from framework.broker.settings import BrokerSettings
from framework.net.listener import Unread
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import Command

log = structlog.get_logger()

_SMALL = frozenset(
    {
        RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
    }
)  # fmt: skip
_NO_WRITES = _SMALL | {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
_SMALL_ANSWERS = _SMALL | {
    RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
}  # fmt: skip


class Quotas:
    """One a broker process. Whoever submits a write counts it here, and takes it out when it is answered."""

    def __init__(self, settings: BrokerSettings, unread: Unread) -> None:
        self.writes = 0
        self.write_bytes = 0
        self._unread = unread
        self._writes = _Limit("requests wait for the disk", settings.writes_max)
        self._bytes = _Limit("bytes of requests wait for the disk", settings.write_bytes_max)
        self._answers = _Limit("bytes of answers wait to be read", settings.unread_bytes_max)

    def refusal(self, code: int) -> Command | None:
        """The answer to a request that there is no room for."""
        writes, of_bytes = self._writes.is_reached(self.writes), self._bytes.is_reached(self.write_bytes)
        if (writes or of_bytes) and code not in _NO_WRITES:
            return (self._writes if writes else self._bytes).refusal()
        if not (self._unread.behind or self._answers.is_entered):
            return None
        is_behind = self._answers.is_reached(self._unread.bytes)
        return self._answers.refusal() if is_behind and code not in _SMALL_ANSWERS else None


class _Limit:
    """Entered when it is reached, left a tenth below; one line in the log for each."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self.is_entered = False

    def is_reached(self, held: int) -> bool:
        if held >= self._most:
            if not self.is_entered:
                self.is_entered = True
                log.warning("requests refused", reason=self._what, limit=self._most)
        elif self.is_entered and held <= self._most * 9 // 10:
            self.is_entered = False
            log.info("requests accepted again", reason=self._what)
        return self.is_entered

    def refusal(self) -> Command:
        return refuse(ResponseCode.SYSTEM_BUSY, f"[OVERLOAD] {self._what}, {self._most} at most; try again later")
