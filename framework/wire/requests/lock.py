"""Queue locks. All of their content is in the bodies (`bodies/group.py`)."""

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
