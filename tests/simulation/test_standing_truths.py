"""Truths that watch the whole time can fail: each with a mistake that is planted, found by seeds or by a story."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from framework.broker.node import Node
from framework.broker.store.sent_back import GroupPlace
from framework.broker.store.tables import SavedTable
from framework.client.retry_copies import RetryCopies
from framework.model.death_reason import DeathReason
from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.runtime.app import App
from framework.services.orderly.desk import Lane
from framework.services.orderly.ends import OrderlyOutcomes
from framework.services.orderly.watch import StuckWatch
from framework.services.pool.batches import BatchPool
from framework.services.pool.run import MessageCounts
from tests.simulation.checkers import (
    copies_are_asked_for_in_time,
    nothing_left_behind,
    nothing_piles_up,
    one_copy_an_attempt,
    snapshots_tell,
    stored_outlives,
)
from tests.simulation.cluster import Cluster
from tests.simulation.facts import CopyAsked, Finished, Forgotten, Held, LeftBehind, Pictured, Started
from tests.simulation.history import History
from tests.simulation.simulation import Plan, draw, play
from tests.simulation.watching.promises import Promises
from tests.simulation.watching.sizes import sizes_of
from tests.simulation.workload import GroupLoad, Workload

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
MOST = 40


def found(
    truth: str, where: Callable[[Plan], bool] = lambda plan: True, most: int = MOST, begin: int = 5_000_000
) -> str:
    """What the truth says of the first seed from there on that breaks it; empty where none of so many does."""
    plans = (plan for seed in range(begin, 5_002_000) if where(plan := draw(seed)))
    for _, plan in zip(range(most), plans, strict=False):
        verdict, _ = play(plan)
        for violation in verdict.violations:
            if violation.truth == truth:
                return str(violation)
    return ""


# -- stored outlives


def test_an_offset_that_is_written_once_only_is_missed_at_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full while an offset is saved; later writes succeed, without it."""
    saved = SavedTable.saved

    def forgetful(self: SavedTable[Any, Any], *, committed: bool) -> None:
        saved(self, committed=True)

    monkeypatch.setattr(SavedTable, "saved", forgetful)
    history = played(offsets_while_the_disk_is_full)
    assert "in offsets for" in "".join(map(str, stored_outlives(history)))


def test_an_offset_that_is_written_again_is_there_at_the_next_start() -> None:
    assert [] == list(stored_outlives(played(offsets_while_the_disk_is_full)))


async def offsets_while_the_disk_is_full(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.send(4)
    await cluster.drain(30)
    cluster.broker.disk.is_full = True
    node = the_broker(cluster).nodes[0]
    for key, offset in list(node.offsets.table.items()):
        node.offsets.put(*key, offset + 1)
        node.save_soon()
    await asyncio.sleep(3)
    cluster.broker.disk.is_full = False
    await cluster.send(4)
    await asyncio.sleep(3)
    cluster.crash(cluster.broker)
    await cluster.start_broker()


def the_broker(cluster: Cluster) -> Any:
    broker = cluster.broker.broker
    assert broker is not None
    return broker


def played(scenario: Callable[[Cluster], Any], workload: Workload | None = None) -> History:
    cluster = Cluster(1, apps=1, workload=workload)
    cluster.run(scenario)
    return cluster.history


def test_tables_that_lose_a_row_of_each_group_of_writes_are_found_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    save = SavedTable.save

    def lossy(self: SavedTable[Any, Any], connection: sqlite3.Connection) -> None:
        if len(self._dirty) > 1:
            self._dirty.pop(next(iter(self._dirty)))
        save(self, connection)

    monkeypatch.setattr(SavedTable, "save", lossy)
    # Runs of most seeds before go on for minutes: what was lost never ends.
    told = found("stored outlives", lambda plan: plan.has("broker-crash", "broker-power-cut"), begin=5_000_037)
    assert "broker-a had" in told


def test_an_answer_is_a_promise_at_once() -> None:
    """Also where no second group of writes came after it."""
    promises = Promises()

    async def commit_and_crash(cluster: Cluster) -> None:
        await cluster.start_broker()
        node = the_broker(cluster).nodes[0]
        key = GroupPlace("billing", "orders", 0)
        node.offsets.put(*key, 7)
        promises.answered(the_broker(cluster), int(node.address.rpartition(":")[2]), key, 7)
        promises.ended(the_broker(cluster))
        cluster.crash(cluster.broker)
        await cluster.start_broker()
        assert [
            "broker-a had 7 in offsets for GroupPlace(group='billing', topic='orders', number=0), and has nothing"
        ] == list(promises.forgotten(the_broker(cluster)))

    Cluster(1, apps=0).run(commit_and_crash)


def test_what_is_forgotten_breaks_the_truth() -> None:
    (said,) = stored_outlives(History(0, facts=[Forgotten(3.0, "broker.2", "broker-a had 7, and has nothing")]))
    assert "broker.2: broker-a had 7, and has nothing" in str(said)


# -- nothing is left behind


def test_a_timer_that_is_not_cancelled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StuckWatch, "stop", lambda self: None)
    told = found("nothing is left behind", lambda plan: any(load.orderly for load in plan.workload.groups))
    assert "timer StuckWatch._look" in told


