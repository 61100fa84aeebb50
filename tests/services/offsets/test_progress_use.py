"""When a store that nobody has named is put to use, and what that costs until then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from framework.core import limits
from framework.errors import BrokerUnreachable
from framework.model.queue import MessageQueue
from framework.services.offsets.progress_use import StoreUse
from tests.services.offsets.progress_scene import END, LOW, Broker, Owner, stuck_at_low
from tests.services.parts import QUEUE, play, play_logged

OTHERS = [MessageQueue("orders", "broker-a", number) for number in range(64)]


@dataclass
class NameServer:
    """Knows the topic or not, and answers after a while."""

    knows: bool = False
    takes_s: float = 0.01
    refusal: BrokerUnreachable | None = None
    asked: int = 0
    files: list[MessageQueue] = field(default_factory=list)
    changes: int = 1

    async def route(self) -> bool:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if self.refusal is not None:
            raise self.refusal
        return self.knows

    async def has_file(self, queue: MessageQueue) -> bool:
        return queue in self.files

    @property
    def use(self) -> StoreUse:
        return StoreUse("billing", self.route, self.has_file, lambda: self.changes, lambda: ("topic", ""))


def test_all_queues_of_one_change_of_the_members_are_one_question() -> None:
    async def story() -> None:
        names = NameServer()
        use = names.use
        assert [False] * 64 == await asyncio.gather(*map(use.looked, OTHERS))
        assert not await use.looked(QUEUE)
        assert 1 == names.asked
        names.changes, names.knows = 2, True
        assert [True] * 64 == await asyncio.gather(*map(use.looked, OTHERS))
        assert await use.looked(QUEUE)
        assert 2 == names.asked

    play(story)


@pytest.mark.parametrize("takes_s", [0.01, 3600.0])
def test_a_question_that_nobody_answered_is_asked_again_when_the_members_change_and_not_for_each_queue(
    takes_s: float,
) -> None:
    """Each of a thousand queues would wait for a second, one after the other."""

    async def story() -> None:
        names = NameServer(takes_s=takes_s, refusal=BrokerUnreachable("no answer"))
        use = names.use
        assert [False] * 64 == await asyncio.gather(*map(use.looked, OTHERS))
        assert (1, True) == (names.asked, use.is_in_doubt)
        names.changes, names.knows, names.refusal, names.takes_s = 2, True, None, 0.01
        assert [True] * 64 == await asyncio.gather(*map(use.looked, OTHERS))
        assert (2, False) == (names.asked, use.is_in_doubt)

    play(story)


def test_a_doubt_is_over_when_somebody_has_said_that_there_is_no_record() -> None:
    async def story() -> None:
        names = NameServer(refusal=BrokerUnreachable("no answer"))
        use = names.use
        await use.looked(QUEUE)
        names.changes, names.refusal = 2, None
        assert (False, False) == (await use.looked(QUEUE), use.is_in_doubt)

    play(story)


@pytest.mark.parametrize("takes_s", [0.01, 3600.0])
def test_a_name_server_that_says_nothing_holds_no_queue_up(takes_s: float) -> None:
    """Nobody knows then whether there are records: so an owner that is moved asks before it goes on."""

    async def story() -> None:
        names = NameServer(takes_s=takes_s, refusal=BrokerUnreachable("no answer"))
        broker = Broker(offset=LOW)
        await stuck_at_low(broker)
        owner = Owner(broker, use=names.use)
        await owner.progress.handed_over()
        await owner.begin()
        assert asyncio.get_running_loop().time() <= limits.LOOK_SECONDS + 0.1
        assert () == owner.passed

        owner.goes_on_at(5)
        assert not await owner.progress.start_over(owner.window)
        names.takes_s, names.refusal, names.knows = 0.01, None, True
        assert await owner.progress.start_over(owner.window)
        broker.offset = LOW
        assert () == (await Owner(broker).begin()).passed, "what was to be handled anew is not skipped"

    play(story)


@pytest.mark.parametrize("takes_s", [0.01, 3600.0])
def test_a_file_of_this_machine_is_found_whatever_name_servers_say(takes_s: float) -> None:
    """A busy machine's name server answered late, once: everything above the stuck message came again."""

    async def story() -> None:
        names = NameServer(takes_s=takes_s, refusal=BrokerUnreachable("no answer"), files=[QUEUE])
        use = names.use
        assert await use.looked(QUEUE)
        assert asyncio.get_running_loop().time() <= limits.LOOK_SECONDS + 0.1

    play(story)


