"""Heartbeats that are refused: a client whose heartbeat is not taken consumes nothing, and says little about it.

A line in the log, but not twice a minute: a client repeats its heartbeat for ever, and so do a thousand of them.
"""

from __future__ import annotations

import structlog

from framework.broker.request import Request
from framework.errors import bare
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand

log = structlog.get_logger()

QUIET_SECONDS = 60


class RefusedHeartbeats:
    """One a broker process. `times` in a line counts those since the last line, with this one."""

    def __init__(self) -> None:
        self._quiet_until, self._times = float("-inf"), 0

    def look(self, request: Request, answer: RemotingCommand) -> None:
        """At an answer that is no success."""
        if request.command.code != RequestCode.HEART_BEAT:
            return
        self._times += 1
        now = request.node.timers.time()
        if now >= self._quiet_until:
            peer, reason = request.client.peer, bare(answer.remark or f"code {answer.code}")
            log.warning("heartbeat refused", peer=peer, times=self._times, reason=reason)
            self._quiet_until, self._times = now + QUIET_SECONDS, 0
