"""Progress above a gap, as the built-in broker keeps it: records in bodies, one a queue of a group, each under an
epoch.
"""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, wire
from framework.wire.requests.offset import GroupQueueRequest


class QueryProgressRequest(GroupQueueRequest, code=RequestCode.BOX_QUERY_PROGRESS):
    """Answered 22 where nothing is kept."""

    broker_name: str | None = wire("bname", default=None)


class TakeProgressRequest(QueryProgressRequest, code=RequestCode.BOX_TAKE_PROGRESS):
    """The first record of an acquisition, which is given its epoch."""


class UpdateProgressRequest(QueryProgressRequest, code=RequestCode.BOX_UPDATE_PROGRESS):
    """A later record of the acquisition."""

    epoch: int


class ProgressAnswer(Header):
    """What a query and a taking are answered with."""

    epoch: int
