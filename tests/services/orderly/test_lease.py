"""LeaseLoop: locks taken, renewed and given back, a request a broker, and nothing believed that may be old."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from typing import Any, cast

from framework.core import limits
from framework.errors import BrokerUnreachable
from framework.model.queue import MessageQueue
from framework.services.orderly.lease import LeaseLoop
from tests.services.parts import LoopClock, end, play, play_logged, start, told

A1, A2 = MessageQueue("stock", "broker-a", 1), MessageQueue("stock", "broker-a", 2)
B1 = MessageQueue("stock", "broker-b", 1)


class Brokers:
    """Grants everything but what others hold; each request takes a while."""

    def __init__(self, takes_s: float = 0.01) -> None:
        self.takes_s = takes_s
        self.held_by_others: set[MessageQueue] = set()
        self.down: set[str] = set()
        self.asked: list[tuple[float, tuple[MessageQueue, ...]]] = []
        self.unlocked: list[MessageQueue] = []

    def where(self, queue: MessageQueue) -> str:
        return f"{queue.broker}:10911"

    async def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        assert ("inventory", "me@1") == (group, client_id)
        self.asked.append((now(), tuple(queues)))
        await asyncio.sleep(self.takes_s)
        if queues[0].broker in self.down:
            raise BrokerUnreachable(f"{queues[0].broker}: gone")
        return [queue for queue in queues if queue not in self.held_by_others]

    async def unlock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> None:
        await asyncio.sleep(self.takes_s)
        if queues[0].broker in self.down:
            raise BrokerUnreachable(f"{queues[0].broker}: gone")
        self.unlocked += queues


class Scene:
    """A loop over such brokers, and what it told the group."""

    def __init__(self, brokers: Brokers | None = None) -> None:
        self.brokers = brokers or Brokers()
        self.told: list[tuple[str, MessageQueue]] = []
        self.taken: list[MessageQueue] = []
        self.loop = LeaseLoop(
            "inventory",
            "me@1",
            cast("Any", self.brokers),
            LoopClock(),
            granted=lambda queue: self.told.append(("granted", queue)),
            lost=lambda queue: self.told.append(("lost", queue)),
            taken=self.taken.append,
        )

    async def plays(self, story: Coroutine[Any, Any, None]) -> None:
        running = start(self.loop.run())
        await story
        await end(running)


def now() -> float:
    return asyncio.get_running_loop().time()


def now_ms() -> int:
    return int(now() * 1000)


def test_queues_of_a_broker_are_locked_together_and_brokers_apart() -> None:
    async def main() -> Scene:
        scene = Scene()

        async def story() -> None:
            leases = [scene.loop.claim(queue) for queue in (A2, B1, A1)]
            await asyncio.sleep(1)
            assert all(lease.holds(now_ms()) for lease in leases)

        await scene.plays(story())
        return scene

    scene = play(main)
    assert [(A1, A2), (B1,)] == sorted(queues for _, queues in scene.brokers.asked)
    assert [("granted", A1), ("granted", A2), ("granted", B1)] == sorted(scene.told)


def test_locks_are_renewed_each_ten_seconds() -> None:
    async def main() -> Scene:
        scene = Scene()

        async def story() -> None:
            lease = scene.loop.claim(A1)
            await asyncio.sleep(95)
            assert lease.holds(now_ms())

        await scene.plays(story())
        return scene

    scene = play(main)
    assert 10 == len(scene.brokers.asked)
    assert [("granted", A1)] == scene.told


def test_a_lock_that_another_holds_is_asked_for_each_second_until_it_is_had() -> None:
    async def main() -> Scene:
        scene = Scene()
        scene.brokers.held_by_others.add(A1)

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(5.5)
            assert "another member holds the lock" == scene.loop.waits_because(A1)
            scene.brokers.held_by_others.clear()
            await asyncio.sleep(1.5)
            assert scene.loop.waits_because(A1) is None

        await scene.plays(story())
        return scene

    scene, lines = play_logged(main)
    assert [("granted", A1)] == scene.told
    assert ["queue not locked", "queue locked"] == [line["event"] for line in lines], "said once, not each second"


def test_a_failing_broker_loses_the_lease_when_its_time_is_over_and_not_before() -> None:
    async def main() -> tuple[Scene, float]:
        scene = Scene()
        lost_at = 0.0

        async def story() -> None:
            nonlocal lost_at
            scene.loop.claim(A1)
            await asyncio.sleep(0.5)
            scene.brokers.down.add("broker-a")
            began = scene.brokers.asked[0][0]
            while ("lost", A1) not in scene.told:  # noqa: ASYNC110 - what is waited for is plain state
                await asyncio.sleep(0.1)
            lost_at = now() - began
            scene.brokers.down.clear()
            await asyncio.sleep(2)

        await scene.plays(story())
        return scene, lost_at

    scene, lost_at = play(main)
    assert limits.LEASE_TRUST_MS / 1000 <= lost_at < limits.LEASE_TRUST_MS / 1000 + 0.2
    assert [("granted", A1), ("lost", A1), ("granted", A1)] == scene.told
    assert 17 <= len(scene.brokers.asked) <= 22, "each second since the failed renewal"


def test_one_broker_that_does_not_answer_keeps_no_other_waiting() -> None:
    class Silent(Brokers):
        async def lock(self, group: str, client_id: str, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
            if queues[0].broker == "broker-a":
                await asyncio.sleep(1_000)
            return await super().lock(group, client_id, queues)

    async def main() -> Scene:
        scene = Scene(Silent())

        async def story() -> None:
            scene.loop.claim(A1)
            lease = scene.loop.claim(B1)
            await asyncio.sleep(60)
            assert lease.holds(now_ms())

        await scene.plays(story())
        return scene

    assert [("granted", B1)] == play(main).told


def test_a_lost_connection_leaves_no_lease_of_that_broker_and_asks_again() -> None:
    async def main() -> Scene:
        scene = Scene()

        async def story() -> None:
            first, other = scene.loop.claim(A1), scene.loop.claim(B1)
            await asyncio.sleep(1)
            scene.loop.connection_lost("broker-a:10911")
            assert not first.holds(now_ms())
            assert other.holds(now_ms())
            await asyncio.sleep(1)
            assert first.holds(now_ms())

        await scene.plays(story())
        return scene

    assert [("lost", A1), ("granted", A1)] == play(main).told[2:]


def test_an_answer_that_was_on_its_way_when_the_connection_broke_is_not_believed() -> None:
    async def main() -> Scene:
        scene = Scene(Brokers(takes_s=0.5))

        async def story() -> None:
            lease = scene.loop.claim(A1)
            await asyncio.sleep(0.2)
            scene.loop.connection_lost("broker-a:10911")
            await asyncio.sleep(0.4)
            assert not lease.is_granted
            await asyncio.sleep(0.5)
            assert lease.is_granted

        await scene.plays(story())
        return scene

    scene = play(main)
    assert 2 == len(scene.brokers.asked)
    assert [("granted", A1)] == scene.told


def test_a_queue_that_is_released_is_unlocked_after_the_request_under_way() -> None:
    """A broker may take two requests in either order; an unlock that came first would leave a lock to nobody."""

    async def main() -> Scene:
        scene = Scene(Brokers(takes_s=0.5))

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(0.2)
            await scene.loop.release(A1)
            assert 1.0 <= now() - scene.brokers.asked[0][0] < 1.1
            await asyncio.sleep(30)

        await scene.plays(story())
        return scene

    scene = play(main)
    assert [A1] == scene.brokers.unlocked
    assert 1 == len(scene.brokers.asked), "and is renewed no more"


def test_a_lock_may_be_left_to_run_out() -> None:
    async def main() -> Scene:
        scene = Scene()

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(1)
            await scene.loop.release(A1, unlock=False)

        await scene.plays(story())
        return scene

    assert [] == play(main).brokers.unlocked


def test_what_another_member_holds_is_not_unlocked() -> None:
    async def main() -> Scene:
        scene = Scene()
        scene.brokers.held_by_others.add(A1)

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(1)
            await scene.loop.release(A1)

        await scene.plays(story())
        return scene

    assert [] == play(main).brokers.unlocked


def test_an_unlock_that_fails_is_said_and_stops_nothing() -> None:
    async def main() -> None:
        scene = Scene()

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(1)
            scene.brokers.down.add("broker-a")
            await scene.loop.release(A1)
            assert scene.loop.of(A1) is None

        await scene.plays(story())

    _, lines = play_logged(main)
    assert ("unlock failed", "broker-a: gone") in told(lines, "reason")


def test_a_loop_that_ends_during_a_request_keeps_nobody_waiting() -> None:
    async def main() -> None:
        scene = Scene(Brokers(takes_s=5))

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(1)

        await scene.plays(story())
        scene.brokers.takes_s = 0.01
        await scene.loop.release(A1)
        assert [A1] == scene.brokers.unlocked

    play(main)


def test_its_repr_is_its_instrument_panel() -> None:
    async def main() -> str:
        scene = Scene()
        scene.loop.claim(A1)
        return repr(scene.loop)

    assert "<LeaseLoop inventory: 0 of 1 held>" == play(main)


def test_a_lock_that_another_member_has_is_told_whether_or_not_it_was_ours() -> None:
    async def main() -> Scene:
        scene = Scene()

        async def story() -> None:
            scene.loop.claim(A1)
            await asyncio.sleep(1)
            assert [] == scene.taken
            scene.brokers.held_by_others = {A1, B1}
            scene.loop.claim(B1)
            await asyncio.sleep(limits.LEASE_RENEW_MS / 1000)

        await scene.plays(story())
        return scene

    scene = play(main)
    assert {A1, B1} == set(scene.taken)
    assert ("lost", A1) in scene.told
