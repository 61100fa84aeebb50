"""Channel: requests and answers, deadlines, endings, flow; each against a peer over the same wire, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.errors import BrokerUnreachable, ConnectionLost, Refused, RequestTimedOut
from framework.net import channel_timer as module
from framework.net.channel import Channel, Ready
from framework.wire import frame
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Limits
from framework.wire.exchanges import raise_for
from tests.net.memory import HIGH_WATER, MemoryPipe, Peer, echo, linked, virtually


def ask(**fields: str) -> RemotingCommand:
    return RemotingCommand(RequestCode.GET_MAX_OFFSET, fields)


def silent(peer: Peer, request: RemotingCommand) -> None:
    return None


def pipe_of(channel: Channel) -> MemoryPipe:
    pipe: Any = channel._transport
    assert isinstance(pipe, MemoryPipe)
    return pipe


def test_answers_find_their_requests_in_any_order() -> None:
    def both_at_once(peer: Peer, request: RemotingCommand) -> None:
        if len(peer.requests) == 2:
            for held in reversed(peer.requests):
                peer.reply(held, RemotingCommand(0, held.fields))

    async def story() -> list[str]:
        channel, _ = linked(both_at_once)
        first = channel.request_now(ask(topic="one"), timeout_ms=3000)
        second = channel.request_now(ask(topic="two"), timeout_ms=3000)
        return [(await first).fields["topic"], (await second).fields["topic"]]

    assert ["one", "two"] == virtually(story)


def test_an_error_code_is_an_answer_and_raise_for_makes_it_an_error() -> None:
    async def story() -> RemotingCommand:
        channel, _ = linked(lambda *_: RemotingCommand(17, remark="No topic route info " * 50))
        return await channel.request(ask(), timeout_ms=3000)

    answer = virtually(story)

    assert 17 == answer.code
    assert answer is raise_for(answer, RequestCode.GET_MAX_OFFSET, "ns:9876", ok=(0, 17))
    with pytest.raises(Refused, match=r"GET_MAX_OFFSET \(30\) refused by ns:9876: code 17, No topic") as caught:
        raise_for(answer, RequestCode.GET_MAX_OFFSET, "ns:9876")
    assert 17 == caught.value.code
    assert len(str(caught.value)) < 300


def test_a_request_without_an_answer_times_out_and_is_forgotten() -> None:
    """The late answer is a stray. The channel stays: other bytes came meanwhile, so the peer is only slow."""

    def answer_offsets_only(peer: Peer, request: RemotingCommand) -> RemotingCommand | None:
        return None if request.code == RequestCode.HEART_BEAT else RemotingCommand(0)

    async def story() -> tuple[bool, int, float]:
        loop = asyncio.get_running_loop()
        channel, peer = linked(answer_offsets_only)
        slow = channel.request_now(RemotingCommand(RequestCode.HEART_BEAT), timeout_ms=3000)
        await asyncio.sleep(1)
        await channel.request(ask(), timeout_ms=3000)
        with pytest.raises(RequestTimedOut, match=r"HEART_BEAT \(34\): no answer from broker-a:10911 within 3000 ms"):
            await slow
        elapsed = loop.time()
        peer.reply(peer.requests[0], RemotingCommand(0))
        await asyncio.sleep(0.1)
        return channel.is_open, channel._wire.strays, elapsed

    is_open, strays, elapsed = virtually(story)

    assert is_open
    assert 1 == strays
    assert 3 <= elapsed < 3.1


def test_one_short_silence_is_that_request_s_fault_while_others_are_answered_after_it() -> None:
    """Closing would take the members of every group from the broker's lists, for one group's question."""

    async def story() -> bool:
        channel, _ = linked(lambda _, request: RemotingCommand(0) if request.code == RequestCode.HEART_BEAT else None)
        for _ in range(3):
            with pytest.raises(RequestTimedOut):
                await channel.request(ask(), timeout_ms=3000)
            await channel.request(RemotingCommand(RequestCode.HEART_BEAT), timeout_ms=3000)
        return channel.is_open

    assert virtually(story)


def test_a_long_silence_needs_no_second() -> None:
    async def story() -> str | None:
        channel, _ = linked(silent)
        with pytest.raises(RequestTimedOut):
            await channel.request(RemotingCommand(RequestCode.PULL_MESSAGE), timeout_ms=30_000)
        await channel.closed
        return channel.close_reason

    assert "not one byte within 30 s of a request" == virtually(story)


def test_a_half_open_connection_is_closed_and_fails_everybody() -> None:
    async def story() -> tuple[str | None, bool]:
        channel, peer = linked(silent)
        pull = channel.request_now(RemotingCommand(RequestCode.PULL_MESSAGE), timeout_ms=30_000)
        for _ in range(2):
            assert channel.is_open
            with pytest.raises(RequestTimedOut):
                await channel.request(ask(), timeout_ms=3000)
        with pytest.raises(ConnectionLost, match="broker-a:10911: not one byte within 3 s of a request"):
            await pull
        await channel.closed
        return channel.close_reason, peer.is_lost

    assert ("not one byte within 3 s of a request", True) == virtually(story)


def test_a_time_out_too_short_to_mean_anything_leaves_the_connection() -> None:
    async def story() -> bool:
        channel, _ = linked(silent)
        with pytest.raises(RequestTimedOut):
            await channel.request(ask(), timeout_ms=100)
        return channel.is_open

    assert virtually(story)


def test_deadlines_cost_one_timer_a_channel() -> None:
    async def story() -> tuple[int, list[str]]:
        channel, _ = linked(silent)
        futures = [
            channel.request_now(ask(), timeout_ms=timeout_ms) for timeout_ms in (5000, 90, 30_000, 70, 80) for _ in "ab"
        ]
        timers = sum(not step.is_cancelled for _, _, step in asyncio.get_running_loop()._heap)  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        return timers, ["late" if future.done() else "waits" for future in futures]

    timers, states = virtually(story)

    assert 1 == timers
    assert ["waits"] * 2 + ["late"] * 2 + ["waits"] * 2 + ["late"] * 4 == states


def test_a_cancelled_request_is_forgotten() -> None:
    async def story() -> int:
        channel, _ = linked(silent)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await channel.request(ask(), timeout_ms=3000)
        return channel._wire.waiting

    assert 0 == virtually(story)


def test_a_cancelled_ready_made_request_is_forgotten_and_an_answered_one_is_whole() -> None:
    def frame_of(number: int) -> bytes:
        command = ask(topic="t")
        command.number = number
        return frame.encode(command)

    async def story() -> tuple[int, str]:
        ready = Ready(RequestCode.GET_MAX_OFFSET, frame_of)
        channel, _ = linked(silent)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await channel.request(ready, timeout_ms=3000)
        other, _ = linked(echo)
        answer = await other.request(ready, timeout_ms=3000)
        return channel._wire.waiting, answer.fields["topic"]

    assert (0, "t") == virtually(story)


def test_a_ready_made_request_waits_while_the_peer_does_not_read() -> None:
    async def story() -> None:
        channel, peer = linked(silent)
        channel.pause_writing()
        with pytest.raises(RequestTimedOut, match="took in no bytes for 500 ms; nothing was sent"):
            await channel.request(Ready(RequestCode.GET_MAX_OFFSET, lambda number: b""), timeout_ms=500)
        assert (0, []) == (channel._wire.waiting, peer.requests)

    virtually(story)


def test_whoever_waits_is_told_when_the_connection_ends() -> None:
    async def story() -> None:
        channel, _ = linked(silent)
        future = channel.request_now(ask(), timeout_ms=3000)
        pipe_of(channel).cut(ConnectionResetError(104, "reset"))
        with pytest.raises(ConnectionLost, match=r"broker-a:10911: connection lost: .*reset"):
            await future
        with pytest.raises(ConnectionLost, match="reset"):
            await channel.request(ask(), timeout_ms=3000)

    virtually(story)


def test_a_waiting_request_that_nobody_awaits_is_no_complaint() -> None:
    """A pull under way when its queue is taken away: `virtually` would show asyncio's 'never retrieved'."""

    async def story() -> None:
        channel, _ = linked(silent)
        channel.request_now(ask(), timeout_ms=3000)
        channel.close("done")
        await channel.closed

    virtually(story)


