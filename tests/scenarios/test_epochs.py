"""Each acquisition of a queue has an epoch, handlers are told it, and a store can refuse a former owner by it."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from framework.broker.intercept import Interceptor
from framework.declare import Consumer, consumer
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.settings.schema import AppSettings
from framework.testing.errors import Violation
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.simulation.checkers import epochs_fence, fences_hold, nothing_lost, order_kept
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Committed, Said, Started, Unexpected
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import Workload

PAGE = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
(EXAMPLE,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "delivery.epoch" in code]


def cluster_of(
    handlers: Callable[[Cluster], Sequence[Consumer[..., Any]]],
    progress: str,
    queues: int = 1,
    *,
    mutants: tuple[str, ...] = (),
    **more: Any,
) -> Cluster:
    settings = AppSettings.model_validate(
        {"consumers": {"warehouse": {"start": "first", "progress": progress, **more}}}
    )
    return Cluster(
        apps=0,
        workload=Workload(topic="parcels", queues=queues),
        consumers=handlers,
        settings=settings,
        mutants=mutants,
    )


def of_kind(kind: str, seen: list[tuple[str, int | None]]) -> Consumer[..., Any]:
    """A consumer of this kind that notes what epochs its deliveries have."""

    def note(delivery: Delivery) -> None:
        seen.append((str(delivery.message.queue), delivery.epoch))

    async def one(_: Message, delivery: Delivery) -> None:
        note(delivery)

    def at_once(_: Message, delivery: Delivery) -> None:
        note(delivery)

    async def many(deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            note(delivery)

    def many_at_once(deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            note(delivery)

    is_batch = "batch" in kind
    orderly: bool | Literal["key"] = "key" if "key" in kind else "order" in kind
    functions: dict[tuple[bool, bool], Callable[..., Any]] = {
        (False, False): one,
        (True, False): at_once,
        (False, True): many,
        (True, True): many_at_once,
    }
    options: dict[str, Any] = {"batch": 8} if is_batch else {}
    if orderly == "key":
        options["key"] = lambda message: message.queue_offset % 2
    return consumer("parcels", "warehouse", orderly=orderly, **options)(functions["thread" in kind, is_batch])


KINDS = [
    "async",
    "thread",
    "batch",
    "thread batch",
    "order",
    "order thread",
    "order batch",
    "order thread batch",
    "key",
]


@pytest.mark.parametrize(
    ("kind", "progress"), [*((kind, "topic") for kind in KINDS), ("async", "broker"), ("order", "broker")]
)
def test_handlers_of_all_kinds_are_told_the_epoch_of_their_queue(kind: str, progress: str) -> None:
    seen: list[tuple[str, int | None]] = []
    cluster = cluster_of(lambda _: [of_kind(kind, seen)], progress, queues=2)

    async def scenario(story: Story) -> None:
        (a,) = await story.start_apps(1)
        await story.send("parcels", 30)
        await story.within("10s").until(lambda _: len(seen) >= 30)
        await story.leave(a)
        await story.start_apps(1)
        await story.send("parcels", 30)
        await story.within("10s").until(lambda _: len(seen) >= 60)

    tell(scenario, cluster)
    for queue in ("parcels@broker-a:0", "parcels@broker-a:1"):
        epochs = [epoch for each, epoch in seen if each == queue]
        assert len(epochs) > 1
        assert None not in epochs
        assert sorted(epochs) == epochs  # type: ignore[type-var]  # there is no None
        assert len(set(epochs)) == 2, "one a life of the application"


def test_without_a_store_there_is_none() -> None:
    seen: list[tuple[str, int | None]] = []
    cluster = cluster_of(lambda _: [of_kind("order", seen)], "none")

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("parcels", 3)
        await story.within("10s").until(lambda _: len(seen) == 3)

    tell(scenario, cluster)
    assert [None] * 3 == [epoch for _, epoch in seen]


def test_a_store_refuses_an_owner_that_was_stopped_while_its_queue_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of docs/reliability.md. A lease cannot help here: the handler had begun when it was still held."""
    monkeypatch.chdir(tmp_path)
    example: dict[str, Any] = {}
    exec(compile(EXAMPLE, "reliability.md", "exec"), example)
    count, opened = example["count"], example["stock"]
    connections: list[sqlite3.Connection] = []
    refused: list[tuple[int, int]] = []

    def handlers(cluster: Cluster) -> list[Consumer[..., Any]]:
        stock = next(opened())
        connections.append(stock)

        async def slow(message: Message, delivery: Delivery) -> None:
            assert delivery.epoch is not None
            cluster.recorder.started("warehouse", message, delivery.epoch)
            await asyncio.sleep(5.0 if message.queue_offset == 1 else 0.01)
            try:
                count(message, delivery, stock)
            except RuntimeError:
                refused.append((message.queue_offset, delivery.epoch))
                raise
            finally:
                cluster.recorder.finished("warehouse", message, "ok")

        return [consumer("parcels", "warehouse", orderly=True)(slow)]

    cluster = cluster_of(handlers, "topic")
    cluster.history.orderly = {"warehouse": 1}
    cluster.history.groups = ["warehouse"]

    async def scenario(story: Story) -> None:
        (a,) = await story.start_apps(1)
        await story.send("parcels", 4)
        await story.within("10s").until(lambda story: any(fact.offset == 1 for fact in story.history.of(Started)))
        await story.sleep("2s")  # what ended before it is committed
        story.stop(a, "5m")
        cluster.start_app(cluster.add_app())
        await story.within("4m").until(all_handled)
        assert not refused
        await story.within("6m").until(lambda _: bool(refused))
        story.check(epochs_fence, nothing_lost, order_kept)

    tell(scenario, cluster)
    for each in connections:  # a process that is killed or stopped closes nothing
        each.close()
    with closing(sqlite3.connect("stock.db")) as stock:
        assert [(4,)] == stock.execute("SELECT parcels FROM shelf").fetchall(), "each parcel is counted once"
        ((_, newest),) = stock.execute("SELECT queue, epoch FROM owners").fetchall()
    assert [1] == [offset for offset, _ in refused]
    assert all(epoch < newest for _, epoch in refused)


