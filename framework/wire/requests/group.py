"""Membership: heartbeats, leaving, who else is there, queue locks. Bodies: `bodies/heartbeat.py`, `bodies/group.py`."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, RequestHeader, wire


class HeartbeatRequest(RequestHeader, code=RequestCode.HEART_BEAT):
    """Its content is the body."""


class HeartbeatAnswer(Header):
    """Whether the broker understands the short heartbeat, and whether a subscription of the group changed."""

    supports_v2: bool = wire("IS_SUPPORT_HEART_BEAT_V2", default=False)
    subscription_changed: bool = wire("IS_SUB_CHANGE", default=False)


class UnregisterRequest(RequestHeader, code=RequestCode.UNREGISTER_CLIENT):
    """Leave a group; one of both groups is set."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class CheckClientConfigRequest(RequestHeader, code=RequestCode.CHECK_CLIENT_CONFIG):
    """Ask whether the broker can compile a filter expression; its content is the body."""


class MembersRequest(RequestHeader, code=RequestCode.GET_CONSUMER_LIST_BY_GROUP):
    """Answered 1 where the group is unknown or empty."""

    consumer_group: str


class LockRequest(RequestHeader, code=RequestCode.LOCK_BATCH_MQ):
    """Lock queues for one client of a group; the answer names those that it now holds."""


class UnlockRequest(RequestHeader, code=RequestCode.UNLOCK_BATCH_MQ): ...