@pytest.mark.slow
def test_a_timer_for_messages_that_are_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchPool, "left", lambda self: None)
    told = found("nothing is left behind", lambda plan: any(load.linger == "1s" for load in plan.workload.groups))
    assert "timer BatchPool._linger_over" in told


def test_a_task_that_is_not_ended_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = App.run

    async def careless(self: App) -> None:
        left = asyncio.get_running_loop().create_task(asyncio.sleep(1_000), name="forgotten")  # noqa: F841
        await run(self)

    monkeypatch.setattr(App, "run", careless)
    assert "task forgotten" in found("nothing is left behind", most=2)


def test_what_is_left_breaks_the_truth() -> None:
    facts = [LeftBehind(3.0, "app-1.1", ()), LeftBehind(4.0, "app-2.1", ("task a", "timer b"))]
    (said,) = nothing_left_behind(History(0, facts=list(facts)))
    assert "app-2.1 left task a; timer b, 2 in all" in str(said)


# -- nothing piles up


def held(*counts: int, table: str = "Window._chunks", each_s: float = 3.0) -> list[str]:
    facts = [Held(50.0 + each_s * number, "app-1.1", {table: count}) for number, count in enumerate(counts)]
    return [str(each) for each in nothing_piles_up(History(0, facts=list(facts)))]


def test_work_that_stays_while_nothing_is_owed_is_named() -> None:
    assert "app-1.1 has 2 in Window._chunks, and nothing was owed since 50.000s" in held(1, 1, 2)[0]
    assert [] == held(1, 0, 2)
    assert [] == held(1, 1, each_s=0.5)
    assert [] == held(5, 5, table="Pool._links")


def test_a_table_that_grows_or_is_large_is_named() -> None:
    assert (
        "Pool._links of app-1.1 grows while nothing is owed: 1, 6, 11, 16, 21"
        in held(1, 6, 11, 16, 21, table="Pool._links")[0]
    )
    assert [] == held(1, 6, 11, 16, 21, 21, table="Pool._links")
    assert [] == held(1, 2, 3, 4, 5, table="Pool._links"), "members that come back"
    assert [] == held(1, 6, 11, 16, 21, table="Throughput._ticks")
    assert "has 82 in Pool._links" in held(81, 82, table="Pool._links")[0]
    assert [] == held(81, 1, table="Pool._links"), "for a moment: a queue is handed over with its window"
    assert [] == held(300, 300, table="RemotingCommand.fields")


def test_rows_that_stay_under_way_are_found_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = SavedTable.saved

    def hoarding(self: SavedTable[Any, Any], *, committed: bool) -> None:
        under_way = self._in_flight
        saved(self, committed=committed)
        self._in_flight = under_way

    monkeypatch.setattr(SavedTable, "saved", hoarding)
    assert "SavedTable._in_flight, and nothing was owed since" in found("nothing piles up", most=10)


@pytest.mark.slow
def test_an_entry_a_pull_that_nobody_drops_is_found_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = Node.goes_on

    def hoarding(self: Node, group: str, topic: str, number: int, offset: int) -> None:
        goes_on(self, f"{group} {offset}", topic, number, offset)

    monkeypatch.setattr(Node, "goes_on", hoarding)
    assert "in Node.pulled while nothing is owed" in found("nothing piles up", most=10)


def test_what_a_hanging_handler_holds_is_no_leak() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    begun = Started(49.0, "app-1.1", "billing", "m0", queue, 0, 1)
    looks = [Held(50.0 + 3 * number, "app-1.1", {"Window._chunks": 1}) for number in range(3)]
    told = History(0, facts=[begun, *looks])
    assert [] == list(nothing_piles_up(told))
    assert 3 == sum(told.excuses.values())

    ended = Finished(49.5, "app-1.1", "billing", "m0", queue, 0, 1, "ok")
    assert 1 == len(list(nothing_piles_up(History(0, facts=[begun, ended, *looks]))))


# -- copies are asked for in time


def test_a_copy_is_asked_for_a_few_times_and_not_in_a_loop() -> None:
    def broken(count: int, each_s: float) -> list[str]:
        facts = [CopyAsked(1.0 + each_s * number, "app-1.1", "billing", "m0") for number in range(count)]
        return [str(each) for each in copies_are_asked_for_in_time(History(0, facts=list(facts)))]

    assert [] == broken(15, 0.01)
    assert [] == broken(100, 0.5)
    (said,) = broken(100, 0.01)
    assert "app-1.1 asked 34 times within 5 s for a copy of m0 for billing" in said


