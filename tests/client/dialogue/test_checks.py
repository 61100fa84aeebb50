"""Check functions that hang, fail in odd ways, or take long: they hurt no other transaction."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest
from structlog.testing import capture_logs

from framework import Message, Producer, transaction_check
from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.client.dialogue import checks
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.dialogue.test_blocks import ask, half_in, moved, patient_box
from tests.client.dialogue.test_with_the_box import bodies, box
from tests.patience import until
from tests.runtime.test_app import run


async def leave(producer: Producer, body: bytes) -> None:
    async with producer.transaction(Message("orders", body)) as transaction:
        transaction.unknown()


def test_a_function_that_hangs_is_asked_once_and_others_are_answered() -> None:
    """A broker asks about the same transaction again and again; each question would take a place."""

    async def story() -> None:
        asked: list[bytes] = []

        @transaction_check("desk")
        async def check(message: Message) -> str:
            asked.append(message.body)
            if message.body == b"hangs":
                await asyncio.Event().wait()
            return "commit"

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            with capture_logs() as lines:
                await leave(producer, b"hangs")
                await until(lambda: sum(line["event"] == "transaction check not answered" for line in lines) >= 3)
                await leave(producer, b"paid")
                await until(lambda: bodies(broker, "orders") == [b"paid"])

            assert 1 == asked.count(b"hangs")
            reasons = {line["reason"] for line in lines if line["event"] == "transaction check not answered"}
            assert {"the check function has not answered the question before"} == reasons

    run(story)


def test_an_async_function_has_its_time_and_then_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SECONDS_MAX", 0.05)

    async def story() -> None:
        ended: list[str] = []

        @transaction_check("desk")
        async def check(message: Message) -> str:
            if not ended:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("cancelled")
            return "commit"

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            with capture_logs() as lines:
                await leave(producer, b"paid")
                await until(lambda: bodies(broker, "orders") == [b"paid"])

            (line,) = [line for line in lines if line["event"] == "transaction check failed"]
            assert "it took longer than 0.05 s" == line["reason"]

    run(story)


def test_questions_that_come_at_once_wait_for_their_turn() -> None:
    """As behind an outage: a broker counts each question, and gives up what nobody answered for."""

    async def story() -> None:
        @transaction_check("desk")
        async def check(message: Message) -> str:
            await asyncio.sleep(0.001)
            return "commit"

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            switches = broker.nodes[0].switches
            for name, text in (("CheckMax", "1"), ("CheckInterval", "3600000"), ("TimeOut", "1000")):
                switches.put(f"transaction{name}", text)
            await asyncio.gather(*(leave(producer, b"%d" % number) for number in range(90)))
            await until(lambda: len(bodies(broker, "orders")) == 90)

            assert 90 == producer.cluster.checks.answered

    run(story)


def test_what_waits_has_a_limit_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "RUNNING_MAX", 1)
    monkeypatch.setattr(checks, "WAITING_MAX", 2)

    async def story() -> None:
        may_answer = asyncio.Event()

        @transaction_check("desk")
        async def check(message: Message) -> str:
            await may_answer.wait()
            return "commit"

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            with capture_logs() as lines:
                await asyncio.gather(*(leave(producer, b"%d" % number) for number in range(9)))
                await until(lambda: sum("before" in line.get("reason", "") for line in lines) >= 3)
                reasons = [line["reason"] for line in lines if line["event"] == "transaction check not answered"]
                may_answer.set()
                await until(lambda: len(bodies(broker, "orders")) == 9)

            assert 1 == reasons.count("2 questions wait already")

    run(story)


def test_the_answer_is_told_of_the_half_message_that_was_asked_about_last() -> None:
    """A stock broker stores it anew for each question: an answer about the first one would leave the newest open."""

    async def story() -> None:
        may_answer, told = asyncio.Event(), list[str]()

        @transaction_check("desk")
        async def check(message: Message) -> str:
            await may_answer.wait()
            return "commit"

        def end(request: Request) -> RemotingCommand:
            told.append(request.command.fields["commitLogOffset"])
            return RemotingCommand(0)

        async with patient_box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            await leave(producer, b"paid")
            broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, answer=end, times=None))
            with capture_logs() as lines:
                for place in (4711, 4712):
                    ask(broker, moved(half_in(broker), place=place, offset=17, broker="broker-a"))
                await until(lambda: any(line["event"] == "transaction check not answered" for line in lines))
            may_answer.set()
            await until(lambda: told)

            assert ["4712"] == told

    run(story)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("failure", [SystemExit(3), asyncio.CancelledError(), KeyboardInterrupt(), Unspeakable()])
@pytest.mark.parametrize("is_async", [True, False])
def test_whatever_a_function_raises_it_is_asked_again(failure: BaseException, is_async: bool) -> None:
    async def story() -> None:
        asked: list[Message] = []

        def first_fails(message: Message) -> str:
            asked.append(message)
            if len(asked) == 1:
                raise failure
            return "commit"

        async def in_the_loop(message: Message) -> str:
            return first_fails(message)

        check = transaction_check("desk")(in_the_loop if is_async else first_fails)
        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            await leave(producer, b"paid")
            await until(lambda: bodies(broker, "orders") == [b"paid"])

    run(story)


def test_a_plain_function_may_answer_with_a_coroutine() -> None:
    """As a partial or a lambda over an async function does."""

    async def story() -> None:
        async def asked() -> str:
            return "commit"

        check = transaction_check("desk")(lambda message: asked())
        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            await leave(producer, b"paid")
            await until(lambda: bodies(broker, "orders") == [b"paid"])

    run(story)


def test_a_plain_function_that_hangs_does_not_hold_up_the_stop() -> None:
    async def story() -> None:
        is_asked, is_over = threading.Event(), threading.Event()

        @transaction_check("desk")
        def check(message: Message) -> str:
            is_asked.set()
            is_over.wait()
            return "commit"

        async with box() as broker:
            producer = Producer(name_servers=broker.address, check=check)
            await producer.start()
            await leave(producer, b"paid")
            await until(is_asked.is_set)
            await producer.stop()
            is_over.set()

            assert [] == bodies(broker, "orders")

    run(story)


@pytest.mark.parametrize("answer", ["COMMIT", 1, True, [], b"commit"])
def test_what_is_no_word_of_the_three_is_unknown(answer: object) -> None:
    async def story() -> None:
        answers = [answer, "rollback"]

        @transaction_check("desk")
        async def check(message: Message) -> str:
            return cast("str", answers.pop(0) if len(answers) > 1 else answers[0])

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            with capture_logs() as lines:
                await leave(producer, b"paid")
                await until(lambda: producer.cluster.checks.answered >= 2)

            states = [line["state"] for line in lines if line["event"] == "transaction checked"]
            assert ["unknown", "rollback"] == states[:2]
            assert [] == bodies(broker, "orders")

    run(story)