def test_an_answer_that_comes_in_the_turn_in_which_the_time_is_over_counts() -> None:
    """As after a second for which the process stood still: answer and time-out wait side by side."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()
        loop.call_at(loop.time() + limits.LOOK_SECONDS, lambda: answer.set_result(True))

        async def route() -> bool:
            return await answer

        async def no_file(queue: MessageQueue) -> bool:
            return False

        use = StoreUse("billing", route, no_file, lambda: 1, lambda: ("topic", ""))
        assert await use.looked(QUEUE)

    play(story, policy="fifo")


def test_a_queue_that_was_cancelled_while_it_asked_leaves_the_question_to_others() -> None:
    async def story() -> None:
        names = NameServer(knows=True)
        use = names.use
        first = asyncio.get_running_loop().create_task(use.looked(QUEUE))
        await asyncio.sleep(0.005)
        first.cancel()
        assert await use.looked(OTHERS[0])

    play(story)


def test_only_what_waits_for_two_seconds_is_kept() -> None:
    async def story() -> None:
        broker = Broker(offset=0)
        broker.append(*range(100))
        owner = await Owner(broker, use=NameServer().use).begin()
        owner.pull(100)
        for at in range(0, 60, 20):  # a gap at each look, and each time another one
            owner.end(*range(at), *range(at + 1, at + 20))
            await owner.progress.flush(owner.window, owner.bell)
        assert not broker.places
        assert 0 == broker.offset

        for _ in range(2):
            owner.end(*range(61, 100))
            await owner.progress.flush(owner.window, owner.bell)
        await owner.progress.flush(owner.window, owner.bell)
        assert ((41, 60), (61, 100)) == (await Owner(broker).begin()).passed

    _, lines = play_logged(story)
    (line,) = [line for line in lines if line["event"] == "progress enabled"]
    assert ("info", "topic") == (line["log_level"], line["store"])


def test_what_ended_two_seconds_ago_is_kept_though_another_message_is_the_lowest_by_now() -> None:
    """Long handlers side by side: each low end is a new one, and what is above them waits all the same."""

    async def story() -> None:
        broker = Broker(offset=0)
        broker.append(*range(30))
        owner = await Owner(broker, use=NameServer().use).begin()
        owner.pull(30)
        owner.end(20)
        for ended in range(3):
            await owner.progress.flush(owner.window, owner.bell)
            owner.end(ended)
        assert 2 == broker.offset
        assert ((20, 21),) == (await Owner(broker).begin()).passed

    play(story)


def test_a_queue_without_a_gap_is_left_without_a_word() -> None:
    async def story() -> None:
        broker = Broker(offset=LOW)
        broker.append(*range(END))
        owner = await Owner(broker, use=NameServer().use).begin()
        owner.pull(END)
        owner.end(LOW)
        await owner.progress.release(owner.window)
        assert not broker.places

    play(story)


def test_an_owner_of_before_takes_over_nothing_that_it_has_not_seen() -> None:
    """It has begun without the records; when it writes its own, those of before count no more."""

    async def story() -> None:
        broker = Broker()
        await stuck_at_low(broker)
        owner = await Owner(broker, use=NameServer().use).begin()
        owner.pull(END)
        owner.end(LOW + 5)
        for _ in range(3):
            await owner.progress.flush(owner.window, owner.bell)
        assert ((LOW + 5, LOW + 6),) == (await Owner(broker).begin()).passed

    play(story)