def commits_late(*mutants: str) -> None:
    """A former owner was stopped with its commits still to be said, and wakes when another has gone on."""
    seen: list[int] = []

    def handlers(cluster: Cluster) -> list[Consumer[..., Any]]:
        async def quick(message: Message) -> None:
            seen.append(message.queue_offset)

        return [consumer("parcels", "warehouse")(quick)]

    cluster = cluster_of(handlers, "broker", mutants=mutants)

    async def scenario(story: Story) -> None:
        (a,) = await story.start_apps(1)
        await story.send("parcels", 4)
        await story.within("10s").until(lambda _: len(seen) >= 4)
        broker = story.cluster.broker.broker
        assert broker is not None
        (node,) = broker.nodes
        story.stop(a, "3m")  # before its next flush
        cluster.start_app(cluster.add_app())
        await story.send("parcels", 4)
        await story.within("2m30s").until(lambda _: node.offsets.get("warehouse", "parcels", 0) == 8)
        (epoch,) = {kept.epoch for key, kept in node.progress.table.items() if key.topic == "parcels"}
        await story.sleep("4m")
        story.check(fences_hold)
        assert 8 == node.offsets.get("warehouse", "parcels", 0)
        ((_, kept),) = [(key, kept) for key, kept in node.progress.table.items() if key.topic == "parcels"]
        assert epoch <= kept.epoch
        assert [fact.offset for fact in story.history.of(Committed) if fact.is_refused]

    tell(scenario, cluster)


def test_the_box_refuses_what_a_former_owner_commits_late() -> None:
    """Its commits are refused, and it gives up the queue."""
    commits_late()


def test_a_box_that_refuses_no_former_owner_is_noticed() -> None:
    with pytest.raises(Violation, match="fences hold"):
        commits_late("an outdated epoch is refused")


def test_an_orderly_queue_waits_for_its_epoch() -> None:
    """For that group the epoch is all that the store is for: a delivery without one would be refused by nobody."""
    seen: list[tuple[str, int | None]] = []
    cluster = cluster_of(lambda _: [of_kind("order", seen)], "topic")

    async def scenario(story: Story) -> None:
        await cluster.start_broker()
        await cluster.start_producer()
        broker = cluster.broker.broker
        assert broker is not None
        full = RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="the disk is full")
        is_record = lambda request: request.command.fields["b"] == "%ACK%warehouse"  # noqa: E731 - a word for a test
        heal = broker.intercept(Interceptor(code=RequestCode.SEND_MESSAGE_V2, answer=full, times=None, when=is_record))
        cluster.start_app(cluster.add_app())
        await story.send("parcels", 3)
        await story.within("10s").until(
            lambda story: any(
                fact.fields.get("reason", "").endswith("the disk is full") for fact in story.history.of(Said)
            )
        )
        await story.sleep("10s")
        assert not seen
        heal()
        await story.within("40s").until(lambda _: len(seen) == 3)

    tell(scenario, cluster)
    assert all(epoch is not None for _, epoch in seen)


def test_broadcasting_groups_have_none() -> None:
    def handlers(_: Cluster) -> list[Consumer[..., Any]]:
        async def note(_: Message) -> None: ...

        return [consumer("parcels", "warehouse", broadcasting=True)(note)]

    async def scenario(story: Story) -> str:
        await cluster.start_broker()
        cluster.start_app(cluster.add_app())
        await story.sleep("1s")
        return " ".join(fact.what for fact in story.history.of(Unexpected))

    cluster = cluster_of(handlers, "topic")
    assert "consumers.warehouse.progress: broadcasting groups keep their own offsets" in tell(scenario, cluster)
