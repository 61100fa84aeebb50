"""RetrySender: the copy is durable on the broker, and only then has the message ended here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from framework.core import limits
from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.retry import SendBack
from framework.core.window import Window
from framework.errors import BrokerUnreachable, ConnectionLost, FrameworkError, Refused, RequestTimedOut
from framework.model.death_reason import DeathReason
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.services.outcome.retry_sender import Parked, RetrySender
from tests.services.parts import PLENTY, EvenChance, messages_from, play, play_logged, told
from tests.simulation.left_out import left_out

RETRY = SendBack(3, "retry", "no such order")


class Brokers:
    """Takes a second for each copy; fails as often as told first."""

    def __init__(self, *errors: Exception, fails_always: bool = False, other_road: bool = False) -> None:
        self.other_road = other_road
        """Whether some broker takes the copy as a normal message."""
        self.sent_again: list[tuple[int, int, int, bool]] = []
        """Offset, level, maximum, and whether the message's own broker was spared."""
        self.durable: list[tuple[int, int, int]] = []
        """Offset, level and maximum of each copy that is stored."""
        self.said: list[DeathReason | None] = []
        """Of dead letters: what they were to carry."""
        self.tries = 0
        self.most = 0
        self._now = 0
        self._errors = list(errors)
        self._fails_always = fails_always

    def next_fails(self) -> None:
        self._errors.append(GONE)

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

    async def dead_letter(self, message: Message, group: str, why: DeathReason | None = None) -> None:
        self.said.append(why)
        await self.send_back(message, group, delay_level=-1, max_retries=message.attempt)

    async def send_again(
        self, message: Message, group: str, *, delay_level: int, max_retries: int, spares_own: bool,
        why: DeathReason | None = None,
    ) -> str:  # fmt: skip
        assert "billing" == group
        if why is not None:
            self.said.append(why)
        await asyncio.sleep(1)
        if not self.other_road:
            raise Refused(16, "the topic is read-only", request="send", peer="broker-b")
        self.sent_again.append((message.queue_offset, delay_level, max_retries, spares_own))
        self.durable.append((message.queue_offset, delay_level, max_retries))
        return "broker-b"


class Fixture:
    def __init__(self, brokers: Brokers, count: int = 1) -> None:
        self.brokers = brokers
        self.window = Window(0, Budget(PLENTY))
        chunk = self.window.admit(messages_from(0, count), 0, count, 10)
        assert chunk is not None
        self.chunk = chunk
        self.ended: list[tuple[int, float]] = []
        """Offset, and when it was settled."""
        self.given_up: list[int] = []
        self.tree = TaskTree()
        self.retry_sender = RetrySender("billing", 16, brokers, self.tree, EvenChance())

    def put(self, index: int, decision: SendBack = RETRY) -> None:
        self.retry_sender.put(self.chunk, index, decision, self._settled, lambda: self.given_up.append(index))

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

    it.retry_sender.put(it.chunk, 0, RETRY, settled)
    await asyncio.sleep(5)
    return durable_then, [offset for offset, _ in it.ended]


def test_the_copy_is_durable_before_the_message_has_ended() -> None:
    assert ([(0, 3, 16)], [0]) == play(copy_and_settle)


@pytest.fixture
def careless() -> Iterator[None]:
    with left_out("the copy is durable before the source is settled"):
        yield


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
        assert 50 == it.retry_sender.pending
        await asyncio.sleep(60)

        assert limits.RETRY_SENDERS == it.brokers.most
        assert list(range(50)) == sorted(offset for offset, _ in it.ended)
        assert 50 == it.window.settle()
        assert (0, 0) == (it.retry_sender.pending, len(it.tree))

    play(story, seed=seed)


REFUSED = Refused(16, "the broker is closed for writing", request="send back", peer="127.0.0.1:1")
GONE = BrokerUnreachable("nobody listens")
LOST = RequestTimedOut("no answer")