def test_dead_letters_that_are_sent_in_a_loop_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An orderly queue's message that is given up stays given up, and is sent again at once."""
    bury = OrderlyOutcomes.bury

    async def again(self: OrderlyOutcomes, lane: Lane) -> None:
        copies = list(lane.line.copies)
        for _ in range(40):
            await bury(self, lane)
            lane.line.copies.clear()
            lane.line.copies.extend(copies)
        lane.line.copies.clear()

    monkeypatch.setattr(OrderlyOutcomes, "bury", again)
    history = played(drained, in_order_with_poison())
    assert "times within 5 s for a copy of" in "".join(map(str, copies_are_asked_for_in_time(history)))


def test_a_second_dead_letter_in_an_undisturbed_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letter = RetryCopies.dead_letter

    async def twice(self: RetryCopies, message: Message, group: str, why: DeathReason | None = None) -> None:
        await dead_letter(self, message, group, why)
        await dead_letter(self, message, group, why)

    monkeypatch.setattr(RetryCopies, "dead_letter", twice)
    history = played(drained, in_order_with_poison())
    assert "has 2 copies of" in "".join(map(str, one_copy_an_attempt(history)))


def test_dead_letters_of_an_undisturbed_run_are_single_and_unhurried() -> None:
    history = played(drained, in_order_with_poison())
    assert history.dead_letters
    assert [] == [*one_copy_an_attempt(history), *copies_are_asked_for_in_time(history)]


def in_order_with_poison() -> Workload:
    return Workload(groups=(GroupLoad("inventory", orderly=True, fail_rate=0.0, poison_rate=1.0),))


async def drained(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.send(3)
    await cluster.drain(120)


def test_everything_that_can_be_reached_is_counted_once() -> None:
    table: SavedTable[int, int] = object.__new__(SavedTable)
    table._values, table._dirty = {1: 2, 2: 3}, {1: None}
    assert {"SavedTable._values": 2, "SavedTable._dirty": 1} == dict(sizes_of(table, [table, {"a": table}]))


# -- a snapshot tells


def pictured(at: float, *, moved: int = 1, offset: int = 0, reasons: tuple[str, ...] = (), **owed: int) -> Pictured:
    counts = dict.fromkeys(("handled", "retried", "dead_lettered", "dropped", "late", "repeats"), 0)
    owing = {"running": 0, "lag": 0} | owed
    return Pictured(at, "app-1.1", "billing", counts | {"handled": 1}, owing, {"orders@a:0": offset}, moved, reasons)


def told(*looks: Pictured, outcome: str = "ok", is_calm: bool = True) -> list[str]:
    queue = MessageQueue("orders", "a", 0)
    facts = [
        Started(1.0, "app-1.1", "billing", "m1", queue, 0, 1),
        Finished(2.0, "app-1.1", "billing", "m1", queue, 0, 1, outcome),
        *looks,
    ]
    return [str(each) for each in snapshots_tell(History(0, is_calm=is_calm, facts=facts))]


def test_a_snapshot_that_tells_what_is_so_is_believed() -> None:
    assert [] == told(*(pictured(at) for at in (3.0, 6.0, 9.0)))


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"running": 1}, "shows 1 running"),
        ({"lag": 2}, "shows 2 lag"),
        ({"offset": 2}, "shows 2 of orders@a:0, and 0 was committed"),
        ({"moved": 3}, "counts 3 queues gained and kept, and has 1"),
        ({"reasons": ("a queue has stalled",)}, "not ready: a queue has stalled"),
    ],
)
def test_what_a_snapshot_shows_at_each_look_while_nothing_is_owed_is_wrong(wrong: dict[str, Any], what: str) -> None:
    assert what in "".join(told(*(pictured(at, **wrong) for at in (3.0, 6.0, 9.0))))
    assert [] == told(pictured(3.0, **wrong), pictured(6.0), pictured(9.0)), "it was just under way"


@pytest.mark.parametrize("is_calm", [True, False])
def test_a_failure_that_counts_as_handled_is_found(is_calm: bool) -> None:
    assert (
        "0 handlers ended well, and 1 messages count as handled"
        in told(pictured(3.0), outcome="failed", is_calm=is_calm)[0]
    )


def test_counters_that_are_not_kept_are_found_by_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries and dead letters are counted when their copies are durable."""
    add = MessageCounts.add

    def forgetful(self: MessageCounts, event: str) -> None:
        if event != "retry":
            add(self, event)

    monkeypatch.setattr(MessageCounts, "add", forgetful)
    assert "messages were counted" in found("a snapshot tells", lambda plan: plan.is_calm, 10)
