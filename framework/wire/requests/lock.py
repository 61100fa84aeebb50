"""Queue locks and broker-side assignment. All of their content is in the bodies (`bodies/group.py`)."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import header


@header
class LockRequest:
    """Lock queues for one client of a group; the answer names those that it now holds."""

    CODE: ClassVar = RequestCode.LOCK_BATCH_MQ


@header
class UnlockRequest:
    CODE: ClassVar = RequestCode.UNLOCK_BATCH_MQ


@header
class AssignmentRequest:
    """Ask the broker to divide a topic's queues."""

    CODE: ClassVar = RequestCode.QUERY_ASSIGNMENT


@header
class SetRequestModeRequest:
    """Let a group of a topic pull or pop."""

    CODE: ClassVar = RequestCode.SET_MESSAGE_REQUEST_MODE


@header
class AllRequestModesRequest:
    CODE: ClassVar = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
