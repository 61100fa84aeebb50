"""Transactions and requests of our client with the built-in broker, over sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from framework import (
    ConfigurationError,
    Consumer,
    Message,
    Producer,
    Refused,
    RequestTimedOut,
    consumer,
    replies,
    transaction_check,
)
from framework.broker.intercept import Interceptor
from framework.broker.server import Broker
from framework.broker.store.topics import Topic
from framework.client.inquiries import Inquiries
from framework.core.broker_time import Reading
from framework.declare import TransactionCheck
from framework.model.reserved import HALF_TOPIC
from framework.net.real_world import real_world
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import command_for
from framework.wire.properties import encode
from framework.wire.requests.send import PushReplyRequest
from framework.wire.stored import Record, decode_records
from tests.patience import until
from tests.runtime.test_app import run, running


@asynccontextmanager
async def box() -> AsyncIterator[Broker]:
    broker = Broker(real_world())
    await broker.start()
    try:
        for topic in ("orders", "prices", "names", "questions"):  # a member finds new ones within half a minute only
            broker.nodes[0].rules.topics.put(topic, Topic(name=topic, read_queues=2, write_queues=2))
        for name in ("transactionTimeOut", "transactionCheckInterval"):
            broker.nodes[0].switches.put(name, "100")
        yield broker
    finally:
        await broker.stop()


def bodies(broker: Broker, topic: str) -> list[bytes]:
    """Of all queues of a topic."""
    found: list[Record] = []
    for number in range(4):
        queue = broker.nodes[0].queue(topic, number)
        if queue is not None and queue.end:
            found += decode_records(
                b"".join(broker.nodes[0].store.log.read(queue, 0, count_max=99, bytes_max=1 << 20)[0])
            )
    return sorted(record.body for record in found)


FIVE_YEARS_LATER_MS = real_world().clock.now_ms() + 5 * 365 * 24 * 3_600_000


class Desk:
    """A check function that knows what it is told, and tells when it was asked."""

    def __init__(self, answer: object = "unknown", group: str = "desk") -> None:
        self.answer = answer
        self.asked: asyncio.Queue[Message] = asyncio.Queue()
        self.check: TransactionCheck = transaction_check(group)(self._check)

    async def _check(self, message: Message) -> str:
        self.asked.put_nowait(message)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # wrong ones are tried, too


def test_a_block_that_ends_commits_and_one_that_raises_rolls_back() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address, check=Desk().check) as producer:
            async with producer.transaction(Message("orders", b"paid", keys="7")) as done:
                assert bodies(broker, "orders") == []
                assert bodies(broker, HALF_TOPIC) == [b"paid"]
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(Message("orders", b"failed")) as failed:
                    raise ZeroDivisionError
            async with producer.transaction(Message("orders", b"changed my mind")) as left:
                left.rollback()

            assert [str(each.state) for each in (done, failed, left)] == ["commit", "rollback", "rollback"]
            assert bodies(broker, "orders") == [b"paid"]

    run(story)


def test_what_is_not_known_at_the_end_of_the_block_is_asked_for() -> None:
    async def story() -> None:
        desk = Desk("commit")
        async with box() as broker, Producer(name_servers=broker.address, check=desk.check) as producer:
            async with producer.transaction(Message("orders", b"paid", keys="7")) as transaction:
                transaction.unknown()
            asked = await desk.asked.get()
            await until(lambda: bodies(broker, "orders") == [b"paid"])

            assert (asked.topic, asked.body, asked.keys) == ("orders", b"paid", ["7"])
            assert asked.message_id == transaction.message_id

    run(story)


def test_a_cancelled_block_is_asked_about_and_not_rolled_back() -> None:
    """It may have been cancelled after the local transaction was committed."""

    async def story() -> None:
        desk = Desk("commit")
        async with box() as broker, Producer(name_servers=broker.address, check=desk.check) as producer:
            begun = asyncio.Event()

            async def sell() -> None:
                async with producer.transaction(Message("orders", b"paid")):
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.ensure_future(sell())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: bodies(broker, "orders") == [b"paid"])

    run(story)


def test_another_member_of_the_group_answers_for_one_that_is_gone() -> None:
    """It was started anew and has sent nothing: it finds the broker by the topic of half messages."""

    async def story() -> None:
        async with box() as broker:
            async with Producer(name_servers=broker.address, check=Desk().check) as crashed:
                transaction = crashed.transaction(Message("orders", b"paid"))
                async with transaction:
                    transaction.unknown()
            heir = Desk("commit")
            async with Producer(name_servers=broker.address, check=heir.check):
                await heir.asked.get()
                await until(lambda: bodies(broker, "orders") == [b"paid"])

    run(story)


@pytest.mark.parametrize("answer", [RuntimeError("database is away"), "perhaps", None])
def test_a_check_that_fails_or_says_something_else_is_asked_again(answer: object) -> None:
    async def story() -> None:
        desk = Desk(answer)
        async with box() as broker, Producer(name_servers=broker.address, check=desk.check) as producer:
            with capture_logs() as lines:
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    transaction.unknown()
                await desk.asked.get()
                desk.answer = "commit"
                await until(lambda: bodies(broker, "orders") == [b"paid"])

            assert any(line["event"] == "transaction check failed" for line in lines)

    run(story)


def test_a_plain_check_runs_on_a_thread() -> None:
    async def story() -> None:
        async with box() as broker:

            @transaction_check("desk")
            def check(message: Message) -> str:
                with pytest.raises(RuntimeError):
                    asyncio.get_running_loop()
                return "rollback"

            async with Producer(name_servers=broker.address, check=check) as producer:
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    transaction.unknown()
                await until(lambda: producer.cluster.checks.answered > 0)

            assert bodies(broker, "orders") == []

    run(story)


def test_a_transaction_without_a_check_is_refused_before_anything_is_sent() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address, group="desk") as producer:
            with pytest.raises(ConfigurationError, match=r"'desk': it has no check function"):
                async with producer.transaction(Message("orders", b"paid")):
                    raise AssertionError("the local transaction must not run")

            assert bodies(broker, HALF_TOPIC) == []

    run(story)


def test_an_end_that_is_not_confirmed_is_said_once_and_left_to_the_check() -> None:
    """A stock broker makes a second message of a second commit, so it is not said again."""

    async def story() -> None:
        desk = Desk("commit")
        async with box() as broker, Producer(name_servers=broker.address, check=desk.check) as producer:
            broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, answer=RemotingCommand(2, remark="busy")))
            with capture_logs() as lines:
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    pass
                await until(lambda: bodies(broker, "orders") == [b"paid"])

            (line,) = [line for line in lines if line["log_level"] == "warning"]
            assert (line["event"], line["state"]) == ("transaction end not confirmed", "commit")
            assert transaction.state is None
            assert desk.asked.qsize() >= 1

    run(story)


def test_one_group_has_one_check() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address, check=Desk().check) as producer:
            with pytest.raises(ConfigurationError, match="name one group"):
                Producer(name_servers=broker.address, group="other", check=Desk().check)
            with pytest.raises(ConfigurationError, match="two transaction checks"):
                producer.cluster.checks.add(Desk().check)

    run(story)


def test_a_request_gets_the_reply_of_its_own_handler() -> None:
    async def story() -> None:
        @consumer("prices", "pricing")
        @replies
        async def price(question: dict[str, str]) -> dict[str, str]:
            return {"article": question["article"], "price": str(len(question["article"]))}

        @consumer("names", "naming")
        @replies
        def name(message: Message) -> str | None:
            return None if message.body == b"nobody" else f"{message.body.decode()}!"

        async with box() as broker, running(broker, price, name), Producer(name_servers=broker.address) as producer:
            articles = ["tea", "coffee", "x" * 20_000]
            asked = [producer.request("prices", f'{{"article": "{each}"}}', timeout="1m") for each in articles]
            answers = [reply.body for reply in await asyncio.gather(*asked)]
            named = await producer.request("names", b"Ada", timeout="1m")

            assert answers == [b'{"article":"%b","price":"%d"}' % (each.encode(), len(each)) for each in articles]
            assert named.body == b"Ada!"
            assert producer.cluster.requests.late == 0

    run(story)


def test_the_same_handler_takes_messages_that_are_no_requests() -> None:
    async def story() -> None:
        seen: list[bytes] = []

        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> str:
            seen.append(message.body)
            return "1"

        async with box() as broker, running(broker, price) as app, Producer(name_servers=broker.address) as producer:
            await producer.send("prices", b"plain")
            await until(lambda: app.counts.handled == 1)

            assert app.cluster is not None
            assert (app.cluster.replies.sent, app.cluster.replies.dropped) == (0, 0)
            assert seen == [b"plain"]

    run(story)


def test_a_request_that_nobody_replies_to_ends_in_time() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address) as producer:
            with pytest.raises(RequestTimedOut, match="request to questions: no reply within 1000 ms"):
                await producer.request("questions", b"?", timeout="1s")

    run(story)


@pytest.mark.parametrize(
    ("reply", "reason"), [(b"", "the body is empty"), (b"x" * (4 * 1024 * 1024 + 1), "a body of 4194305 bytes exceeds")]
)
def test_a_reply_that_no_broker_would_take_is_the_handler_s_failure(reply: bytes, reason: str) -> None:
    """Not one whose requester is gone: the log says it, and the message is retried."""

    async def story() -> None:
        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> bytes:
            return reply

        with capture_logs() as lines:
            async with box() as broker, running(broker, price) as app, Producer(name_servers=broker.address) as asker:
                with pytest.raises(RequestTimedOut):
                    await asker.request("prices", b"tea", timeout="1s")
                await until(lambda: any(line["event"] == "handler failed" for line in lines))

                assert app.cluster is not None
                assert (app.cluster.replies.sent, app.cluster.replies.dropped) == (0, 0)
        assert reason in next(line["error"] for line in lines if line["event"] == "handler failed")

    run(story)


def test_a_reply_that_nobody_waits_for_is_dropped_and_counted_and_the_message_is_done() -> None:
    async def story() -> None:
        asked, may_reply = asyncio.Event(), asyncio.Event()

        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> str:
            asked.set()
            await may_reply.wait()
            return "1"

        async with box() as broker, running(broker, price) as app:
            async with Producer(name_servers=broker.address) as producer:
                requester = asyncio.ensure_future(producer.request("prices", b"tea", timeout="60s"))
                await asked.wait()
                requester.cancel()
            may_reply.set()
            await until(lambda: app.counts.handled == 1)

            assert app.cluster is not None
            assert (app.cluster.replies.sent, app.cluster.replies.dropped) == (0, 1)
            assert {"sent": 0, "dropped": 1, "late": 0} == app.snapshot().replies

    run(story)


def test_a_reply_whose_requester_has_given_up_by_its_own_word_is_not_sent() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address) as producer:
            properties = {"REPLY_TO_CLIENT": "a@1", "CORRELATION_ID": "c", "CLUSTER": "DefaultCluster", "TTL": "3000"}
            replied = producer.cluster.replies
            with capture_logs() as lines:
                assert await replied.send(Message("prices", properties=properties, born_ms=1), b"1") is False

            assert (replied.dropped, lines[0]["reason"]) == (1, "its time is over")

    run(story)


def test_a_reply_is_sent_though_another_broker_s_clock_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """That one is five years ahead and says so, ours may not be asked; the requester's time is not over for that."""

    async def told(inquiries: Inquiries, address: str) -> Reading:
        raise Refused(16, "no permission", request="runtime", peer=address)

    monkeypatch.setattr(Inquiries, "clock", told)

    async def story() -> None:
        @consumer("prices", "pricing")
        @replies
        async def price(message: Message) -> str:
            return "1"

        async with box() as broker, running(broker, price) as app:
            await app.started()
            app._clock.brokers.answered("liar", Reading(FIVE_YEARS_LATER_MS, FIVE_YEARS_LATER_MS), 0, 1)
            assert app.world.clock.now_ms() > FIVE_YEARS_LATER_MS
            async with Producer(name_servers=broker.address) as producer:
                assert b"1" == (await producer.request("prices", b"tea", timeout="60s")).body

    run(story)