def test_bytes_that_are_not_remoting_end_this_channel_only() -> None:
    async def story() -> tuple[str | None, bool, bool]:
        channel, peer = linked(silent)
        other, _ = linked(echo)
        future = channel.request_now(ask(), timeout_ms=3000)
        peer.pipe.write(b"\x15\x03\x03\x00\x02\x02\x28")
        with pytest.raises(ConnectionLost, match="broker-a:10911: peer speaks TLS and this end does not"):
            await future
        await other.request(ask(), timeout_ms=3000)
        return channel.close_reason, channel.is_faulty, other.is_open

    reason, *ended = virtually(story)
    assert [True, True] == ended
    assert "set cluster.tls.enabled: true, for the built-in broker give --tls-cert FILE" in str(reason)


def test_a_frame_that_stands_still_ends_the_channel() -> None:
    """Slow loris: one byte each five seconds is no headway."""

    async def story() -> tuple[str | None, float]:
        channel, peer = linked(silent)
        for byte in b"\x00\x00\x01\x00\x00\x00\x00\xf0" + b" " * 40:
            if channel.close_reason:
                break
            peer.pipe.write(bytes((byte,)))
            await asyncio.sleep(5)
        return channel.close_reason, asyncio.get_running_loop().time()

    reason, elapsed = virtually(story)

    assert "a frame stood still for 10 s" == reason
    assert elapsed <= 30


