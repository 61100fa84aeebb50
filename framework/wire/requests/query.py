"""Looking messages up: by key, by place in the log, by consume queue; and how old what a group has not read is."""

from __future__ import annotations

from framework.wire.codes import RequestCode
from framework.wire.fields import Header, Int32, RequestHeader, wire


class QueryMessageRequest(RequestHeader, code=RequestCode.QUERY_MESSAGE):
    """By key, or by unique key where `by_unique_key`; answered with records, or 22."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    by_unique_key: bool = wire("_UNIQUE_KEY_QUERY", default=False)


class QueryMessageAnswer(Header):
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class ViewMessageRequest(RequestHeader, code=RequestCode.VIEW_MESSAGE_BY_ID):
    """By commit-log offset, on the broker whose address is in the offset message id. Answered with one record, or 1."""

    offset: int
    topic: str | None = None


class ConsumeQueueRequest(RequestHeader, code=RequestCode.QUERY_CONSUME_QUEUE):
    topic: str
    queue_id: Int32
    index: int
    count: Int32
    consumer_group: str | None = None


class ConsumeTimeSpanRequest(RequestHeader, code=RequestCode.QUERY_CONSUME_TIME_SPAN):
    topic: str
    group: str
