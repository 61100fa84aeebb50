"""What plugins are told beside deliveries: once each, in time, and with no message hurt by it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from framework import Delivery, Extend, Message, consumer
from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.errors import BodyUnavailable
from framework.hooks import ChunkSummary, hookimpl
from framework.hooks.host import PluginHost
from framework.hooks.listeners import NO_LISTENERS
from framework.model.queue import MessageQueue
from framework.testing import Harness
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, all_handled, tell

BEYOND = ("after_chunk", "delivery_stuck", "assignment_changed", "offsets_committed", "queue_held")


class Watch:
    """Notes what it is told; `fails`: and raises."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.chunks: list[ChunkSummary] = []
        self.stuck: list[tuple[str, str, int]] = []
        self.moves: list[tuple[str, list[str], list[str]]] = []
        self.committed: list[tuple[str, str, int]] = []
        self.held: list[tuple[str, str]] = []

    def _noted(self) -> None:
        if self.fails:
            raise RuntimeError("the watch is asleep")

    @hookimpl
    def after_chunk(self, summary: ChunkSummary) -> None:
        self.chunks.append(summary)
        self._noted()

    @hookimpl
    def delivery_stuck(self, delivery: Delivery, age_ms: int) -> None:
        self.stuck.append((delivery.group, delivery.message.body.decode(), age_ms))
        self._noted()

    @hookimpl
    def assignment_changed(self, group: str, gained: Sequence[MessageQueue], lost: Sequence[MessageQueue]) -> None:
        self.moves.append((group, [str(queue) for queue in gained], [str(queue) for queue in lost]))
        self._noted()

    @hookimpl
    def offsets_committed(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.committed += [(group, str(queue), offset) for queue, offset in offsets.items()]
        self._noted()

    @hookimpl
    def queue_held(self, queue: MessageQueue, reason: str) -> None:
        self.held.append((str(queue), reason))
        self._noted()


def hosted(**objects: object) -> PluginHost:
    return PluginHost(objects=objects, discover=list)


def test_nobody_is_told_what_nobody_listens_to() -> None:
    """Each is None then: whoever has something to tell asks that, and makes nothing."""
    told = hosted().calls.listeners

    assert [None] * len(BEYOND) == [getattr(told, name) for name in BEYOND]
    assert "<Listeners nobody>" == repr(told) == repr(NO_LISTENERS)


def test_several_are_told_in_calling_order_and_one_that_raises_stops_no_other() -> None:
    one, two = Watch(fails=True), Watch()
    host = hosted(one=one, two=two)

    assert host.calls.listeners.queue_held is not None
    host.calls.listeners.queue_held("billing", MessageQueue("orders", "broker-a", 0), "count")

    assert one.held == two.held == [("orders@broker-a:0", "count")]
    assert {"one": 1} == host.calls.failures
    assert {"one", "two"} == set(host.order["queue_held"])


@consumer("orders", "billing")
async def awaited(order: Message) -> None:
    await asyncio.sleep(0.01)
    _fail_once(order)


@consumer("orders", "billing")
def threaded(order: Message) -> None:
    _fail_once(order)


@consumer("orders", "billing", orderly=True)
async def orderly(order: Message) -> None:
    _fail_once(order)


@consumer("orders", "billing", batch=4)
async def batched(orders: list[Message]) -> None:
    for order in orders:
        _fail_once(order)


def _fail_once(order: Message) -> None:
    if order.body == b"3" and order.attempt == 1:
        raise ValueError("not yet")


@pytest.mark.parametrize("handler", [awaited, threaded, orderly, batched], ids=lambda each: each.spec.name)
def test_after_chunk_counts_each_message_and_each_byte_once(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, pulled, admit = Watch(), [], Window.admit

    def noted(window: Window, messages: Sequence[Message], begin: int, end: int, size: int) -> Chunk | None:
        chunk = admit(window, messages, begin, end, size)
        pulled.append(chunk.size if chunk is not None else 0)
        return chunk

    monkeypatch.setattr(Window, "admit", noted)
    with Harness(handler, plugins=hosted(watch=watch)) as desk:
        for number in range(30):
            desk.send("orders", str(number), keys=str(number))
        events = desk.settle()

    handled = sum(event["event"] == "handled" for event in events)
    assert handled == sum(summary.handled for summary in watch.chunks)
    assert 30 <= handled
    assert sum(pulled) == sum(summary.bytes for summary in watch.chunks) > 0
    assert {"billing"} == {summary.group for summary in watch.chunks}
    assert all(summary.handled or summary.bytes or summary.elapsed_ms for summary in watch.chunks), "nothing is no news"


class Patient:
    """Lets a handler run on twice, and then gives it up."""

    name = "patient"

    def decide(self, delivery: Delivery, age_ms: int) -> Any:
        from framework import Drop

        return Extend("1s") if age_ms < 3_000 else Drop("patient", "for too long")


class Policies:
    @hookimpl
    def register_expiry_policies(self) -> list[Patient]:
        return [Patient()]


@consumer("orders", "billing")
async def hangs(order: Message) -> None:
    if order.body == b"stuck":
        await asyncio.Event().wait()


def test_delivery_stuck_is_told_once_however_often_the_policy_is_asked() -> None:
    watch, settings = Watch(), {"consumers": {"billing": {"timeout": "1s", "expiry": "patient"}}}

    with Harness(hangs, settings=settings, plugins=hosted(watch=watch, policies=Policies())) as desk:
        desk.send("orders", "quick")
        desk.send("orders", "stuck")
        events = desk.settle()

    ((group, body, age_ms),) = watch.stuck
    assert ("billing", "stuck") == (group, body)
    assert 1_000 <= age_ms < 2_000
    assert ["handled", "dropped"] == [event["event"] for event in events]


@consumer("orders", "billing", orderly=True)
async def blocks(order: Message) -> None:
    if order.attempt < 4:
        raise ValueError("the till is shut")


def test_delivery_stuck_is_told_of_what_blocks_an_orderly_queue() -> None:
    watch, settings = Watch(), {"consumers": {"billing": {"stuck_after": "2s"}}}

    with Harness(blocks, settings=settings, plugins=hosted(watch=watch)) as desk:
        desk.send("orders", "first")
        desk.settle()

    ((group, body, age_ms),) = watch.stuck
    assert ("billing", "first") == (group, body)
    assert age_ms >= 2_000


def test_assignment_changed_is_told_of_what_comes_and_goes() -> None:
    """Two members share one instance here: what one loses is what the other gains, beside the first's beginning."""
    watch = Watch()

    def some_lost(_: Story) -> bool:
        return any(lost for _, _, lost in watch.moves)

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", 8)  # which creates the topic
        await story.within("2m").until(all_handled)
        alone = len(watch.moves)
        assert alone
        assert all(not lost for _, _, lost in watch.moves)
        await story.start_apps(1)
        await story.within("1m").until(some_lost)
        await story.sleep("5s")
        later = watch.moves[alone:]
        gained = sorted(queue for _, gains, _ in later for queue in gains)
        assert gained
        assert gained == sorted(queue for _, _, losses in later for queue in losses)

    tell(scenario, Cluster(apps=0, plugins=hosted(watch=watch)))


def test_offsets_committed_is_told_once_of_each_offset() -> None:
    """Also of those that rode on a pull; said again to a broker (each minute or so), an offset is no news."""
    watch = Watch()

    with Harness(awaited, plugins=hosted(watch=watch)) as desk:
        for number in range(12):
            desk.send("orders", str(number))
        desk.settle()
        desk.sleep("5m")

    assert len(set(watch.committed)) == len(watch.committed)
    last = {queue: offset for _, queue, offset in watch.committed if queue.startswith("orders@")}
    assert 12 == sum(last.values())
    for queue in last:
        offsets = [offset for _, each, offset in watch.committed if each == queue]
        assert offsets == sorted(offsets)


GATE: list[asyncio.Event] = []


@consumer("orders", "billing")
async def waits(order: Message) -> None:
    if order.body == b"0":
        await GATE[0].wait()


def test_queue_held_is_told_on_entering_and_not_while_it_is_held() -> None:
    watch = Watch()
    settings = {"consumers": {"billing": {"cache_count": 3, "pull_batch": 2, "concurrency": 1, "timeout": "1h"}}}
    GATE[:] = [asyncio.Event()]

    with Harness(waits, settings=settings, plugins=hosted(watch=watch)) as desk:
        for number in range(40):
            desk.send("orders", str(number))
        desk.sleep("1m")
        full = [(f"orders@broker-a:{number}", "count") for number in range(4)]
        assert full == sorted(watch.held), "said once, for a whole minute"
        GATE[0].set()
        desk.settle()

    assert {*full} == {*watch.held}


@consumer("orders", "billing")
async def opens(order: Message) -> None:
    if order.body == b"sealed" and not GATE:
        raise BodyUnavailable("zstd is not installed")


def test_queue_held_is_told_of_a_message_that_cannot_be_opened_with_the_reason() -> None:
    watch = Watch()
    GATE.clear()

    with Harness(opens, plugins=hosted(watch=watch)) as desk:
        desk.send("orders", "sealed")
        desk.sleep("10s")
        assert ["zstd is not installed"] == [reason for _, reason in watch.held]
        GATE.append(asyncio.Event())
        desk.settle()


def test_a_watch_that_raises_each_time_hurts_no_message_and_is_counted_and_named() -> None:
    watch = Watch(fails=True)

    with Harness(awaited, plugins=hosted(asleep=watch)) as desk:
        for number in range(30):
            desk.send("orders", str(number))
        events = desk.settle()
        desk.sleep("5s")
        failures = desk.snapshot().hook_failures
        named = {line["hook"] for line in desk.logs if line["event"] == "hook failed" and line["plugin"] == "asleep"}

    assert 30 == len({event["message_id"] for event in events if event["event"] == "handled"})
    assert failures["asleep"] >= len(watch.chunks) + len(watch.moves) > 0
    assert named <= {*BEYOND}
    assert named
