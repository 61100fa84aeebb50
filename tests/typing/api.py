"""What `@consumer` keeps, as mypy sees it. Checked by `test_what_editors_see.py` and by every `make check`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Literal, assert_type

from framework import (
    Ack,
    App,
    BatchFailed,
    ConfigurationError,
    Consumer,
    DeadLetter,
    Delivery,
    Drop,
    Message,
    MessageQueue,
    Producer,
    Publisher,
    Refused,
    Retry,
    RetryLater,
    SendResult,
    Suspend,
    SyncProducer,
    consumer,
    publishes,
    replies,
    resource,
    transaction_check,
)
from framework.declare import ConsumerSpec, Resource
from framework.hooks import hookimpl
from framework.model.contracts import DedupMeans, DedupStore, KeepsProgress, ProgressMeans, ProgressStore, RemembersKeys
from framework.model.outcome import Outcome
from framework.settings.schema import AppSettings


@consumer(topic="orders", group="billing", tags="created || paid")
async def bill(order: Message) -> RetryLater | None:
    return None


@consumer("orders", "audit", name="trail")
def note(delivery: Delivery, depth: int = 1) -> int:
    return depth


async def seen(message: Message, delivery: Delivery) -> None:
    under_way: Coroutine[Any, Any, RetryLater | None] = bill(order=message)
    assert_type(await under_way, RetryLater | None)
    assert_type(await bill(message), RetryLater | None)
    assert_type(note(delivery), int)
    assert_type(note(delivery, depth=2), int)
    assert_type(bill.spec, ConsumerSpec)
    consumers: list[Consumer[..., Any]] = [bill, note]
    assert consumers


@consumer("orders", "typed", retry=Retry(on=(TimeoutError, OSError), max=3, delays=["1s", "10s"], then=Drop))
async def pay(order: dict[str, int], message: Message, *, delivery: Delivery) -> DeadLetter | None:
    return None


@consumer("orders", "batches", batch=32, linger="50ms")
def store(orders: list[dict[str, int]], messages: Sequence[Message]) -> list[Outcome | None] | int | None:
    if not messages:
        raise BatchFailed(at=len(orders))
    return [Ack(), RetryLater("1s"), Suspend()]


@resource
def pool() -> Iterator[int]:
    yield 1


@resource(scope="message")
async def session(pool: int, message: Message) -> str:
    return f"{pool} {message.topic}"


@consumer("orders", "provided")
async def book(order: bytes, session: str, *, pool: int) -> None: ...


async def provided(message: Message) -> None:
    assert_type(next(pool()), int)
    assert_type(await session(1, message), str)
    resources: list[Resource[..., Any]] = [pool, session]
    assert resources
    await book(b"", "x", pool=1)


@consumer("orders", "publishing")
@publishes("invoices")
async def invoice(order: bytes) -> dict[str, int]:
    return {"cents": len(order)}


async def announced() -> None:
    assert_type(await invoice(b"x"), dict[str, int])


@consumer("prices", "pricing")
@replies
async def price(question: bytes) -> dict[str, int]:
    return {"cents": len(question)}


@transaction_check("desk")
async def ended(message: Message) -> Literal["commit", "unknown"]:
    return "commit" if message.keys else "unknown"


async def replied() -> None:
    assert_type(await price(b"x"), dict[str, int])


async def kept(message: Message, delivery: Delivery) -> None:
    assert_type(await pay({"cents": 1}, message, delivery=delivery), DeadLetter | None)
    assert_type(store([{"cents": 1}], [message]), list[Outcome | None] | int | None)


class Shelf:
    """A plugin's store of progress."""

    name = "shelf"

    def open(self, means: ProgressMeans) -> KeepsProgress:
        return means.at_broker()

    async def look(self, means: ProgressMeans, queue: MessageQueue) -> None:
        path = f"{means.folder}/{means.group}"
        assert_type(await means.in_thread(lambda: means.files.read(path)), bytes | None)
        assert_type(means.files.lock(path), Callable[[], None] | None)
        assert_type(await means.peek(queue, await means.end(queue), 1), Sequence[Message])


class Keys:
    """A plugin's store for `once`."""

    name = "keys"

    def open(self, means: DedupMeans) -> RemembersKeys:
        assert_type(means.now_ms(), int)
        raise NotImplementedError  # only its types are looked at: nothing runs this file

    async def look(self, means: DedupMeans) -> None:
        assert_type(await means.in_thread(lambda: len(means.folder)), int)


class Stores:
    @hookimpl
    def register_progress_stores(self) -> Sequence[ProgressStore]:
        return [Shelf()]

    @hookimpl
    def register_dedup_stores(self) -> Sequence[DedupStore]:
        return [Keys()]

    @hookimpl
    def app_started(self, app: App) -> None:
        assert_type(app.member, str)
        assert_type(app.settings, AppSettings)


def said(error: Exception, queue: MessageQueue) -> str | None:
    assert_type(queue.broker, str)
    match error:
        case ConfigurationError(place=place):
            return assert_type(place, str | None)
        case Refused(code=code):
            return str(assert_type(code, int))
        case _:
            return None


async def every_way_to_send_answers_alike(producer: Producer, publisher: Publisher, blocking: SyncProducer) -> None:
    assert_type(await producer.send("orders", {"id": 1}, order_key="8841", delay="90s"), SendResult)
    assert_type(await publisher.send("orders", {"id": 1}, order_key="8841", delay="90s"), SendResult)
    assert_type(blocking.send("orders", {"id": 1}, order_key="8841", delay="90s"), SendResult)
    assert_type(await producer.send_batch([Message("orders", b"x")]), list[SendResult])
    assert_type(blocking.request("orders", b"x", timeout="3s"), Message)
    assert_type(SyncProducer(name_servers="127.0.0.1:9876", linger="5ms", retries=0), SyncProducer)
