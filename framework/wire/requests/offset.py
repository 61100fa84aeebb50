"""Offsets: a group's progress, a queue's ends, and offsets at a time.

`broker_name` ("bname") is what modern Java clients send along; the 5.x proxy chooses the broker by it.
"""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader, wire

LOWER = "LOWER"
UPPER = "UPPER"


class GroupQueueRequest(RequestHeader):
    """A group's request about one queue."""

    consumer_group: str
    topic: str
    queue_id: Int32


class QueryOffsetRequest(GroupQueueRequest, code=RequestCode.QUERY_CONSUMER_OFFSET):
    """Answered 22 where nothing is stored; 0 while the topic is young, unless set_zero_if_not_found is False."""

    set_zero_if_not_found: bool | None = None
    broker_name: str | None = wire("bname", default=None)


class UpdateOffsetRequest(GroupQueueRequest, code=RequestCode.UPDATE_CONSUMER_OFFSET):
    """A commit: unconditional, usually one-way."""

    commit_offset: int
    broker_name: str | None = wire("bname", default=None)
    epoch: int | None = None
    """Of the acquisition that commits; the built-in broker refuses it where a higher one was given out. Others do not
    look.
    """


class MaxOffsetRequest(RequestHeader, code=RequestCode.GET_MAX_OFFSET):
    """The offset that the next message will get."""

    topic: str
    queue_id: Int32
    committed: bool = True
    broker_name: str | None = wire("bname", default=None)


class MinOffsetRequest(RequestHeader, code=RequestCode.GET_MIN_OFFSET):
    """The first offset that is still there."""

    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


class SearchOffsetRequest(RequestHeader, code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):
    """The first (LOWER) or last (UPPER) offset stored at a time."""

    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str = LOWER
    broker_name: str | None = wire("bname", default=None)


class OffsetAnswer(Header):
    """What all five above but the commit are answered with."""

    offset: int


class EarliestStoreTimeRequest(MinOffsetRequest, code=RequestCode.GET_EARLIEST_MSG_STORETIME): ...


class EarliestStoreTimeAnswer(Header):
    """-1: the queue is empty."""

    timestamp: int


class AllConsumerOffsetsRequest(RequestHeader, code=RequestCode.GET_ALL_CONSUMER_OFFSET): ...
