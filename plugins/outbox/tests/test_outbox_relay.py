"""The relay, in virtual time: what it sends in which order, and what it does when something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from framework_outbox.table import Backlog, TableError
from structlog.testing import capture_logs

from framework.errors import BrokerUnreachable, Refused
from framework.mistakes import MessageWrong, NotInCluster, WrongMoment
from tests.outbox_desk import Desk, until


def test_what_was_written_is_sent_and_marked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write(*map(str, range(50)))

    async def story() -> None:
        relay = desk.relay()
        assert (50, 50) == await relay.step()
        assert (0, 0) == await relay.step()
        assert 50 == desk.table.status().sent == relay.sent

    desk.play(story)
    assert sorted(map(str, range(50))) == sorted(desk.bodies)
    assert 32 == desk.most, "as many at once as there are senders"


def test_a_key_s_messages_follow_each_other_to_one_queue(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(5):
        for key in ("K", "L", "M"):
            desk.write(f"{key}{number}", key=key)

    async def story() -> None:
        assert (15, 15) == await desk.relay().step()

    desk.play(story)
    assert 3 == desk.most
    for key in ("K", "L", "M"):  # the producer chooses its queue
        mine = [each for each in desk.sent if each[0].startswith(key)]
        assert [(f"{key}{number}", key) for number in range(5)] == mine


def test_a_failing_message_holds_its_key_and_nobody_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path, retry_first=1_000, retry_max=4_000)
    desk.write("k1", "k2", key="K")
    desk.write("free")
    desk.wrong["k1"] = BrokerUnreachable("broker-a is away")
    tried: list[float] = []

    async def story() -> None:
        loop, relay = asyncio.get_running_loop(), desk.relay()
        for _ in range(4):
            while not (await relay.step())[0]:  # noqa: ASYNC110 - time must pass
                await asyncio.sleep(0.1)
            tried.append(loop.time())
        del desk.wrong["k1"]
        while "k2" not in desk.bodies:
            await relay.step()
            await asyncio.sleep(0.1)

    desk.play(story)
    assert ["free", "k1", "k2"] == desk.bodies
    pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert [1, 2, 4] == pauses


def test_a_message_that_no_broker_takes_is_set_aside(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("bad", "behind", key="K")
    desk.write("good")
    desk.wrong["bad"] = Refused(13, "illegal", request="send", peer="broker-a")

    async def story() -> None:
        with capture_logs() as logs:
            relay = desk.relay()
            assert (3, 1) == await relay.step()
            assert (0, 0) == await relay.step()
        (worst,) = desk.table.status().worst
        assert ("K", 1) == (worst.key, worst.behind)
        assert ["outbox message refused"] == [each["event"] for each in logs]
        assert 1 == desk.table.discard([worst.number])
        assert (1, 1) == await relay.step()

    desk.play(story)
    assert ["good", "behind"] == desk.bodies


def test_a_mistake_is_held_against_a_message_only_when_others_go_through(tmp_path: Path) -> None:
    """Before that it may be the cluster's settings that are wrong, and all messages would be refused for it."""
    desk = Desk(tmp_path, retry_first=1_000)
    desk.write("odd")
    desk.wrong["odd"] = MessageWrong("message to payments: property PGROUP is RocketMQ's own")

    async def story() -> None:
        relay = desk.relay()
        assert (1, 0) == await relay.step()
        assert (1, 0) == ((status := desk.table.status()).waiting, status.refused)
        desk.write("good")
        assert (1, 1) == await relay.step()
        await asyncio.sleep(1)
        assert (1, 0) == await relay.step()
        assert 1 == desk.table.status().refused

    desk.play(story)


@pytest.mark.parametrize(
    "wrong", [NotInCluster("send to payments: order key 'K': the topic does not exist"), WrongMoment("it was stopped")]
)
def test_what_is_no_mistake_of_the_message_s_is_waited_for(tmp_path: Path, wrong: Exception) -> None:
    """A missing topic with a key was, and its key stood still until somebody discarded the row."""
    desk = Desk(tmp_path, retry_first=1_000)
    desk.write("good")
    desk.write("odd", key="K")
    desk.wrong["odd"] = wrong

    async def story() -> None:
        relay = desk.relay()
        assert (2, 1) == await relay.step()
        assert (1, 0) == ((status := desk.table.status()).waiting, status.refused)
        del desk.wrong["odd"]
        await asyncio.sleep(1)
        assert (1, 1) == await relay.step()

    desk.play(story)
    assert ["good", "odd"] == desk.bodies


def test_a_send_without_an_answer_is_given_up_and_tried_again_with_the_same_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path, timeout=1_000, lease=10_000, retry_first=100)
    desk.write("a")
    desk.takes_seconds = 5

    async def story() -> None:
        relay = desk.relay()
        (row,) = [desk.table.claim("probe", 1, 0)[0].message_id]
        assert (1, 0) == await relay.step()
        assert "no answer within 1000 ms" == desk.table.status().reason
        desk.takes_seconds = 0
        await asyncio.sleep(0.1)
        assert (1, 1) == await relay.step()
        assert [row] == desk.ids

    desk.play(story)


def test_nothing_is_sent_whose_claim_might_run_out_before_the_answer(tmp_path: Path) -> None:
    """Two of a key, and each takes nearly its time-out: the second is left for a fresh claim."""
    desk = Desk(tmp_path, timeout=1_000, lease=2_000)
    desk.write("k1", "k2", "k3", key="K")
    desk.takes_seconds = 0.9

    async def story() -> None:
        relay = desk.relay()
        assert (3, 2) == await relay.step()
        assert 1 == desk.table.status().waiting
        assert (1, 1) == await relay.step()

    desk.play(story)
    assert ["k1", "k2", "k3"] == desk.bodies


