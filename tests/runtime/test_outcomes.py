"""One table of outcomes, against everything that runs a handler: what becomes of the message, and what is counted.

Whatever a handler does to itself is its message's failure. No worker, line, batch or queue ends by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from framework import Ack, DeadLetter, Delivery, Drop, Message, RetryLater, Suspend, consumer
from framework.errors import BodyUnavailable
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.testing import Harness


class Panic(BaseException):
    """As libraries in Rust raise it (pyo3's PanicException): none of Exception's."""


def raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def act() -> None:
        raise error()

    return act


def returning(result: object) -> Callable[[], Any]:
    return lambda: result


async def awaiting_what_was_cancelled() -> None:
    task = asyncio.get_running_loop().create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


def cancel_myself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel("by its own handler")


async def cancelling_itself() -> None:
    cancel_myself()
    await asyncio.sleep(60)


async def cancelling_itself_and_returning() -> None:
    cancel_myself()


async def cancelling_itself_later() -> None:
    """Long after this handler has returned, whatever runs in its task then."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.4, task.cancel)


async def swallowing_its_own() -> None:
    cancel_myself()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return


@dataclass(frozen=True)
class Row:
    """What the first delivery of a message does, and what that comes to."""

    name: str
    act: Callable[[], Any]
    fate: str
    """`handled`, `retry`, `dead_lettered` or `dropped`."""
    kind: str = ""
    """How it is counted beside that: `raised` or `failed`."""
    is_async: bool = False
    """Only a handler that is awaited can do it."""


ROWS = [
    Row("nothing", returning(None), "handled"),
    Row("ack", returning(Ack()), "handled"),
    Row("anything", returning("anything"), "handled"),
    Row("drop", returning(Drop("a rule", "of no use")), "dropped"),
    Row("dead letter", returning(DeadLetter("no such order")), "dead_lettered", "failed"),
    Row("retry later", returning(RetryLater("1s", "no stock")), "retry", "failed"),
    Row("suspend", returning(Suspend("1s")), "retry", "failed"),
    Row("exception", raising(lambda: ValueError("broken")), "retry", "raised"),
    Row("stop iteration", raising(StopIteration), "retry", "raised"),
    Row("stop async iteration", raising(StopAsyncIteration), "retry", "raised"),
    Row("time-out of its own", raising(lambda: TimeoutError("the shop's")), "retry", "raised"),
    Row("panic", raising(lambda: Panic("index out of bounds")), "retry", "raised"),
    Row("cancelled error", raising(lambda: asyncio.CancelledError("within")), "retry", "raised"),
    Row("generator exit", raising(GeneratorExit), "retry", "raised"),
    Row("group", raising(lambda: BaseExceptionGroup("two", [Panic("a"), ValueError("b")])), "retry", "raised"),
    Row("awaiting what was cancelled", awaiting_what_was_cancelled, "retry", "raised", is_async=True),
    Row("cancelling itself", cancelling_itself, "retry", "raised", is_async=True),
    Row("cancelling itself and returning", cancelling_itself_and_returning, "handled", is_async=True),
    Row("cancelling itself later", cancelling_itself_later, "handled", is_async=True),
    Row("swallowing its own", swallowing_its_own, "handled", is_async=True),
]


@dataclass(frozen=True)
class Caller:
    """Something that runs a handler."""

    name: str
    is_async: bool
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    before: tuple[Callable[[], Any], ...] = ()
    """What earlier deliveries of the message do, so that this caller gets it."""
    earlier: int = 0
    """How many retries are counted by then."""
    is_watched: bool = False


def unavailable() -> BaseException:
    return BodyUnavailable("codec zstd is missing: install zstandard")


def callers() -> list[Caller]:
    found = list[Caller]()
    for is_async in (True, False):
        how = "async" if is_async else "sync"
        found += [
            Caller(f"pool {how}", is_async),
            Caller(f"pool {how} watched", is_async, is_watched=True),
            Caller(f"pool {how} judged", is_async, settings={"explicit_ack": True}),
            Caller(f"pool {how} once", is_async, {"once": "10m"}),
            Caller(f"orderly {how}", is_async, {"orderly": True}),
            Caller(f"by key {how}", is_async, {"orderly": "key"}),
            Caller(f"orderly {how} watched", is_async, {"orderly": True}, is_watched=True),
            Caller(f"batches {how}", is_async, {"batch": 4}),
            Caller(f"batches {how} watched", is_async, {"batch": 4}, is_watched=True),
            Caller(f"orderly batches {how}", is_async, {"batch": 4, "orderly": True}),
            Caller(f"again {how}", is_async, {"broadcasting": True}, before=(raising(lambda: OSError("down")),),
                   earlier=1),
            Caller(f"held {how}", is_async, before=(raising(unavailable),)),
            Caller(f"held {how} watched", is_async, before=(raising(unavailable),), is_watched=True),
        ]  # fmt: skip
    return found


class Watching:
    """A plugin that is told of every end."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: object, elapsed_ms: float, kind: str) -> None:
        self.kinds.append(kind)


def handler_of(caller: Caller, acts: list[Callable[[], Any]], bodies: list[bytes]) -> Any:
    """Does with message `first` what the acts say, one a delivery, and handles all else."""
    good = Ack() if caller.settings.get("explicit_ack") else None

    def begin(messages: list[Message]) -> Callable[[], Any]:
        bodies.extend(each.body for each in messages)
        return acts.pop(0) if acts and any(each.body == b"first" for each in messages) else returning(good)

    async def awaited(message: Message) -> object:
        return await _awaited(begin([message])())

    def plain(message: Message) -> object:
        result: object = begin([message])()
        return result

    async def batch_awaited(messages: list[Message]) -> object:
        return await _awaited(begin(messages)())

    def batch(messages: list[Message]) -> object:
        result: object = begin(messages)()
        return result

    one, many = (awaited, batch_awaited) if caller.is_async else (plain, batch)
    return consumer("orders", "billing", **caller.options)(many if "batch" in caller.options else one)


async def _awaited(result: object) -> object:
    await asyncio.sleep(0)
    return await result if isinstance(result, Awaitable) else result


def expected_of(caller: Caller, row: Row) -> tuple[str, str]:
    """Fate and kind, where they differ by what was declared or by how many are handled at once."""
    says_nothing = row.fate == "handled" and row.name != "ack"
    if says_nothing and "explicit_ack" in caller.settings:
        return "retry", "nothing"
    if row.name == "anything" and "batch" in caller.options:
        return "retry", "raised"  # a batch's answer is None, an outcome, or a list of them
    if row.fate == "dead_lettered" and "broadcasting" in caller.options:
        return "dropped", row.kind  # nobody keeps it
    return row.fate, row.kind


COUNTED = ("handled", "retried", "dead_lettered", "dropped", "late", "raised", "failed", "nothing", "timed_out")


@pytest.mark.parametrize("caller", callers(), ids=lambda caller: caller.name)
def test_every_outcome_means_the_same_to_everybody_who_runs_a_handler(caller: Caller) -> None:
    """Row after row for the same workers, and there is one: what ends it, or holds its queue, shows in the next."""
    acts, bodies, watching = list[Callable[[], Any]](), list[bytes](), Watching()
    settings = {"consumers": {"billing": {"concurrency": 1, "max_retries": 3, **caller.settings}}}
    plugins = PluginHost(discover=list, objects={"watching": watching} if caller.is_watched else {})
    letters = 0
    with Harness(handler_of(caller, acts, bodies), settings=settings, plugins=plugins) as desk:
        for row in ROWS:
            if row.is_async and not caller.is_async:
                continue
            acts += [*caller.before, row.act]
            bodies.clear()
            watching.kinds.clear()
            before = desk.snapshot().groups[0]
            desk.send("orders", "first", keys="one")
            desk.sleep("50s")  # a retry is due after 10 s, and the one behind it 30 s later
            desk.send("orders", "second", keys="one")
            desk.sleep("5s")
            group = desk.snapshot().groups[0]
            assert [] == acts, f"{row.name}: every try that was due was made"
            assert b"second" == bodies[-1], f"{row.name}: nothing stands still because of it"
            fate, kind = expected_of(caller, row)
            expected = dict.fromkeys(COUNTED, 0)
            expected["handled"] = 1 + (fate in {"handled", "retry"})
            expected["retried"] = caller.earlier + (fate == "retry")
            expected["raised"] = caller.earlier
            if fate in {"dead_lettered", "dropped"}:
                expected[fate] += 1
            if kind:
                expected[kind] += 1
            counted = {name: getattr(group, name) - getattr(before, name) for name in COUNTED}
            assert expected == counted, row.name
            letters += fate == "dead_lettered"
            assert letters == len(desk.dead_letters("billing")), row.name
            assert {None} == {queue.reason for queue in group.queues}, row.name
            assert not group.cannot_send_back
            if caller.is_watched:
                told = {"raised": "exception"}.get(kind, kind) or "success"
                assert [told, *["success"] * (1 + (fate == "retry"))] == watching.kinds, row.name


@pytest.mark.parametrize("caller", callers(), ids=lambda caller: caller.name)
def test_the_end_of_the_program_is_no_messages_failure(caller: Caller) -> None:
    error = SystemExit(3) if caller.is_async else KeyboardInterrupt()
    acts = [*caller.before, raising(lambda: error)]
    settings = {"consumers": {"billing": {"concurrency": 1, "max_retries": 3, **caller.settings}}}

    def play() -> None:
        with Harness(handler_of(caller, acts, []), settings=settings) as desk:
            desk.send("orders", "first", keys="one")
            desk.sleep("3m")

    with pytest.raises(type(error)):
        play()


async def never_ending() -> None:
    await asyncio.sleep(1_000_000)


async def swallowing_ours() -> None:
    try:
        await never_ending()
    except asyncio.CancelledError:
        return


async def raising_instead() -> None:
    try:
        await never_ending()
    except asyncio.CancelledError:
        raise ValueError("interrupted") from None


@pytest.mark.parametrize("act", [never_ending, swallowing_ours, raising_instead])
@pytest.mark.parametrize("caller", [each for each in callers() if each.is_async], ids=lambda caller: caller.name)
def test_a_cancellation_of_ours_ends_the_handler_and_settles_nothing(caller: Caller, act: Callable[[], Any]) -> None:
    """Where the drain limit is over: a handler that swallows it does not keep the process from ending."""
    bodies = list[bytes]()
    settings = {"consumers": {"billing": {"concurrency": 1, "max_retries": 3, **caller.settings}}}
    with Harness(handler_of(caller, [*caller.before, act], bodies), settings=settings) as desk:
        desk.send("orders", "first", keys="one")
        desk.sleep("2m")
        counts = desk.snapshot().groups[0]
        assert 1 + len(caller.before) == len(bodies)
    assert (0, caller.earlier) == (counts.handled, counts.retried)
    assert [] == [line for line in desk.logs if line["event"] in {"loop failed", "task failed"}]


@pytest.mark.parametrize("act", [never_ending, swallowing_ours, raising_instead])
@pytest.mark.parametrize(
    "caller",
    [each for each in callers() if each.is_async and each.name.startswith(("pool", "batches"))],
    ids=lambda caller: caller.name,
)
def test_a_handler_over_its_limit_is_timed_out_once(caller: Caller, act: Callable[[], Any]) -> None:
    bodies = list[bytes]()
    settings = {"consumers": {"billing": {"concurrency": 1, "timeout": "5s", **caller.settings}}}
    with Harness(handler_of(caller, [act], bodies), settings=settings) as desk:
        desk.send("orders", "first", keys="one")
        desk.sleep("1m")
        desk.send("orders", "second", keys="one")
        desk.sleep("10s")
        group = desk.snapshot().groups[0]
        late = int(act is not never_ending)
        assert (2, 1, 1, 0, late) == (group.handled, group.retried, group.timed_out, group.raised, group.late)


async def slow_and_failing() -> None:
    await asyncio.sleep(50)
    raise ConnectionError("no answer")


@pytest.mark.parametrize(("stuck_after", "kind"), [("45s", "timed_out"), ("15m", "exception")])
@pytest.mark.parametrize("batch", [1, 4])
def test_an_orderly_handler_that_runs_for_stuck_after_is_counted_as_timed_out(
    batch: int, stuck_after: str, kind: str
) -> None:
    """Nothing limits it, so what counts as long is what the group says of it."""
    watching, acts = Watching(), [slow_and_failing]
    options: dict[str, Any] = {"batch": batch} if batch > 1 else {}

    async def bill(given: Any) -> None:
        if acts:
            await acts.pop()()

    bill.__annotations__["given"] = list[Message] if batch > 1 else Message
    handler = consumer("orders", "billing", orderly=True, **options)(bill)
    plugins = PluginHost(discover=list, objects={"watching": watching})
    with Harness(handler, settings={"consumers": {"billing": {"stuck_after": stuck_after}}}, plugins=plugins) as desk:
        desk.send("orders", "first", keys="one")
        desk.sleep("2m")
        group = desk.snapshot().groups[0]
    assert (int(kind == "timed_out"), int(kind == "exception")) == (group.timed_out, group.raised)
    assert [kind, "success"] == watching.kinds
