"""Ten members that are restarted under load, one of five that is killed again and again, ten that share 64 queues: the
figures of calm groups on a real cluster. `make slow PART=storms`; what is printed stands in docs/measured.md.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from framework import Message, Producer
from framework.core import limits
from framework.errors import Refused
from framework.model.queue import MessageQueue
from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.inside import seconds_until
from tests.interop.members import Member, are_shared, end, group_of
from tests.interop.processes import Nursery
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MINUTES = float(os.environ.get("STORM_MINUTES", "10"))
"""For how long one of five is killed; shorter while something is tried."""
KILL_EACH_S = 5.0
TAKEN_BACK_S = limits.QUARANTINE_MAX_MS / 1000 + 30
"""Once it is left alone: the longest quarantine, its start, and a round of the others."""
START_S = 1.5
"""What a process takes to start, before it is heard of."""
BATCH, BATCHES_A_SECOND = 20, 50


@asynccontextmanager
async def load(name_server: str, topic: str, queues: int) -> AsyncIterator[set[tuple[int, int]]]:
    """A thousand messages a second, to each queue in turn; yields the places of those that are stored."""
    stored: set[tuple[int, int]] = set()

    async def keep_sending() -> None:
        async with Producer(name_servers=[name_server]) as producer:
            for number in count():
                if is_over.is_set():
                    return
                queue = MessageQueue(topic, "broker-a", number % queues)
                began = time.monotonic()
                with suppress(Refused):  # a busy broker says so, and what it did not take nobody waits for
                    for each in await producer.send_batch([Message(topic, b"x")] * BATCH, queue=queue):
                        stored.add((each.queue.number, each.queue_offset))
                await asyncio.sleep(max(1 / BATCHES_A_SECOND - (time.monotonic() - began), 0))

    is_over = asyncio.Event()
    sending = asyncio.get_running_loop().create_task(keep_sending())
    try:
        yield stored
    finally:
        is_over.set()
        await sending


@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "nameless"])
def test_a_rolling_restart_of_ten_members_under_load_repeats_nothing(
    cluster: Addresses, new_topic: Callable[..., str], is_named: bool
) -> None:
    """And where members have names, it moves nothing."""
    topic, queues, rounds = new_topic(queues=20), 20, 2
    everybody: list[Member] = []

    async def scenario() -> int:
        def member(number: int) -> Member:
            everybody.append(Member(cluster, topic, f"m-{number}" if is_named else "", progress="topic"))
            return everybody[-1]

        members = [member(number) for number in range(10)]
        await until(are_shared(members, queues))
        await asyncio.sleep(3)  # until nobody is still about to be moved
        del lines[:]
        async with load(cluster.name_server, topic, queues) as stored:
            await asyncio.sleep(2)
            for number in [*range(10)] * rounds:
                await members[number].leave()
                await asyncio.sleep(START_S)
                members[number] = member(number)
                await until(are_shared(members, queues))
        await until(lambda: stored <= {place for each in everybody for place in each.handled})
        await end(members)
        return len(stored)

    with capture_logs() as lines:
        sent = asyncio.run(scenario())
    times = Counter(place for each in everybody for place in each.handled)
    repeats = sum(times.values()) - len(times)
    names: dict[int, set[str]] = {}
    for each in everybody:
        for queue in each.owners:
            names.setdefault(queue, set()).add(each.name)
    moves = sum(len(line["lost"]) for line in lines if line["event"] == "assignment changed" and line["topic"] == topic)
    print(f"rolling restart, named={is_named}: {sent} sent, {10 * rounds} restarts, {repeats} repeats, {moves} moves")
    assert repeats == 0
    if is_named:
        assert moves == 0
        assert {1} == {len(each) for each in names.values()}


class Watch:
    """When the share of one who stays changed."""

    def __init__(self, member: Member) -> None:
        self.changes: list[float] = []
        self._member = member
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        before = self._member.assigned
        while True:
            await asyncio.sleep(0.05)
            if (now := self._member.assigned) != before:
                self.changes.append(time.monotonic())
                before = now

    async def end(self) -> None:
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    @property
    def most_a_minute(self) -> int:
        return max((sum(at <= other < at + 60 for other in self.changes) for at in self.changes), default=0)


@pytest.mark.timeout(2_400)
@pytest.mark.parametrize(("is_named", "minutes"), [(False, MINUTES), (True, min(MINUTES, 2))], ids=["machine", "named"])
def test_one_of_five_that_is_killed_each_five_seconds_changes_little_and_is_taken_back(
    cluster: Addresses, new_topic: Callable[..., str], nursery: Nursery, tmp_path: Path, is_named: bool, minutes: float
) -> None:
    """The one is a process that SIGKILL ends. Back within its grace it changes nothing; without a name its machine
    stands for it, so that it waits, and has its queues again once it was steady.
    """
    topic, queues = new_topic(queues=20), 20  # four each, or five: all who stay see every change

    def start() -> Application:
        app = {"instance": "flapper", "grace": "20s"} if is_named else {"protect": True}
        return Application(nursery, tmp_path, cluster.name_server, topic=topic, group=group_of(topic), app=app)

    async def scenario() -> tuple[list[Watch], int, float]:
        steady = [Member(cluster, topic, f"m-{number}" if is_named else "", protect=is_named) for number in range(4)]
        flapper = start()

        def is_whole() -> bool:
            return [len(each.owned) for each in steady] == [4, 4, 4, 4]

        await until(is_whole)
        await asyncio.sleep(3)  # until nobody is still about to be moved
        watches = [Watch(each) for each in steady]
        began, kills = time.monotonic(), 0
        while time.monotonic() < began + minutes * 60:
            await asyncio.sleep(KILL_EACH_S * (kills + 1) - (time.monotonic() - began))
            flapper.kill()
            kills += 1
            flapper = start()
        for watch in watches:
            await watch.end()
        back = await seconds_until(is_whole, TAKEN_BACK_S)
        before = len(flapper.so_far())
        async with Producer(name_servers=[cluster.name_server]) as producer:
            for number in range(queues):
                await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", number))
        await until(lambda: len(flapper.so_far()) == before + queues // 5)
        await asyncio.to_thread(flapper.stop)
        await end(steady)
        return watches, kills, back

    watches, kills, back = asyncio.run(scenario())
    most = max(watch.most_a_minute for watch in watches)
    total = max(len(watch.changes) for watch in watches)
    print(
        f"flapping, named={is_named}: {kills} kills in {minutes:g} min, the division changed {total} times, "
        f"{most} times in the worst minute; taken back after {back:.0f} s"
    )
    assert most <= (0 if is_named else limits.CHANGES_MAX)


@pytest.mark.timeout(400)
def test_ten_members_on_64_queues_share_them_within_two_seconds_of_a_leave(
    cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    topic, queues = new_topic(queues=64), 64

    async def scenario() -> list[float]:
        members = [Member(cluster, topic, "") for _ in range(10)]
        await until(are_shared(members, queues))
        taken = []
        for _ in range(5):
            await members.pop(0).leave()
            taken.append(await seconds_until(are_shared(members, queues)))
            await asyncio.sleep(2)
        await end(members)
        return taken

    taken = asyncio.run(scenario())
    print("64 queues shared after a leave of one of ten, nine, eight, seven, six:", [f"{each:.2f} s" for each in taken])
    assert max(taken) <= 2.0
