"""Inner batches: where their messages lie. How pulls take them apart stands in test_stored.py."""

from __future__ import annotations

import pytest

from framework.errors import BodyUndecodable
from framework.model.queue import MessageQueue
from framework.wire.inner_batch import places_of, take_apart
from framework.wire.stored import INNER_BATCH, Record, Records, encode_record
from tests.wire import batches

QUEUE = MessageQueue("T", "b", 0)
BODY = batches.encode([batches.BatchedMessage(b"one", {"a": "b"}, 1), batches.BatchedMessage(b"two")])


def test_places_are_where_the_messages_begin() -> None:
    assert [0, 22 + 3 + 4] == places_of(BODY)


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "holds no message"), (b"x", "cannot be taken apart: batch: 1 bytes")]
)
def test_no_places_are_the_producers_fault(data: bytes, reason: str) -> None:
    with pytest.raises(BodyUndecodable, match=reason):
        places_of(data)


def test_its_messages_have_body_properties_and_flag_of_their_own() -> None:
    source = take_apart(Records(encode_record(Record(topic="T", body=BODY, sys_flag=INNER_BATCH)), QUEUE), 0)

    assert source is not None
    assert [(b"one", {"a": "b"}, 1), (b"two", {}, 0)] == [
        (source.body(at), source.properties(at), source.flag(at)) for at in source.places
    ]
    assert ("T", QUEUE) == (source.topic(0), source.queue)


def test_what_cannot_be_opened_is_not_taken_apart() -> None:
    record = Record(topic="T", body=b"not zlib", sys_flag=INNER_BATCH | 1)

    assert take_apart(Records(encode_record(record), QUEUE), 0) is None
