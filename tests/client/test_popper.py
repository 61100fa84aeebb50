"""Popper: what one answer to a pop brings, and what of it is damaged."""

from __future__ import annotations

from typing import Any, cast

import pytest

from framework.client.popper import ANY_QUEUE, ANY_RETRY, Popper, PopTaken
from framework.errors import RecordDamaged
from framework.model.queue import MessageQueue
from framework.model.subscription import Start, Subscription
from framework.wire.command import RemotingCommand
from framework.wire.requests.receipts import RETRY
from tests.client.script import record


def popper(number: int = ANY_QUEUE) -> Popper:
    return Popper(
        cast("Any", None), "g", Subscription("orders", "*", 1), MessageQueue("orders", "a", number), Start("first"),
        batch=32, invisible_ms=5_000,
    )  # fmt: skip


def read(popper: Popper, *records: bytes, starts: str = "0 0 0") -> PopTaken:
    fields = {"popTime": "100", "invisibleTime": "5000", "reviveQid": "1", "restNum": "0", "startOffsetInfo": starts}
    taken = popper._read(RemotingCommand(0, fields, body=b"".join(records)))
    assert isinstance(taken, PopTaken)
    return taken


def broken(data: bytes) -> bytes:
    """A byte of its body is another one."""
    at = data.index(b"m-1")
    return data[:at] + b"M" + data[at + 1 :]


def records(topic: str = "orders") -> list[bytes]:
    return [record(offset, topic=topic, body=b"m-%d" % offset) for offset in range(3)]


def test_a_damaged_record_holds_up_no_other() -> None:
    first, second, third = records()
    taken = read(popper(), first, broken(second), third)

    assert [b"m-0", b"m-2"] == [message.body for message, _ in taken.messages]
    ((offset, reason),) = taken.damaged
    assert 1 == offset
    assert "checksum" in reason


def test_a_body_of_which_nobody_knows_where_the_next_record_begins_is_refused() -> None:
    first, second, _ = records()
    with pytest.raises(RecordDamaged):
        read(popper(), first, second[:-5])


def test_what_came_back_is_popped_by_its_own_topic_and_shows_the_one_that_it_was_sent_to() -> None:
    back = popper(ANY_RETRY)
    taken = read(back, *records("%RETRY%g_orders"), starts="1 0 0")

    assert ["orders"] * 3 == [message.topic for message, _ in taken.messages]
    assert [RETRY] * 3 == [receipt.retry for _, receipt in taken.messages]
    assert {"%RETRY%g_orders"} == {back._topic_of(receipt) for _, receipt in taken.messages}
