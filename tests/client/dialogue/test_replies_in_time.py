"""What ends the waiting for a reply: the reply and its time's end in one turn of the loop, and the producer's end."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import pytest

from framework import Message, Producer
from framework.client.dialogue.halves import Preparing
from framework.client.dialogue.introductions import Introductions
from framework.client.dialogue.requests import Requests
from framework.client.routes import RouteTable
from framework.errors import ConnectionLost
from framework.net.channel import Channel
from framework.ports import Chance
from framework.wire.fields import command_for
from framework.wire.properties import encode
from framework.wire.requests.send import PushReplyRequest
from tests.client.dialogue.test_with_the_box import bodies, box
from tests.patience import soon, until
from tests.runtime.test_app import run


class Quiet:
    """Whatever is asked of it is done at once, and says nothing."""

    namespace, group = "", "desk"

    def token(self, count: int) -> bytes:
        return b"c" * count

    async def route(self, topic: str) -> None:
        return None

    async def join(self, group: str) -> None:
        return None

    def answer(self, *_: object) -> None:
        return None


def test_a_reply_of_the_last_turn_is_the_answer_and_not_late() -> None:
    async def story() -> tuple[Message, int]:
        loop, quiet = asyncio.get_running_loop(), Quiet()
        now = loop.time()
        loop.time = lambda: now  # type: ignore[method-assign]
        requests = Requests(
            cast("Introductions", quiet), cast("RouteTable", quiet), cast("Chance", quiet), client_id="me"
        )

        def reply(correlation: str) -> None:
            push = PushReplyRequest(
                producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
                sys_flag=0, born_timestamp=1, flag=0, born_host="127.0.0.1:1", store_host="127.0.0.1:2",
                store_timestamp=1, properties=encode({"CORRELATION_ID": correlation}),
            )  # fmt: skip
            requests.take(cast("Channel", quiet), command_for(push, b"42"))

        class Sender(Quiet):
            async def send(self, message: Message, marks: dict[str, str], **_: Any) -> None:
                nonlocal now
                loop.call_at(now + 0.9, reply, marks["CORRELATION_ID"])
                now += 1.0  # both are due when the loop looks next

        answer = await requests.ask(cast("Preparing", Sender()), Message("questions", b"?"), "1s")
        return answer, requests.late

    answer, late = asyncio.run(story())
    assert (b"42", 0) == (answer.body, late)


def test_requests_that_wait_end_with_their_producer() -> None:
    """And not when their time is over: no reply can come any more."""

    async def story() -> None:
        async with box() as broker:
            producer = Producer(name_servers=broker.address)
            await producer.start()
            asked = [asyncio.ensure_future(producer.request("questions", f"{n}", timeout="1h")) for n in range(3)]
            await until(lambda: len(bodies(broker, "questions")) == 3)
            await producer.stop()
            for each in asked:
                with pytest.raises(ConnectionLost, match="closed before its reply came"):
                    await soon(each)

    run(story)


def test_an_error_that_nobody_waits_for_is_no_complaint_of_asyncio_s() -> None:
    async def story() -> list[dict[str, Any]]:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        quiet = Quiet()
        requests = Requests(
            cast("Introductions", quiet), cast("RouteTable", quiet), cast("Chance", quiet), client_id="me"
        )

        class Closing(Quiet):
            async def send(self, message: Message, marks: dict[str, str], **_: Any) -> None:
                requests.close()
                raise ConnectionLost("while it was sent")

        with pytest.raises(ConnectionLost, match="while it was sent"):
            await requests.ask(cast("Preparing", Closing()), Message("questions", b"?"), "1s")
        gc.collect()
        await asyncio.sleep(0)
        return complaints

    assert [] == asyncio.run(story())
