"""Progress above a gap, as the box keeps it: records in bodies, one a queue of a group, each under an epoch."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header, wire


@header
class QueryProgressRequest:
    """Answered 22 where nothing is kept."""

    CODE: ClassVar = RequestCode.BOX_QUERY_PROGRESS
    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class TakeProgressRequest:
    """The first record of an acquisition, which is given its epoch."""

    CODE: ClassVar = RequestCode.BOX_TAKE_PROGRESS
    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class UpdateProgressRequest:
    """A later record of the acquisition."""

    CODE: ClassVar = RequestCode.BOX_UPDATE_PROGRESS
    consumer_group: str
    topic: str
    queue_id: Int32
    epoch: int
    broker_name: str | None = wire("bname", default=None)


@header
class ProgressAnswer:
    """What a query and a taking are answered with."""

    epoch: int
