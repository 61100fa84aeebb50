"""Membership: heartbeats, leaving, who else is there. Bodies are in `bodies/heartbeat.py` and `bodies/group.py`."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import header, wire


@header
class HeartbeatRequest:
    """Its content is the body."""

    CODE: ClassVar = RequestCode.HEART_BEAT


@header
class HeartbeatAnswer:
    """Whether the broker understands the short heartbeat, and whether a subscription of the group changed."""

    supports_v2: bool = wire("IS_SUPPORT_HEART_BEAT_V2", default=False)
    subscription_changed: bool = wire("IS_SUB_CHANGE", default=False)


@header
class UnregisterRequest:
    """Leave a group; one of both groups is set."""

    CODE: ClassVar = RequestCode.UNREGISTER_CLIENT
    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@header
class CheckClientConfigRequest:
    """Ask whether the broker can compile a filter expression; its content is the body."""

    CODE: ClassVar = RequestCode.CHECK_CLIENT_CONFIG


@header
class MembersRequest:
    """Answered 1 where the group is unknown or empty."""

    CODE: ClassVar = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    consumer_group: str
