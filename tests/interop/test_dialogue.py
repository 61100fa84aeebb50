"""Transactions and requests between our clients and Java's, by a real cluster and by the broker in the box."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from framework import App, Message, Producer, consumer, replies, transaction_check
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place

pytestmark = pytest.mark.interop


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(180):
            await story()

    asyncio.run(bounded())


def test_java_consumes_what_our_transactions_committed_and_nothing_else(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()

    @transaction_check(f"desk-of-{topic}")
    async def check(message: Message) -> str:
        return "unknown"

    async def story() -> None:
        async with Producer(name_servers=place.name_server, check=check) as producer:
            async with producer.transaction(Message(topic, b"committed", tags="vip", keys="k")) as done:
                pass
            async with producer.transaction(Message(topic, b"rolled back")) as left:
                left.rollback()
            assert [str(each.state) for each in (done, left)] == ["commit", "rollback"]

    run(story)
    java.send(place.name_server, topic, [Outgoing(body=b"plain")])
    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    received = {message.body: message for message in member.received(2)}
    member.leave()

    assert {b"committed", b"plain"} == set(received)
    assert {"TAGS": "vip", "KEYS": "k"}.items() <= received[b"committed"].properties.items()


def test_java_s_transaction_producer_commits_and_rolls_back(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()

    def transact(body: bytes, local: str) -> str:
        text = base64.b64encode(body).decode()
        words: dict[str, Any] = {"names": place.name_server, "group": f"desk-of-{topic}", "topic": topic, "body": text}
        state: str = java.call("transact", local=local, check="UNKNOW", **words)["state"]
        return state

    assert [transact(b"one", "COMMIT"), transact(b"two", "ROLLBACK"), transact(b"three", "COMMIT")] == [
        "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "COMMIT_MESSAGE",
    ]  # fmt: skip
    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    received = member.received(2)
    member.leave()

    assert [b"one", b"three"] == sorted(message.body for message in received)
    assert all(message.properties["TRAN_MSG"] == "true" for message in received), "as a stock broker leaves them"
    assert all("REAL_TOPIC" not in message.properties for message in received)


def test_our_check_answers_for_java_s_producer_and_java_s_for_ours(box: Place, java: JavaPeer) -> None:
    """They are members of one producer group: whoever is asked, answers. The box asks after six seconds."""
    topic = box.new_topic()
    group = f"desk-of-{topic}"

    @transaction_check(group)
    async def check(message: Message) -> str:
        return "commit"

    async def story() -> None:
        async with Producer(name_servers=box.name_server, check=check) as producer:
            words: dict[str, Any] = {"names": box.name_server, "group": group, "topic": topic}
            words |= {"local": "UNKNOW", "check": "COMMIT"}
            for number in range(4):
                text = base64.b64encode(b"java-%d" % number).decode()
                await asyncio.to_thread(java.call, "transact", body=text, **words)
                async with producer.transaction(Message(topic, b"ours-%d" % number)) as transaction:
                    transaction.unknown()
            member = await asyncio.to_thread(java.consume, box.name_server, f"readers-of-{topic}", topic)
            received = await asyncio.to_thread(member.received, 8, timeout_s=90)
            await asyncio.to_thread(member.leave)
            asked = await asyncio.to_thread(java.call, "checked", names=box.name_server, group=group, check="COMMIT")

            assert len({message.body for message in received}) == 8
            assert asked["asked"] == 4 == producer.cluster.checks.answered, "in turn"

    run(story)


def test_java_asks_and_our_handler_replies(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"no request")])  # so that the topic is there

    @consumer(topic, f"repliers-of-{topic}")
    @replies
    async def answer(message: Message) -> bytes:
        return b"re: " + message.body

    async def story() -> None:
        groups = {f"repliers-of-{topic}": {"start": "first"}}
        settings = {"cluster": {"name_servers": [place.name_server]}, "consumers": groups}
        app = App(AppSettings.model_validate(settings), [answer], plugins=PluginHost())
        running = asyncio.ensure_future(app.run())
        try:
            for body in (b"tea?", b"x" * 50_000):
                reply = await asyncio.to_thread(
                    java.call, "request", names=place.name_server, topic=topic, timeout=60_000, timeout_s=90,
                    body=base64.b64encode(body).decode(),
                )  # fmt: skip
                assert base64.b64decode(reply["body"]) == b"re: " + body
        finally:
            await app.stop()
            await running
        assert app.cluster is not None
        assert (app.cluster.replies.sent, app.cluster.replies.dropped) == (2, 0)

    run(story)


def test_we_ask_and_java_s_consumer_replies(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    group = f"repliers-of-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"so that the topic is there")])
    java.call("reply", names=place.name_server, group=group, topic=topic)

    async def story() -> None:
        async with Producer(name_servers=place.name_server) as producer:
            answers = await asyncio.gather(*(producer.request(topic, f"{n}?", timeout="90s") for n in range(5)))
            assert [answer.body for answer in answers] == [b"re: %d?" % n for n in range(5)]
            assert producer.cluster.requests.late == 0

    try:
        run(story)
    finally:
        java.call("hush", group=group)