def test_a_late_reply_is_taken_and_counted_by_the_requester() -> None:
    async def story() -> None:
        async with box() as broker, Producer(name_servers=broker.address) as producer:
            requester = asyncio.ensure_future(producer.request("questions", b"?", timeout="60s"))
            await until(lambda: bodies(broker, "questions") == [b"?"])
            requester.cancel()
            member = broker.nodes[0].members.producer(producer.cluster.options.client_id)
            assert member is not None
            push = PushReplyRequest(
                producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
                sys_flag=0, born_timestamp=1, flag=0, born_host="127.0.0.1:1", store_host="127.0.0.1:2",
                store_timestamp=1, properties=encode({"CORRELATION_ID": "over"}),
            )  # fmt: skip
            taken = member.client.request_now(command_for(push, b"late"), timeout_ms=60_000)
            answer: RemotingCommand = await taken  # type: ignore[misc]  # an asyncio future here

            assert answer.code == 0, "as Java's client answers: whoever replied did its part"
            assert producer.cluster.requests.late == 1

    run(story)


def test_checks_beside_an_application_s_handlers_are_answered_by_it() -> None:
    async def story() -> None:
        desk = Desk("commit")
        module = ModuleType("shop")

        @consumer("orders", "billing")
        async def bill(message: Message) -> None:
            return

        consumer_there: Consumer[..., object] = Consumer(replace(bill.spec, module="shop"), bill.spec.function)
        vars(module)["check"] = desk.check
        sys.modules["shop"] = module
        try:
            async with box() as broker, running(broker, consumer_there) as app:
                await until(lambda: app.is_ready)
                async with Producer(cluster=app.cluster, group="desk") as producer:
                    async with producer.transaction(Message("orders", b"paid")) as transaction:
                        transaction.unknown()
                    await until(lambda: app.counts.handled == 1)
        finally:
            del sys.modules["shop"]

    run(story)