@pytest.mark.parametrize(("error", "spares_own"), [(REFUSED, False), (GONE, True)], ids=["refused", "unreachable"])
@pytest.mark.parametrize("level", [0, 6, -1])
def test_what_cannot_be_sent_back_is_sent_as_a_message(error: FrameworkError, spares_own: bool, level: int) -> None:
    async def story() -> list[tuple[int, float]]:
        it = Fixture(Brokers(error, error, other_road=True), 2)
        it.put(0, SendBack(level, "retry", ""))
        it.put(1, SendBack(level, "retry", ""))
        await asyncio.sleep(5)
        assert [(0, level, 16, spares_own), (1, level, 16, spares_own)] == it.brokers.sent_again
        assert (2, 0, 0) == (it.window.settle(), it.retry_sender.pending, it.retry_sender.stuck)
        it.chunk = it.window.admit(messages_from(2, 1), 2, 3, 10) or it.chunk
        it.put(0)
        await asyncio.sleep(5)
        return it.ended

    ended, lines = play_logged(story)
    assert [(0, 2.0), (1, 2.0), (2, 6.0)] == [(offset, round(when, 2)) for offset, when in ended]
    assert [
        ("send-back failed", "broker-a", "broker-b"),
        ("send-back recovered", "broker-a", None),
    ] == [(line["event"], line["broker"], line.get("to")) for line in lines], "said once a change"


async def copy_by_the_other_road() -> tuple[list[tuple[int, int, int]], list[int]]:
    it = Fixture(Brokers(REFUSED, other_road=True))
    durable_then: list[tuple[int, int, int]] = []

    def settled(job: Parked) -> None:
        durable_then.extend(it.brokers.durable)
        it._settled(job)

    it.retry_sender.put(it.chunk, 0, RETRY, settled)
    await asyncio.sleep(5)
    return durable_then, [offset for offset, _ in it.ended]


def test_by_the_other_road_too_the_copy_comes_first() -> None:
    assert ([(0, 3, 16)], [0]) == play(copy_by_the_other_road)


@pytest.mark.usefixtures("careless")
def test_without_its_safeguard_the_other_road_leaves_no_copy_either() -> None:
    assert ([], [0]) == play(copy_by_the_other_road)


def test_a_lost_answer_is_asked_for_once_more_before_the_other_road_is_taken() -> None:
    """The copy may be there; a broker in the box knows what it was asked before."""

    async def story() -> None:
        it = Fixture(Brokers(LOST, other_road=True))
        it.put(0)
        await asyncio.sleep(10)
        assert (2, [], [0]) == (it.brokers.tries, it.brokers.sent_again, [offset for offset, _ in it.ended])

        it = Fixture(Brokers(LOST, ConnectionLost("broken off"), other_road=True))
        it.put(0)
        await asyncio.sleep(10)
        assert (2, [(0, 3, 16, True)]) == (it.brokers.tries, it.brokers.sent_again)
        assert [0] == [offset for offset, _ in it.ended]

    play(story)


@pytest.mark.parametrize("other_road", [False, True])
def test_a_dead_letter_takes_its_reason_along_and_is_durable_before_it_ends(*, other_road: bool) -> None:
    why = DeathReason("no such order", "", 1, "me")
    durable_then: list[int] = []

    async def story() -> None:
        it = Fixture(Brokers(*([REFUSED] * other_road), other_road=other_road))

        def settled(job: Parked) -> None:
            durable_then.append(len(it.brokers.durable))
            it._settled(job)

        it.retry_sender.put(it.chunk, 0, SendBack(-1, "dead_lettered", "no such order"), settled, why=why)
        await asyncio.sleep(5)
        assert [why] * (1 + other_road) == it.brokers.said
        assert [0] == [offset for offset, _ in it.ended]

    play(story)
    assert [1] == durable_then


