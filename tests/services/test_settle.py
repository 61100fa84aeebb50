"""Settler: the copy is durable on the broker, and only then has the message ended here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from framework import marks
from framework.core import limits
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.retry import SendBack
from framework.core.window import Window
from framework.errors import BrokerUnreachable, FrameworkError, Refused
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.services.settle import Parked, Settler
from tests.services.parts import PLENTY, EvenChance, Line, messages_from, play, play_logged, told

RETRY = SendBack(3, "retry", "no such order")


class Brokers:
    """Takes a second for each copy; fails as often as told first."""

    def __init__(self, *errors: FrameworkError, fails_always: bool = False) -> None:
        self.durable: list[tuple[int, int, int]] = []
        """Offset, level and maximum of each copy that is stored."""
        self.tries = 0
        self.most = 0
        self._now = 0
        self._errors = list(errors)
        self._fails_always = fails_always

    async def send_back(self, message: Message, group: str, *, delay_level: int, max_retries: int) -> None:
        assert "billing" == group
        self.tries += 1
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(1)
            if self._fails_always:
                raise BrokerUnreachable("nobody answers")
            if self._errors:
                raise self._errors.pop(0)
        finally:
            self._now -= 1
        self.durable.append((message.queue_offset, delay_level, max_retries))


class Fixture:
    def __init__(self, brokers: Brokers, count: int = 1) -> None:
        self.brokers = brokers
        self.window = Window(0, Budget(PLENTY))
        chunk = self.window.admit(messages_from(0, count), 0, count, 10)
        assert chunk is not None
        self.chunk = chunk
        self.ended: list[tuple[int, float]] = []
        """Offset, and when it was settled."""
        self.tree = TaskTree()
        self.settler = Settler("billing", 16, brokers, self.tree, EvenChance())

    def put(self, index: int, decision: SendBack = RETRY) -> None:
        self.settler.put(self.chunk, index, decision, self._settled)

    def _settled(self, job: Parked) -> None:
        self.ended.append((job.message.queue_offset, asyncio.get_running_loop().time()))
        assert job.chunk.finish(job.index)


async def copy_and_settle() -> tuple[list[tuple[int, int, int]], list[int]]:
    """What was durable when the message ended, and what had ended in the end."""
    it = Fixture(Brokers())
    durable_then: list[tuple[int, int, int]] = []

    def settled(job: Parked) -> None:
        durable_then.extend(it.brokers.durable)
        it._settled(job)

    it.settler.put(it.chunk, 0, RETRY, settled)
    await asyncio.sleep(5)
    return durable_then, [offset for offset, _ in it.ended]


def test_the_copy_is_durable_before_the_message_has_ended() -> None:
    assert ([(0, 3, 16)], [0]) == play(copy_and_settle)


@pytest.fixture
def careless() -> Iterator[None]:
    marks.install(holds=lambda name: name != "the copy is durable before the source is settled")
    yield
    marks.install()


@pytest.mark.usefixtures("careless")
def test_without_its_safeguard_a_message_ends_without_a_copy() -> None:
    """The mutant that a simulation must notice: a crash in between loses the message."""
    assert ([], [0]) == play(copy_and_settle)


def test_levels_are_sent_as_decided() -> None:
    async def story() -> list[tuple[int, int, int]]:
        it = Fixture(Brokers(), 3)
        it.put(0, SendBack(0, "retry", ""))
        it.put(1, SendBack(6, "retry", ""))
        it.put(2, SendBack(-1, "dead_lettered", "poison"))
        await asyncio.sleep(5)
        return sorted(it.brokers.durable)

    assert [(0, 0, 16), (1, 6, 16), (2, -1, 16)] == play(story)


@pytest.mark.parametrize("seed", range(3))
def test_so_many_are_under_way_at_once_and_no_more(seed: int) -> None:
    async def story() -> None:
        it = Fixture(Brokers(), 50)
        for index in range(50):
            it.put(index)
        assert 50 == it.settler.pending
        await asyncio.sleep(60)

        assert limits.SETTLERS == it.brokers.most
        assert list(range(50)) == sorted(offset for offset, _ in it.ended)
        assert 50 == it.window.settle()
        assert (0, 0) == (it.settler.pending, len(it.tree))

    play(story, seed=seed)


def test_a_message_whose_copy_fails_is_parked_and_only_its_sending_is_tried_again() -> None:
    async def story() -> list[float]:
        refusal = Refused(1, "flush timeout", request="send back", peer="127.0.0.1:1")
        it = Fixture(Brokers(BrokerUnreachable("no answer"), refusal), 2)
        it.put(0)
        await asyncio.sleep(1.2)
        assert 1 == it.settler.pending
        assert 0 == it.window.settle(), "no commit passes it"
        assert "<Settler billing: 0 sending, 0 waiting, 1 parked>" == repr(it.settler)
        await asyncio.sleep(30)
        assert (3, 0, [(0, 3, 16)]) == (it.brokers.tries, it.settler.pending, it.brokers.durable)
        return [when for _, when in it.ended]

    ended, lines = play_logged(story)
    # A second each try; 0.75 s and 1.5 s between: half certain, half of the rest drawn.
    assert [5.25] == [round(when, 2) for when in ended]
    assert [
        ("message parked", "billing", "orders@broker-a:3", 0),
        ("message unparked", "billing", "orders@broker-a:3", 0),
    ] == told(lines, "group", "queue", "offset")
    assert [("message parked", "no answer")] == told(lines, "reason")


def test_parked_messages_leave_the_settlers_to_others() -> None:
    async def story() -> list[int]:
        it = Fixture(Brokers(*[BrokerUnreachable("no answer")] * limits.SETTLERS), 20)
        for index in range(20):
            it.put(index)
        await asyncio.sleep(3.2)
        return sorted(offset for offset, _ in it.ended)

    first: list[int] = play(story)
    assert set(range(limits.SETTLERS, 20)) <= set(first)


def test_a_parked_message_whose_queue_is_gone_is_given_up() -> None:
    """The next owner gets it again, and would otherwise have two copies."""

    async def story() -> None:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(2)
        it.window.close()
        tries = it.brokers.tries
        await asyncio.sleep(200)
        assert tries >= it.brokers.tries - 1
        assert ([], 0, 0) == (it.ended, it.settler.pending, len(it.tree))

    play(story)


def test_standing_back_grows_to_its_bound() -> None:
    async def story() -> tuple[int, list[Line]]:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(600)
        it.window.close()
        return it.brokers.tries, []

    (tries, _), lines = play_logged(story)
    # 0.75, 1.5, 3, 6, 12 and then 22.5 s apart, a second each.
    assert 29 <= tries <= 31
    assert ["message parked"] == [line["event"] for line in lines], "named once"


def test_the_chunk_of_a_job_is_the_one_it_was_put_with() -> None:
    async def story() -> Chunk:
        it = Fixture(Brokers(), 3)
        seen: list[Parked] = []
        it.settler.put(it.chunk, 2, RETRY, seen.append)
        await asyncio.sleep(2)
        (job,) = seen
        assert (2, RETRY, it.chunk.messages[2]) == (job.index, job.decision, job.message)
        assert job.chunk is it.chunk
        return job.chunk

    assert isinstance(play(story), Chunk)
