"""Served connections: in turns, within limits for all of them together, and nothing after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from structlog.testing import capture_logs

from framework.net.channel import Channel
from framework.net.channel_timer import STALL_SECONDS
from framework.net.frame_writer import UNREAD_SECONDS
from framework.net.listener import IDLE_SECONDS, STRANGERS_SHARE, Listener
from framework.net.served import FRAME_BYTES_MIN, Served
from framework.net.shared_limits import STRANGERS_MAX, SharedLimits
from framework.net.turns import SLICE_STEPS, Turns
from framework.wire.command import RemotingCommand
from tests.hostile import frames
from tests.net.memory import MemoryNetwork, MemoryPipe, join, virtually, world_with


class _Made(MemoryNetwork):
    make: Any

    async def listen(self, make_owner: Any, host: str, port: int, *, tls: Any = None) -> Any:
        self.make = make_owner
        return await super().listen(make_owner, host, port, tls=tls)


class _Lab:
    """A listener, and raw ends of connections to it."""

    def __init__(self, *, frames_bytes_max: int = 1 << 20, unread_bytes_max: int = 1 << 20, **options: Any) -> None:
        self.served: list[tuple[Served, RemotingCommand]] = []
        self.network = _Made()
        self.shared = SharedLimits(Turns(), frames_bytes_max=frames_bytes_max, unread_bytes_max=unread_bytes_max)
        self.answer_bytes = 0
        options.setdefault("on_request", self._serve)
        self.listener = Listener(world_with(self.network), "127.0.0.1", 1, shared=self.shared, **options)

    def _serve(self, channel: Served, command: RemotingCommand) -> None:
        channel.prove()
        self.served.append((channel, command))
        channel.answer(command, RemotingCommand(0, None, bytes(self.answer_bytes)))

    async def dial(self) -> tuple[MemoryPipe, Served]:
        if not hasattr(self.network, "make"):
            await self.listener.start()
        here, there = join(Channel("box"), self.network.make(), host=f"10.0.0.{len(self.listener.channels) + 1}")
        assert isinstance(there.owner, Served)
        return here, there.owner


def _requests(count: int, size: int = 10) -> bytes:
    return b"".join(frames.request(34, None, bytes(size), number=n, one_way=True) for n in range(1, count + 1))


def test_a_thousand_requests_of_one_keep_no_other_waiting() -> None:
    async def story() -> list[int]:
        lab = _Lab()
        greedy, _ = await lab.dial()
        modest, second = await lab.dial()
        greedy.write(_requests(1000))
        await asyncio.sleep(0)
        modest.write(_requests(3))
        await asyncio.sleep(0.1)
        places = [i for i, (channel, _) in enumerate(lab.served) if channel is second]
        assert 1003 == len(lab.served)
        await lab.listener.close()
        return places

    places = virtually(story)

    assert 3 == len(places)
    assert places[-1] < 2 * SLICE_STEPS


def test_requests_arrive_whole_and_in_order_in_whatever_pieces() -> None:
    async def story() -> tuple[list[int], list[int]]:
        lab = _Lab()
        here, _ = await lab.dial()
        data = b"".join(_requests(3, size) for size in (0, 1, 5000, 70_000, 3, 200_000, 4096))
        at, piece = 0, 1
        while at < len(data):
            here.write(data[at : at + piece])
            at, piece = at + piece, piece * 7 % 50_021
            if piece % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(1)
        await lab.listener.close()
        return [command.number for _, command in lab.served], [len(command.body) for _, command in lab.served]

    numbers, sizes = virtually(story)

    assert [1, 2, 3] * 7 == numbers
    assert [size for size in (0, 1, 5000, 70_000, 3, 200_000, 4096) for _ in range(3)] == sizes


def test_while_requests_wait_for_their_turn_no_more_are_read() -> None:
    async def story() -> tuple[set[bool], bool, int]:
        lab, states = _Lab(), set()
        here, _ = await lab.dial()
        here.write(_requests(2000))
        while len(lab.served) < 2000:
            await asyncio.sleep(0)
            states.add(here.other.is_paused)
        await lab.listener.close()
        return states, here.other.is_paused, len(lab.served)

    assert ({True, False}, False, 2000) == virtually(story)


def test_what_is_left_of_a_connection_that_was_cut_is_not_served() -> None:
    async def story() -> tuple[int, bool]:
        ended: list[str] = []

        def cut(channel: Served, command: RemotingCommand) -> None:
            lab.served.append((channel, command))
            if command.number == 3:
                channel.attend(_work(ended))
                channel.abort("enough")
                channel.attend(_work(ended))

        lab = _Lab(on_request=cut)
        here, _ = await lab.dial()
        here.write(_requests(100))
        await asyncio.sleep(0.1)
        return len(lab.served), ended == ["closed"] or ended == []

    assert (3, True) == virtually(story)


def test_what_a_peer_sent_before_it_closed_is_served_and_then_it_is_closed() -> None:
    """One-way messages of a producer that stops at once: nobody waits for their answers, and they are to be stored."""

    async def story() -> tuple[bool, int, str | None, bool]:
        lab = _Lab()
        here, served = await lab.dial()
        served.data_received(_requests(300))
        keeps_open = served.eof_received()
        await asyncio.sleep(1)
        assert here.other.is_closing()
        _, idle = await lab.dial()
        return keeps_open, len(lab.served), served.close_reason, idle.eof_received()

    assert (True, 300, "closed by the peer", False) == virtually(story)


def _work(ended: list[str]) -> Generator[None, None, None]:
    try:
        yield
    finally:
        ended.append("closed")


def test_who_does_not_take_in_his_answers_is_not_served_until_he_does() -> None:
    async def story() -> tuple[int, int]:
        lab = _Lab()
        lab.answer_bytes = 10_000
        here, _ = await lab.dial()
        here.pause_reading()
        here.write(b"".join(frames.request(34, number=n) for n in range(1, 101)))
        await asyncio.sleep(1)
        before = len(lab.served)
        here.resume_reading()
        await asyncio.sleep(1)
        await lab.listener.close()
        return before, len(lab.served)

    before, after = virtually(story)

    assert before < 20
    assert 100 == after


def test_and_is_cut_off_where_he_takes_in_nothing_at_all() -> None:
    async def story() -> tuple[str | None, str | None, float]:
        lab = _Lab()
        lab.answer_bytes = 100_000
        here, there = await lab.dial()
        slow, slowly = await lab.dial()
        for pipe in (here, slow):
            pipe.pause_reading()
            pipe.write(b"".join(frames.request(34, number=n) for n in range(1, 51)))
        for _ in range(4):
            await asyncio.sleep(UNREAD_SECONDS / 2)
            slow.take(1_000)
        reasons = there.close_reason, slowly.close_reason, lab.shared.unread_bytes
        await lab.listener.close()
        return reasons

    reason, other, unread = virtually(story)

    assert f"took in nothing of its answers for {UNREAD_SECONDS:g} s" == reason
    assert other is None
    assert unread > 0


def test_beyond_what_may_be_unread_of_all_who_is_behind_for_longest_is_cut_off() -> None:
    async def story() -> tuple[list[bool], int]:
        lab = _Lab(unread_bytes_max=1_000_000)
        lab.answer_bytes = 300_000
        ends = [await lab.dial() for _ in range(5)]
        for here, _ in ends:
            here.pause_reading()
            here.write(frames.request(34))
            await asyncio.sleep(0.01)
        states = [there.is_open for _, there in ends], lab.shared.unread_bytes
        await lab.listener.close()
        return states

    states, unread = virtually(story)

    assert [False, False, True, True, True] == states
    assert unread < 1_000_000


def test_one_connection_may_be_behind_by_no_more_than_its_limit() -> None:
    async def story() -> str | None:
        lab = _Lab(unsent_bytes_max=500_000)
        here, there = await lab.dial()
        here.pause_reading()
        for _ in range(3):
            there.send(RemotingCommand(40, None, bytes(300_000)))
        await asyncio.sleep(0.01)
        return there.close_reason

    assert "bytes wait to be read by the peer, more than 500000" in (virtually(story) or "")


def test_unfinished_frames_of_all_are_bounded_and_strangers_go_first() -> None:
    async def story() -> tuple[list[bool], int, int]:
        lab = _Lab(frames_bytes_max=1_000_000)
        half = frames.frame(b"{}", says=400_000) + bytes(299_000)
        ends = [await lab.dial() for _ in range(4)]
        ends[0][0].write(_requests(1))
        for here, _ in ends:
            here.write(half)
            await asyncio.sleep(0.01)
        states, held = [there.is_open for _, there in ends], lab.shared.frames_bytes
        for here, _ in ends:
            here.close()
        await asyncio.sleep(0.01)
        return states, held, lab.shared.frames_bytes

    states, held, after = virtually(story)

    assert [True, False, True, True] == states
    assert 800_000 < held <= 1_000_000
    assert 0 == after


def test_a_frame_that_ends_costs_nothing_more() -> None:
    async def story() -> list[int]:
        lab = _Lab(frames_bytes_max=1_000_000)
        here, there = await lab.dial()
        sizes = []
        for _ in range(20):
            data = _requests(1, 200_000)
            for part in (data[:150_000], data[150_000:]):
                here.write(part)
                await asyncio.sleep(0.01)
                sizes.append(lab.shared.frames_bytes)
        assert there.is_open
        return sizes

    assert [150_000, 0] * 20 == virtually(story)


def test_a_frame_must_end_or_go_on_and_a_slow_link_gets_through() -> None:
    async def story() -> tuple[str | None, int, float]:
        lab = _Lab()
        slow, _ = await lab.dial()
        hostile, cut = await lab.dial()
        data = _requests(1, 400_000)
        hostile.write(data[:300_000])
        at, loop = 0, asyncio.get_running_loop()
        ended = loop.create_future()
        cut.closed.add_done_callback(lambda _: ended.set_result(loop.time()))
        while at < len(data):
            slow.write(data[at : at + 4096])
            at += 4096
            if at % (3 * 4096) == 0:
                hostile.write(bytes(2048))
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        return cut.close_reason, len(lab.served), await ended

    reason, count, at = virtually(story)

    assert "a frame stood still for 10 s" == reason
    assert 1 == count
    assert at <= 2 * STALL_SECONDS + 1
    assert 4096 * STALL_SECONDS > FRAME_BYTES_MIN


def test_small_frames_on_a_slow_link_are_not_taken_for_one_that_stands_still() -> None:
    """Both looks may find a frame begun, which is not the same one."""

    async def story() -> tuple[bool, int]:
        lab = _Lab()
        here, there = await lab.dial()
        data = _requests(1)
        here.write(data[:20])
        for _ in range(60):
            await asyncio.sleep(1)
            here.write(data[20:] + data[:20])
        await asyncio.sleep(1)
        return there.is_open, len(lab.served)

    assert (True, 60) == virtually(story)


def test_with_a_deadline_only_who_has_shown_that_he_may_be_there_stays() -> None:
    async def story() -> tuple[bool, bool, int]:
        lab = _Lab(prove_seconds=10.0)
        good, one = await lab.dial()
        _, two = await lab.dial()
        good.write(_requests(1))
        await asyncio.sleep(9)
        assert two.is_open
        await asyncio.sleep(2)
        states = one.is_open, two.is_open, len(lab.listener.channels)
        await lab.listener.close()
        return states

    assert (True, False, 1) == virtually(story)


def test_strangers_take_no_more_than_their_share_of_the_places_and_newcomers_come_in() -> None:
    async def story() -> tuple[int, list[bool], bool]:
        lab = _Lab(prove_seconds=10.0, channels_max=8)
        known = []
        for _ in range(2):
            here, there = await lab.dial()
            here.write(_requests(1))
            await asyncio.sleep(0.01)
            known.append(there)
        for _ in range(50):
            await lab.dial()
            await asyncio.sleep(0)
        late, there = await lab.dial()
        late.write(_requests(1))
        await asyncio.sleep(0.01)
        count = len(lab.listener.channels)
        states = [each.is_open for each in known]
        await lab.listener.close()
        return count, states, there.is_proven

    count, states, is_in = virtually(story)

    assert 2 + int(8 * STRANGERS_SHARE) == count
    assert [True, True] == states
    assert is_in


def test_without_keys_too_a_silent_connection_gives_its_place_to_a_newcomer() -> None:
    async def story() -> tuple[bool, bool, int]:
        lab = _Lab(channels_max=2)
        _, silent = await lab.dial()
        here, asking = await lab.dial()
        here.write(_requests(1))
        await asyncio.sleep(0.01)
        _, newcomer = await lab.dial()
        await asyncio.sleep(0.01)
        return silent.is_open, asking.is_open and newcomer.is_open, len(lab.listener.channels)

    assert (False, True, 2) == virtually(story)


def test_a_host_that_sends_garbage_is_logged_once_a_minute() -> None:
    async def story() -> list[str]:
        lab = _Lab()
        with capture_logs() as lines:
            for _ in range(30):
                here, _ = await lab.dial()
                here.write(b"GET / HTTP/1.1\r\n\r\n")
                await asyncio.sleep(3)
        return [str(line["event"]) for line in lines]

    assert ["protocol violated"] * 2 == virtually(story)


def test_the_hosts_remembered_for_it_are_bounded() -> None:
    async def story() -> int:
        shared = SharedLimits(Turns())
        assert all(shared.may_complain(f"h{i}", 0.0) for i in range(STRANGERS_MAX + 10))
        assert not shared.may_complain(f"h{STRANGERS_MAX}", 1.0)
        return len(shared._quiet)

    assert STRANGERS_MAX == virtually(story)


def test_work_in_steps_goes_on_between_others_requests_and_before_its_own_connections_next() -> None:
    async def story() -> list[str]:
        order: list[str] = []

        def serve(channel: Served, command: RemotingCommand) -> None:
            order.append("own" if channel is first else "other")
            if command.number == 1 and channel is first:
                channel.attend(_counting(order, 3))

        lab = _Lab(on_request=serve)
        one, first = await lab.dial()
        two, _ = await lab.dial()
        one.write(_requests(2))
        two.write(_requests(400))
        await asyncio.sleep(0.1)
        return order

    order = virtually(story)

    assert ["own", "step 0", "step 1", "step 2", "own"] == [each for each in order if each != "other"]
    assert "other" in order[order.index("step 0") : order.index("step 2")]


def _counting(order: list[str], count: int) -> Generator[None, None, None]:
    for i in range(count):
        order.append(f"step {i}")
        yield


def test_a_mistake_of_ours_ends_the_connection_that_it_was_made_for_and_no_other() -> None:
    async def story() -> tuple[bool, int]:
        lab = _Lab()
        bad, there = await lab.dial()
        good, _ = await lab.dial()

        def fail() -> None:
            raise ZeroDivisionError

        there._read_piece = fail  # type: ignore[method-assign]
        for each in (bad, good):
            each.write(_requests(2))
        with capture_logs() as lines:
            await asyncio.sleep(0.1)
        assert ["connection failed"] == [line["event"] for line in lines]
        await lab.listener.close()
        return there.is_open, len(lab.served)

    assert (False, 2) == virtually(story)


def test_one_that_is_idle_gives_its_place_to_a_newcomer_and_others_do_not() -> None:
    async def story() -> tuple[list[bool], list[str]]:
        lab = _Lab(channels_max=3)
        ends = [await lab.dial() for _ in range(3)]
        for here, _ in ends:
            here.write(_requests(1))
        for i in range(3):
            await asyncio.sleep(IDLE_SECONDS / 3 + 0.1)
            if i == 1:
                ends[0][0].write(_requests(1))
                ends[2][0].write(_requests(1))
                await asyncio.sleep(0.01)
        newcomer, there = await lab.dial()
        newcomer.write(_requests(1))
        await asyncio.sleep(0.01)
        _, another = await lab.dial()
        await asyncio.sleep(0.01)
        states = [each.is_open for each in (ends[0][1], ends[1][1], ends[2][1], there)]
        refused = [str(another in lab.listener.channels), str(len(lab.listener._refused))]
        await lab.listener.close()
        return states, refused

    assert ([True, False, True, True], ["False", "1"]) == virtually(story)
