"""A plugin that wants few messages says how many have nothing around their handlers, and is not called for those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from framework.hooks import NothingFor, hookimpl
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.services.call.deliver import call_for
from framework.wire.record import Record, encode_record
from framework.wire.stored import decode
from tests.hooks.around_scene import Noting, both, hooks_of, host_of, spec
from tests.services.parts import QUEUE, LoopClock, play


def pulled(count: int) -> list[Message]:
    """The messages of one pull."""
    records = [Record(topic=QUEUE.topic, body=b"x", queue_id=QUEUE.number, queue_offset=at) for at in range(count)]
    return decode(b"".join([encode_record(each) for each in records]), QUEUE)


class Choosing:
    """Has nothing around so many messages at a time, and notes for which it is asked."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, list[int]()

    @hookimpl
    def around_consume(self, delivery: Delivery) -> NothingFor:
        self.asked.append(delivery.message.queue_offset)
        return NothingFor(self.count)


@both
def test_for_messages_of_a_pull_that_have_nothing_around_them_it_is_not_called(*, is_async: bool) -> None:
    plugin = Choosing(4)
    given = handled(pulled(10), host_of(one=plugin), is_async=is_async)

    assert [0, 4, 8] == plugin.asked
    assert list(range(10)) == given
    plugin.asked.clear()
    handled(pulled(3), host_of(one=plugin), is_async=is_async)
    handled(pulled(3), host_of(one=plugin), is_async=is_async)
    assert [0, 0] == plugin.asked, "another pull is asked for again"


@both
def test_the_plugin_that_wants_the_most_decides_how_often_they_are_asked(*, is_async: bool) -> None:
    few, many = Choosing(2), Choosing(100)
    handled(pulled(6), host_of(few=few, many=many), is_async=is_async)
    assert [0, 2, 4] == few.asked == many.asked

    notes: list[str] = []
    handled(pulled(2), host_of(many=many, each=Noting("each", notes)), is_async=is_async)
    assert ["each enters 0", "each leaves", "each enters 1", "each leaves"] == notes


@both
def test_a_plugin_that_answers_none_is_asked_for_the_next_one(*, is_async: bool) -> None:
    asked: list[int] = []

    class Nothing:
        @hookimpl
        def around_consume(self, delivery: Delivery) -> None:
            asked.append(delivery.message.queue_offset)

    handled(pulled(3), host_of(one=Nothing(), other=Choosing(100)), is_async=is_async)
    assert [0, 1, 2] == asked


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "many"])
def test_nothing_for_no_number_of_messages_is_the_plugin_s_failure(count: Any) -> None:
    with pytest.raises(ValueError, match=r"NothingFor\(.*\): say for how many messages, this one among them"):
        NothingFor(count)


def handled(messages: Sequence[Message], host: PluginHost, *, is_async: bool) -> list[int]:
    """The offsets of those that the handler was given."""
    given: list[int] = []

    def function(message: Message) -> None:
        given.append(message.queue_offset)

    async def coroutine(message: Message) -> None:
        function(message)

    async def story() -> None:
        call = call_for(spec(coroutine if is_async else function, is_async=is_async), hooks_of(host), LoopClock())
        for message in messages:
            result = call(message)
            assert (await result if is_async else result) is None

    play(story)
    return given