def test_two_relays_send_nothing_twice(tmp_path: Path) -> None:
    desk = Desk(tmp_path, batch=3)
    for number in range(20):
        desk.write(f"{number}", key=None if number % 2 else str(number % 3))

    async def story() -> None:
        relays = [desk.relay(), desk.relay("two", desk.open())]
        running = [asyncio.get_running_loop().create_task(relay.run()) for relay in relays]
        await until(lambda: len(desk.sent) >= 20)
        for relay in relays:
            relay.stop()
        await asyncio.gather(*running)
        assert all(relay.sent for relay in relays)

    desk.play(story)
    assert sorted(map(str, range(20))) == sorted(desk.bodies)


def test_one_that_is_cut_off_gives_back_what_it_had_claimed(tmp_path: Path) -> None:
    """The drain limit is over: nobody should wait for a claim that nobody holds; what was sent is noted first."""
    desk = Desk(tmp_path, senders=1)
    desk.write("quick")
    desk.write("slow", "behind", key="K")
    desk.takes_seconds = 1.0

    async def story() -> None:
        running = asyncio.get_running_loop().create_task(desk.relay().run())
        await until(lambda: desk.bodies == ["quick"] and desk.under_way == 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert running.cancelled()
        rows = desk.open().claim("another", 10, 30_000)
        assert [b"slow", b"behind"] == [row.body for row in rows]
        assert 1 == desk.table.status().sent

    desk.play(story)


def test_it_looks_again_each_interval_and_at_once_when_it_is_woken(tmp_path: Path) -> None:
    desk = Desk(tmp_path, interval=10_000)

    async def story() -> None:
        loop, relay = asyncio.get_running_loop(), desk.relay()
        running = loop.create_task(relay.run())
        await asyncio.sleep(1)
        desk.write("woken")
        relay.wake()
        await until(lambda: desk.bodies == ["woken"])
        woken_at = loop.time()
        desk.write("found")
        await until(lambda: desk.bodies == ["woken", "found"])
        assert woken_at < 2
        assert 5 < loop.time() - woken_at <= 10.1
        relay.stop()
        await running

    desk.play(story)


def test_a_database_that_is_away_is_said_once_and_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.write("a")
    claim = desk.table.claim
    tries = 0

    def failing(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise TableError("shop.db: database is locked")
        return claim(*arguments)

    monkeypatch.setattr(desk.table, "claim", failing)

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: bool(desk.sent))
        relay.stop()
        await running
        assert (3, 1, 0) == (relay.table_failures, relay.sent, relay.failed)

    with capture_logs() as logs:
        desk.play(story)
    assert [
        ("outbox table unavailable", "shop.db: database is locked"),
        ("outbox recovered", None),
    ] == [(each["event"], each.get("reason")) for each in logs]


def test_stopping_ends_what_is_under_way_and_leaves_the_rest(tmp_path: Path) -> None:
    desk = Desk(tmp_path, senders=1)
    desk.write("a", "b", "c")

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await asyncio.sleep(0.005)
        relay.stop()
        await running
        status = desk.open().status()
        assert (2, 1) == (status.waiting, status.sent)
        assert 2 == len(desk.open().claim("two", 10, 1_000)), "at once, not when a lease is over"

    desk.play(story)


def test_what_waits_in_the_whole_table_is_counted_for_metrics(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("held")
    assert 1 == len(desk.open().claim("another relay", 1, 3_600_000))
    desk.write("sent")
    desk.write("bad")
    desk.wrong["bad"] = Refused(13, "illegal", request="send", peer="broker-a")

    async def story() -> None:
        relay = desk.relay()
        assert Backlog() == relay.backlog, "nobody has looked"
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: relay.backlog.refused > 0)
        assert (1, 1) == (relay.backlog.waiting, relay.backlog.refused)
        assert 1 == desk.table.retry(None)
        del desk.wrong["bad"]
        await until(lambda: not relay.backlog.refused)
        relay.stop()
        await running

    desk.play(story)


def test_whatever_fails_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.write("a")
    claim, tries = desk.table.claim, iter([KeyError("surprise")])

    def failing(*arguments: Any) -> Any:
        for error in tries:
            raise error
        return claim(*arguments)

    monkeypatch.setattr(desk.table, "claim", failing)

    async def story() -> None:
        relay = desk.relay()
        running = asyncio.get_running_loop().create_task(relay.run())
        await until(lambda: bool(desk.sent))
        relay.stop()
        await running

    with capture_logs() as logs:
        desk.play(story)
    assert ["outbox poll failed"] == [each["event"] for each in logs]


def test_a_claim_that_takes_long_is_over_as_soon_as_the_table_says(tmp_path: Path) -> None:
    """The table is slow to answer, and another relay takes the rows over when the lease is over: not before a send of
    this one might be answered. A lease that counts from the answer would have two relays send one key's rows.
    """
    desk = Desk(tmp_path, timeout=1_000, lease=3_000, senders=1)
    desk.write("k1", "k2", "k3", key="K")
    desk.takes_seconds = 0.9

    async def story() -> None:
        claims = 0

        async def slowly(job: Callable[[], Any]) -> Any:
            nonlocal claims
            found = job()
            claims += 1
            if claims == 1:
                await asyncio.sleep(2.5)
            return found

        slow = desk.relay(in_thread=slowly)
        loop = asyncio.get_running_loop()
        stepping = loop.create_task(slow.step())
        await asyncio.sleep(3.05)
        assert [b"k1", b"k2", b"k3"] == [row.body for row in desk.open().claim("two", 10, 30_000)]
        assert 0 == desk.under_way, "nothing is on its way whose claim is over"
        await stepping

    desk.play(story)
    assert [] == desk.bodies
