"""`check_allocation` and its like find each broken law, and name it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.broker.server import Broker
from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.client.producer import Producer
from framework.errors import StrategyFault, Superseded
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.hooks.builtin.dedup.once_memory import MemoryStore
from framework.hooks.builtin.dedup.once_sqlite import SqliteStore
from framework.hooks.builtin.progress.progress_broker import BrokerStore
from framework.hooks.builtin.progress.progress_local import LocalStore
from framework.hooks.builtin.progress.progress_topic import TopicStore
from framework.model.contracts import AllocationStrategy, DedupStore, KeepsProgress, Kept, ProgressMeans, ProgressStore
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.runtime.group import progressing
from framework.testing.laws import check_allocation, check_dedup, check_progress, progress_laws

Queues = Sequence[MessageQueue]


class Broken:
    name = "broken"

    def __init__(self, allocate: Callable[[str, Sequence[str], Queues], list[MessageQueue]]) -> None:
        self._allocate = allocate

    def allocate(self, member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
        return self._allocate(member, members, queues)


class Forgetful:
    """Answers another member's share each second time."""

    name = "forgetful"

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int, int], int] = {}

    def allocate(self, member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
        case = (member, len(members), len(queues))
        self._asked[case] = self._asked.get(case, 0) + 1
        if member not in members:
            return []
        at = (members.index(member) + self._asked[case] - 1) % len(members)
        return list(queues[at :: len(members)])


class Listening:
    """Divides by the order in which it first heard of members, as no broker promises one."""

    name = "listening"

    def allocate(self, member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
        return list(queues[members.index(member) :: len(members)]) if member in members else list(queues[:1])


def first_two(member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
    return list(queues) if member in members[:2] else []


def without_the_last(member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
    return Circle().allocate(member, members, queues[:-1])


def all_to_one(member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
    return list(queues) if member == members[0] else []


@pytest.mark.parametrize("strategy", [Averaging(), Circle()])
def test_good_strategies_pass(strategy: AllocationStrategy) -> None:
    check_allocation(strategy, within=1)


@pytest.mark.parametrize(
    ("strategy", "law"),
    [
        (Broken(first_two),
        "strategy 'broken', 2 members, 1 queues: no overlap: orders@broker-a:0 has more than one owner"),
        (Broken(without_the_last), "strategy 'broken', 1 members, 1 queues: cover: orders@broker-a:0 has no owner"),
        (Broken(all_to_one), "strategy 'broken', 2 members, 2 queues: balance: shares of \\[0, 2\\]"),
        (Forgetful(),
        "strategy 'forgetful', 2 members, 1 queues: determinism: .* got orders@broker-a:0, and then nothing"),
        (Listening(),
        "strategy 'listening', 1 members, 1 queues: strangers: a member that is not on the list was given"),
        (object(), "has no name or no allocate"),
    ],
)  # fmt: skip
def test_a_broken_law_is_named_with_its_case(strategy: AllocationStrategy, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_allocation(strategy, within=1)


def test_an_answer_that_depends_on_when_it_was_asked_is_found_in_other_orders_too() -> None:
    """Three times the same, and then not: determinism alone would pass it."""
    asked = 0

    def changing(member: str, members: Sequence[str], queues: Queues) -> list[MessageQueue]:
        nonlocal asked
        asked += len(queues)
        return list(queues) if asked != 6 and member in members else []

    with pytest.raises(AssertionError, match=r"permutation: .* got orders@broker-a:0, and nothing in another order"):
        check_allocation(
            Broken(changing), members=["one"], queues=[MessageQueue("orders", "broker-a", 0)], covers=False
        )


def test_a_queue_that_was_not_offered_is_found_by_the_framework_itself() -> None:
    foreign = MessageQueue("orders", "nowhere", 7)

    with pytest.raises(StrategyFault, match="named orders@nowhere:7"):
        check_allocation(Broken(lambda *_: [foreign]))


def test_cover_may_be_left_out() -> None:
    check_allocation(Broken(without_the_last), covers=False)


@pytest.mark.parametrize(("store", "survives"), [(MemoryStore(), False), (SqliteStore(), True)])
def test_both_stores_of_once_keep_the_laws(store: DedupStore, survives: bool, tmp_path: Path) -> None:
    check_dedup(store, folder=str(tmp_path), survives=survives)


class Remembers:
    """A store with one thing wrong."""

    name = "mine"

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong
        self.shared: dict[str, int] = {}

    def open(self, means: Any) -> Opened:
        return Opened(self, means)


class Opened:
    def __init__(self, store: Remembers, means: Any) -> None:
        self._wrong, self._means = store.wrong, means
        self._until = store.shared if store.wrong in {"groups", "forgetful"} else {}

    def _named(self, key: str) -> str:
        return key.strip() if self._wrong == "blunt" else key

    async def has(self, key: str) -> bool:
        if self._wrong == "eager":
            return True
        if self._wrong == "endless":
            return self._named(key) in self._until
        is_there: bool = self._until.get(self._named(key), 0) > self._means.now_ms()
        return is_there

    async def record(self, key: str, keep_ms: int) -> None:
        if self._wrong == "first" and key in self._until:
            return
        if self._wrong != "deaf":
            self._until[self._named(key)] = self._means.now_ms() + keep_ms

    async def close(self) -> None:
        self._until.clear()


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ("eager", "memory: it is had before it was recorded"),
        ("deaf", "memory: it is not had after it was recorded"),
        ("groups", "apart: another group has it, too"),
        ("first", "again: the time did not count anew"),
        ("endless", "memory: it is had after its time was over"),
        ("blunt", "apart: '4711 ' is had where '4711' was recorded"),
        ("", "survives: what was recorded is gone"),
    ],
)
def test_a_store_that_breaks_a_law_is_named_with_it(wrong: str, law: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(law)):
        check_dedup(Remembers(wrong), survives=True)


@pytest.mark.parametrize("store", [LocalStore(), TopicStore()], ids=lambda store: str(store.name))
def test_our_stores_of_progress_keep_the_laws(store: ProgressStore, tmp_path: Path) -> None:
    check_progress(store, folder=str(tmp_path))


def test_the_box_keeps_the_laws_of_progress() -> None:
    async def story() -> None:
        box = Broker(real_world())
        await box.start()
        cluster = Cluster(real_world(), ClusterOptions(name_servers=(box.address,), client_id="laws"))
        try:
            await Producer(cluster=cluster).send("orders", b"x")
            for group in ("billing", "shipping"):
                box.nodes[0].rules.group(group)
            await progress_laws(
                BrokerStore(), lambda group: progressing._Means(group, "/nowhere", cluster, real_world())
            )
        finally:
            await cluster.close()
            await box.stop()

    asyncio.run(story())


class Careless:
    """A store of progress with one mistake."""

    name = "careless"

    def __init__(self, mistake: str) -> None:
        self.mistake = mistake
        self.kept: dict[tuple[str, MessageQueue], Kept] = {}

    def open(self, means: ProgressMeans) -> KeepsProgress:
        if self.mistake == "survives":
            self.kept = {}
        return _Keeps(self, "all" if self.mistake == "groups" else means.group)


class _Keeps:
    def __init__(self, store: Careless, group: str) -> None:
        self.store, self.group = store, group

    def _key(self, queue: MessageQueue) -> tuple[str, MessageQueue]:
        return self.group, MessageQueue("orders", "broker-a", 0) if self.store.mistake == "queues" else queue

    async def read(self, queue: MessageQueue) -> Kept | None:
        found = self.store.kept.get(self._key(queue))
        return Kept(-1, b"") if found is None and self.store.mistake == "nothing" else found

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        before = self.store.kept.get(self._key(queue))
        epoch = 0 if before is None or self.store.mistake == "epochs" else before.epoch + 1
        self.store.kept[self._key(queue)] = Kept(epoch, content)
        return epoch

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        kept = self.store.kept[self._key(queue)]
        if epoch < kept.epoch and self.store.mistake != "former":
            raise Superseded("late")
        self.store.kept[self._key(queue)] = Kept(epoch, content[:100] if self.store.mistake == "cut" else content)


@pytest.mark.parametrize(
    ("mistake", "law"),
    [
        ("nothing", "nothing"),
        ("cut", "kept"),
        ("epochs", "epochs"),
        ("former", "former"),
        ("queues", "apart"),
        ("groups", "apart"),
        ("survives", "survives"),
    ],
)
def test_a_careless_store_of_progress_is_found_out(mistake: str, law: str) -> None:
    check_progress(Careless("none"))
    with pytest.raises(AssertionError, match=f"store 'careless': {law}: "):
        check_progress(Careless(mistake))