def test_a_surprise_parks_the_message_as_any_failure_does() -> None:
    """A mistake of a plugin's codec, say, or ours: the message has no copy, so it is neither settled nor forgotten."""

    async def story() -> list[float]:
        it = Fixture(Brokers(ValueError("a surprise")), 2)
        it.put(0)
        await asyncio.sleep(1.2)
        assert (1, "cannot send back: a surprise") == (it.retry_sender.stuck, it.retry_sender.stuck_because(it.window))
        assert 0 == it.window.settle(), "no commit passes it"
        await asyncio.sleep(30)
        assert (0, [(0, 3, 16)]) == (it.retry_sender.pending, it.brokers.durable)
        return [when for _, when in it.ended]

    ended, lines = play_logged(story)
    assert 1 == len(ended)
    assert "settling failed" in [line["event"] for line in lines]


def test_what_can_be_sent_neither_way_is_parked_and_only_its_sending_is_tried_again() -> None:
    async def story() -> list[float]:
        it = Fixture(Brokers(GONE, REFUSED), 2)
        it.put(0)
        await asyncio.sleep(2.2)
        assert (1, 1) == (it.retry_sender.pending, it.retry_sender.stuck)
        assert 0 == it.window.settle(), "no commit passes it"
        assert "<RetrySender billing: 0 sending, 0 waiting, 1 parked>" == repr(it.retry_sender)
        assert it.retry_sender.stuck_because(it.window) == (
            "cannot send back: send refused by broker-b: code 16, the topic is read-only"
        )
        await asyncio.sleep(30)
        assert (3, 0, [(0, 3, 16)]) == (it.brokers.tries, it.retry_sender.pending, it.brokers.durable)
        assert (0, None) == (it.retry_sender.stuck, it.retry_sender.stuck_because(it.window))
        return [when for _, when in it.ended]

    ended, lines = play_logged(story)
    # Two seconds each round that fails, one that does not; 3.75 s and 7.5 s between: half certain, half of it drawn.
    assert [16.25] == [round(when, 2) for when in ended]
    assert [("message parked", "orders@broker-a:3"), ("parked messages sent", "orders@broker-a:3")] == told(
        lines, "queue"
    )


def test_a_queue_is_said_to_be_stuck_once_and_free_once() -> None:
    async def story() -> None:
        it = Fixture(Brokers(*[REFUSED] * 3), 3)
        for index in range(3):
            it.put(index)
        await asyncio.sleep(3)
        assert 3 == it.retry_sender.stuck
        await asyncio.sleep(10)
        assert (0, 3) == (it.retry_sender.stuck, it.window.settle())

    _, lines = play_logged(story)
    assert ["message parked", "parked messages sent"] == [line["event"] for line in lines]


def test_what_is_parked_is_tried_at_once_when_a_broker_is_there_again() -> None:
    async def story() -> None:
        it = Fixture(Brokers(GONE))
        it.put(0)
        await asyncio.sleep(3)
        it.retry_sender.hurry()
        await asyncio.sleep(1.1)
        assert [0] == [offset for offset, _ in it.ended]
        await asyncio.sleep(30)
        assert 2 == it.brokers.tries

    play(story)


def test_a_try_that_was_under_way_when_the_broker_came_back_is_repeated_at_once() -> None:
    """It fails of what was before; its pause would be as long as the outage was."""

    async def story() -> list[int]:
        it = Fixture(Brokers(GONE))
        it.put(0)
        await asyncio.sleep(0.5)
        assert (1, []) == (it.brokers.tries, it.ended)
        it.retry_sender.hurry()
        await asyncio.sleep(3)
        return [offset for offset, _ in it.ended]

    assert [0] == play(story)


def test_tries_ahead_of_their_time_put_the_next_one_off_no_further() -> None:
    """Else brokers that come and go a few times in half a minute would make a message wait for five more."""

    async def story() -> list[int]:
        it = Fixture(Brokers(*[GONE] * 6))
        it.put(0)
        for _ in range(5):
            await asyncio.sleep(2.5)
            it.retry_sender.hurry()
        await asyncio.sleep(20)
        return [offset for offset, _ in it.ended]

    assert [0] == play(story)


