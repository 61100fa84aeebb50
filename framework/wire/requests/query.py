"""Looking messages up: by key, by place in the log, by consume queue; and how old what a group has not read is."""

from __future__ import annotations

from typing import ClassVar

from framework.wire.codes import RequestCode
from framework.wire.fields import Int32, header, wire


@header
class QueryMessageRequest:
    """By key, or by unique key where `by_unique_key`; answered with records, or 22."""

    CODE: ClassVar = RequestCode.QUERY_MESSAGE
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    by_unique_key: bool = wire("_UNIQUE_KEY_QUERY", default=False)


@header
class QueryMessageAnswer:
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@header
class ViewMessageRequest:
    """By commit-log offset, on the broker whose address is in the offset message id. Answered with one record, or 1."""

    CODE: ClassVar = RequestCode.VIEW_MESSAGE_BY_ID
    offset: int
    topic: str | None = None


@header
class ConsumeQueueRequest:
    CODE: ClassVar = RequestCode.QUERY_CONSUME_QUEUE
    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None


@header
class ConsumeTimeSpanRequest:
    CODE: ClassVar = RequestCode.QUERY_CONSUME_TIME_SPAN
    topic: str
    group: str