def test_a_large_frame_on_a_slow_line_is_no_stall() -> None:
    async def story() -> int:
        channel, peer = linked(silent)
        future = channel.request_now(ask(), timeout_ms=60_000)
        await asyncio.sleep(0.1)
        frame = peer.wire.answer(peer.requests[0], RemotingCommand(0, body=bytes(100_000)))
        for at in range(0, len(frame), 2500):
            peer.pipe.write(frame[at : at + 2500])
            await asyncio.sleep(1)
        return len((await future).body)

    assert 100_000 == virtually(story)


def test_answers_that_nobody_asked_for_end_the_channel_by_the_thousand() -> None:
    async def story() -> tuple[str | None, int]:
        channel, peer = linked(silent)
        for number in range(1, module.STRAYS_MAX + 10):
            peer.reply(RemotingCommand(0, number=number), RemotingCommand(0))
        await asyncio.sleep(0.1)
        return channel.close_reason, channel._wire.waiting

    assert (f"more than {module.STRAYS_MAX} answers that nobody waits for", 0) == virtually(story)


def test_an_idle_channel_is_closed_after_two_minutes() -> None:
    async def story() -> tuple[bool, str | None]:
        channel, _ = linked(echo)
        await asyncio.sleep(100)
        await channel.request(ask(), timeout_ms=3000)
        await asyncio.sleep(100)
        was_open = channel.is_open
        await channel.closed
        return was_open, channel.close_reason

    assert (True, "idle for 120 s") == virtually(story)


def test_go_away_ends_the_channel_after_the_last_answer() -> None:
    def go_away_once(peer: Peer, request: RemotingCommand) -> RemotingCommand | None:
        return RemotingCommand(ResponseCode.GO_AWAY) if request.code == RequestCode.HEART_BEAT else None

    async def story() -> str | None:
        channel, peer = linked(go_away_once)
        slow = channel.request_now(ask(), timeout_ms=3000)
        answer = await channel.request(RemotingCommand(RequestCode.HEART_BEAT), timeout_ms=3000)
        assert ResponseCode.GO_AWAY == answer.code
        assert not channel.is_open
        assert channel.close_reason is None
        with pytest.raises(ConnectionLost):
            channel.request_now(ask(), timeout_ms=3000)
        peer.reply(peer.requests[0], RemotingCommand(0))
        assert 0 == (await slow).code
        await channel.closed
        return channel.close_reason

    assert "told to go away" == virtually(story)


def test_a_channel_told_to_go_away_closes_also_when_its_last_request_times_out() -> None:
    async def story() -> str | None:
        channel, _ = linked(lambda peer, request: RemotingCommand(1500) if request.code == 34 else None)
        slow = channel.request_now(ask(), timeout_ms=3000)
        await asyncio.sleep(0.5)
        await channel.request(RemotingCommand(RequestCode.HEART_BEAT), timeout_ms=3000)
        with pytest.raises(RequestTimedOut):
            await slow
        await channel.closed
        return channel.close_reason

    assert "told to go away" == virtually(story)


def test_a_ready_made_frame_needs_an_open_channel_too() -> None:
    async def story() -> None:
        channel, _ = linked(silent)
        channel.abort("gone")
        with pytest.raises(ConnectionLost, match="broker-a:10911: gone"):
            channel.request_frame(lambda number: b"", 11, timeout_ms=3000)
        unconnected = Channel("broker-b:10911")
        unconnected.close("given up")
        await unconnected.closed

    virtually(story)


def test_a_broker_s_request_is_served_or_refused_by_name() -> None:
    async def story() -> list[tuple[int, str | None]]:
        channel, peer = linked()
        refused = await peer.ask(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))
        channel.on_request = lambda channel, command: channel.answer(command, RemotingCommand(0, remark="here"))
        served = await peer.ask(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))

        def broken(channel: Channel, command: RemotingCommand) -> None:
            raise KeyError("oops")

        channel.on_request = broken
        failed = await peer.ask(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))
        return [(answer.code, answer.remark) for answer in (refused, served, failed)]

    assert [
        (3, " request type 307 not supported"),
        (0, "here"),
        (1, "KeyError in GET_CONSUMER_RUNNING_INFO (307)"),
    ] == virtually(story)