def test_what_is_parked_of_a_moved_queue_is_forgotten_when_another_one_is_left() -> None:
    async def story() -> None:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(3)
        it.window.close()
        it.retry_sender.hurry(Window.closed())
        assert ([0], 0, 0) == (it.given_up, it.retry_sender.pending, len(it.tree))

    play(story)


def test_parked_messages_leave_the_settlers_to_others() -> None:
    async def story() -> list[int]:
        it = Fixture(Brokers(*[GONE] * limits.RETRY_SENDERS), 20)
        for index in range(20):
            it.put(index)
        await asyncio.sleep(4.2)
        return sorted(offset for offset, _ in it.ended)

    first: list[int] = play(story)
    assert set(range(limits.RETRY_SENDERS, 20)) <= set(first)


def test_a_parked_message_whose_queue_is_left_is_tried_once_more_and_given_up() -> None:
    """The next owner gets it again, and would otherwise have two copies."""

    async def story() -> None:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(3)
        it.window.stop_handing_out()
        it.retry_sender.hurry(it.window)
        tries = it.brokers.tries
        await asyncio.sleep(2.1)
        assert (tries + 1, [0]) == (it.brokers.tries, it.given_up)
        assert ([], 0, 0) == (it.ended, it.retry_sender.pending, it.retry_sender.pending_for(it.window))
        assert (0, 0) == (it.retry_sender.stuck, len(it.tree))

    _, lines = play_logged(story)
    assert ["message parked", "parked messages given up"] == [line["event"] for line in lines]


def test_a_queue_of_which_some_was_sent_and_some_was_given_up_is_not_said_to_be_sent() -> None:
    async def story() -> None:
        it = Fixture(Brokers(GONE, GONE), 2)
        it.put(0)
        it.put(1)
        await asyncio.sleep(3)
        assert 2 == it.retry_sender.stuck
        it.brokers.next_fails()
        it.window.stop_handing_out()
        it.retry_sender.hurry(it.window)
        await asyncio.sleep(5)
        assert (1, 1, 0) == (len(it.ended), len(it.given_up), it.retry_sender.stuck)

    _, lines = play_logged(story)
    assert [("parked messages given up", 1)] == told(lines, "messages")


def test_a_parked_message_whose_queue_is_gone_is_given_up() -> None:
    async def story() -> None:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(3)
        it.window.close()
        tries = it.brokers.tries
        await asyncio.sleep(400)
        assert (tries, [0]) == (it.brokers.tries, it.given_up)
        assert ([], 0, 0) == (it.ended, it.retry_sender.pending, len(it.tree))

    play(story)


def test_standing_back_grows_from_five_seconds_to_five_minutes() -> None:
    async def story() -> int:
        it = Fixture(Brokers(fails_always=True))
        it.put(0)
        await asyncio.sleep(3_600)
        it.window.close()
        return it.brokers.tries

    tries, lines = play_logged(story)
    # 3.75, 7.5, 15, 30, 60, 120 and then 225 s apart, two seconds each.
    assert 20 <= tries <= 22
    assert ["message parked"] == [line["event"] for line in lines], "named once"


def test_the_chunk_of_a_job_is_the_one_it_was_put_with() -> None:
    async def story() -> Chunk:
        it = Fixture(Brokers(), 3)
        seen: list[Parked] = []
        it.retry_sender.put(it.chunk, 2, RETRY, seen.append)
        await asyncio.sleep(2)
        (job,) = seen
        assert (2, RETRY, it.chunk.messages[2]) == (job.index, job.decision, job.message)
        assert job.chunk is it.chunk
        return job.chunk

    assert isinstance(play(story), Chunk)
