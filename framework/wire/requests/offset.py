"""Offsets: a group's progress, a queue's ends, and offsets at a time.

`broker_name` ("bname") is what modern Java clients send along; the 5.x proxy chooses the broker by it.
"""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import Int32, header, wire
from framework.wire.frame import cut, framed

LOWER = "LOWER"
UPPER = "UPPER"


@header
class QueryOffsetRequest:
    """Answered 22 where nothing is stored; 0 while the topic is young, unless set_zero_if_not_found is False."""

    CODE: ClassVar = RequestCode.QUERY_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None
    broker_name: str | None = wire("bname", default=None)


@header
class UpdateOffsetRequest:
    """A commit: unconditional, usually one-way."""

    CODE: ClassVar = RequestCode.UPDATE_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int
    broker_name: str | None = wire("bname", default=None)
    epoch: int | None = None
    """Of the acquisition that commits; the box refuses it where a higher one was given out. Others do not look."""


class CommitTemplate:
    """One-way commits of one queue without an epoch: they differ in number and offset alone."""

    __slots__ = ("_parts",)

    def __init__(self, command: RemotingCommand) -> None:
        """Of a commit by the ordinary way."""
        command.flag |= ONE_WAY_BIT
        self._parts = cut(command, ("commitOffset",))

    def frame(self, number: int, offset: int) -> bytes:
        a, b, c = self._parts
        return framed(b"%b%d%b%d%b" % (a, number, b, offset, c))


@header
class MaxOffsetRequest:
    """The offset that the next message will get."""

    CODE: ClassVar = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: Int32
    committed: bool = True
    broker_name: str | None = wire("bname", default=None)


@header
class MinOffsetRequest:
    """The first offset that is still there."""

    CODE: ClassVar = RequestCode.GET_MIN_OFFSET
    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class SearchOffsetRequest:
    """The first (LOWER) or last (UPPER) offset stored at a time."""

    CODE: ClassVar = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str = LOWER
    broker_name: str | None = wire("bname", default=None)


@header
class OffsetAnswer:
    """What all five above but the commit are answered with."""

    offset: int


@header
class EarliestStoreTimeRequest:
    CODE: ClassVar = RequestCode.GET_EARLIEST_MSG_STORETIME
    topic: str
    queue_id: Int32
    broker_name: str | None = wire("bname", default=None)


@header
class EarliestStoreTimeAnswer:
    """-1: the queue is empty."""

    timestamp: int


@header
class AllConsumerOffsetsRequest:
    CODE: ClassVar = RequestCode.GET_ALL_CONSUMER_OFFSET


@header
class CorrectionOffsetRequest:
    CODE: ClassVar = RequestCode.QUERY_CORRECTION_OFFSET
    compare_group: str
    topic: str
    filter_groups: str | None = None