def test_a_request_waits_while_the_peer_does_not_read() -> None:
    async def story() -> tuple[bool, int, int]:
        channel, peer = linked(echo)
        peer.pipe.pause_reading()
        big = channel.request_now(
            RemotingCommand(RequestCode.SEND_MESSAGE_V2, body=bytes(2 * HIGH_WATER)), timeout_ms=3000
        )
        loop = asyncio.get_running_loop()
        waiting = loop.create_task(channel.request(ask(topic="late"), timeout_ms=3000))
        with pytest.raises(RequestTimedOut, match="took in no bytes for 500 ms; nothing was sent"):
            await channel.request(ask(), timeout_ms=500)
        before = pipe_of(channel).written
        peer.pipe.resume_reading()
        await big
        await waiting
        return waiting.done(), before, len(peer.requests)

    is_done, before, requests = virtually(story)

    assert is_done
    assert before < 2 * HIGH_WATER + 500
    assert 2 == requests


def test_time_stands_still_for_requests_while_reading_is_paused() -> None:
    async def story() -> int:
        channel, peer = linked(silent)
        future = channel.request_now(ask(), timeout_ms=3000)
        await asyncio.sleep(1)
        peer.reply(peer.requests[0], RemotingCommand(0))
        channel.pause_reading()
        await asyncio.sleep(500)
        assert not future.done()
        channel.resume_reading()
        return (await future).code

    assert 0 == virtually(story)


def test_a_commit_is_given_up_in_its_time_while_reading_is_paused_and_says_nothing_about_the_peer() -> None:
    """A queue that is left waits for it, for as long as the room to read is used up."""

    async def story() -> list[float]:
        channel, _ = linked(silent)
        loop, ends = asyncio.get_running_loop(), []
        pull = channel.request_now(ask(), timeout_ms=1000)
        before = channel.request_now(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET), timeout_ms=3000)
        await asyncio.sleep(0.5)
        channel.pause_reading()
        for commit in (
            before,
            channel.request_now(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET), timeout_ms=12_000),
        ):
            with pytest.raises(RequestTimedOut, match="UPDATE_CONSUMER_OFFSET"):
                await commit
            ends.append(round(loop.time(), 1))
        assert not pull.done()
        assert channel.is_open
        channel.resume_reading()
        with pytest.raises(RequestTimedOut):
            await pull
        return [*ends, round(loop.time(), 1)]

    assert [3.0, 12.5, 13.0] == virtually(story)


def test_a_paused_channel_s_requests_still_time_out_afterwards() -> None:
    async def story() -> float:
        channel, _ = linked(silent)
        future = channel.request_now(ask(), timeout_ms=3000)
        await asyncio.sleep(1)
        channel.pause_reading()
        await asyncio.sleep(10)
        channel.resume_reading()
        with pytest.raises(RequestTimedOut):
            await future
        return asyncio.get_running_loop().time()

    assert 13 <= virtually(story) < 13.1


def test_in_flight_requests_are_limited() -> None:
    async def story() -> None:
        channel, _ = linked(silent, limits=Limits(in_flight_max=2))
        channel.request_now(ask(), timeout_ms=3000)
        channel.request_now(ask(), timeout_ms=3000)
        with pytest.raises(BrokerUnreachable, match="2 requests wait"):
            channel.request_now(ask(), timeout_ms=3000)

    virtually(story)


def test_requests_and_one_ways_are_signed_and_answers_are_not() -> None:
    def sign(command: RemotingCommand) -> None:
        command.fields["Signature"] = "s"

    async def story() -> tuple[list[dict[str, str]], dict[str, str]]:
        channel, peer = linked(
            echo, sign=sign, on_request=lambda channel, command: channel.answer(command, RemotingCommand(0))
        )
        await channel.request(ask(), timeout_ms=3000)
        channel.send(RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET))
        answer = await peer.ask(RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO))
        return [request.fields for request in peer.requests], answer.fields

    assert ([{"Signature": "s"}] * 2, {}) == virtually(story)


def test_what_is_sent_after_the_end_is_dropped() -> None:
    async def story() -> tuple[int, str]:
        channel, peer = linked()
        channel.close("done")
        channel.close("again")
        channel.send(ask())
        channel.answer(ask(), RemotingCommand(0))
        channel.pause_reading()
        channel.resume_reading()
        await channel.closed
        return len(peer.requests), repr(channel)

    assert (0, "<Channel broker-a:10911 done waiting=0>") == virtually(story)
