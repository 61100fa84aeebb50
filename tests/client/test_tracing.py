"""Trace records on their way: many in one message, bounded, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from structlog.testing import capture_logs

from framework.client import tracing
from framework.client.tracing import Tracer, producer_group
from framework.errors import BrokerUnreachable
from framework.model.message import Message
from tests.net.memory import virtually


def story_of(
    act: Callable[[Tracer, list[Message]], Awaitable[None]], *, fails: int = 0
) -> tuple[Tracer, list[Message]]:
    async def story() -> tuple[Tracer, list[Message]]:
        sent: list[Message] = []
        failures = [BrokerUnreachable("down")] * fails

        async def send(message: Message) -> None:
            if failures:
                raise failures.pop()
            sent.append(message)

        tracer = Tracer("traces", lambda callback: callback())
        running = asyncio.get_running_loop().create_task(tracer.run(send))
        await act(tracer, sent)
        await tracer.close()
        running.cancel()
        return tracer, sent

    return virtually(story)


def test_what_waits_goes_out_within_a_second_as_one_message_with_all_keys() -> None:
    async def act(tracer: Tracer, sent: list[Message]) -> None:
        tracer.put("a;", "ID1", "k1 k2")
        tracer.put("b;", "ID1", "k1 k2")
        tracer.put("c;", "ID2", None)
        await asyncio.sleep(1.1)
        assert 1 == len(sent)

    _, (message,) = story_of(act)
    assert ("traces", b"a;b;c;", ["ID1", "k1", "k2", "ID2"]) == (message.topic, message.body, message.keys)


def test_many_records_do_not_wait_for_the_second_to_end() -> None:
    async def act(tracer: Tracer, sent: list[Message]) -> None:
        await asyncio.sleep(0.1)
        for number in range(tracing.SOON):
            tracer.put("x", f"ID{number}", None)
        await asyncio.sleep(0.01)
        assert sent

    story_of(act)


def test_messages_are_bounded_by_their_keys_and_their_bodies_and_nothing_is_lost() -> None:
    async def act(tracer: Tracer, sent: list[Message]) -> None:
        for number in range(1_000):
            tracer.put("x" * 1_000, f"{number:032}", None)

    _, sent = story_of(act)
    assert 1_000_000 == sum(len(message.body) for message in sent)
    assert all(len(message.body) <= tracing.BODY_MAX + 1_000 for message in sent)
    assert all(len(" ".join(message.keys)) <= tracing.KEYS_MAX for message in sent)


def test_keys_that_are_too_long_to_be_found_by_are_left_out() -> None:
    async def act(tracer: Tracer, _: list[Message]) -> None:
        tracer.put("x", "ID1", "k" * tracing.KEYS_MAX)

    _, (message,) = story_of(act)
    assert ["ID1"] == message.keys


def test_what_was_told_just_before_the_end_is_sent_too() -> None:
    async def act(tracer: Tracer, _: list[Message]) -> None:
        tracer.put("x", "ID1", None)  # the loop has not had a turn yet

    _, sent = story_of(act)
    assert 1 == len(sent)


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    async def act(tracer: Tracer, _: list[Message]) -> None:
        for _each in range(tracing.WAITING_MAX + 7):
            tracer.put("x", "ID", None)

    tracer, _ = story_of(act)
    assert 7 == tracer.dropped


def test_a_broker_that_is_away_costs_the_records_and_is_named_once() -> None:
    async def act(tracer: Tracer, _: list[Message]) -> None:
        for _each in range(3):
            tracer.put("x", "ID", None)
            await asyncio.sleep(1.1)

    with capture_logs() as logs:
        tracer, sent = story_of(act, fails=2)
    assert (2, 1) == (tracer.dropped, len(sent))
    assert ["trace not sent", "trace recovered"] == [line["event"] for line in logs]


def test_the_trace_s_own_producer_has_a_legal_name_whatever_the_group_is_called() -> None:
    assert "_INNER_TRACE_PRODUCER-billing-CONSUME-1" == producer_group("billing", "CONSUME-1")
    assert 120 == len(producer_group("b" * 120, "CONSUME-1"))
