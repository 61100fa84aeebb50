"""How a transaction's block ends where something else happens at the same time: a question, a stop, a fork."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from framework import Message, Producer, SyncProducer, TransactionState, transaction_check
from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.broker.server import Broker
from framework.broker.store import halves
from framework.client.dialogue.transactions import TransactionBlock
from framework.model.reserved import HALF_TOPIC
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.transaction import CheckTransactionRequest
from tests.client.dialogue.test_with_the_box import Desk, bodies, box
from tests.patience import PATIENCE_S, until
from tests.reading.threads import ThreadBox, thread_box
from tests.runtime.test_app import run


class Unspeakable(Exception):
    """A user's error that cannot even be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@asynccontextmanager
async def patient_box() -> AsyncIterator[Broker]:
    """One that asks no question itself."""
    async with box() as broker:
        broker.nodes[0].switches.put("transactionTimeOut", "3600000")
        yield broker


async def lose_the_connection(transaction: TransactionBlock, word: str) -> None:
    async with transaction:
        getattr(transaction, word)()
        raise ConnectionResetError


@pytest.mark.parametrize(
    ("word", "state", "there"),
    [
        ("commit", TransactionState.COMMIT, [b"paid"]),
        ("rollback", TransactionState.ROLLBACK, []),
        ("unknown", None, []),
    ],
)
def test_what_the_block_has_said_stands_though_it_raises(
    word: str, state: TransactionState | None, there: list[bytes]
) -> None:
    """A database may have committed, and its connection be lost: a rollback then would lose the message."""

    async def story() -> None:
        async with patient_box() as broker, Producer(name_servers=broker.address, check=Desk().check) as producer:
            transaction = producer.transaction(Message("orders", b"paid"))
            with pytest.raises(ConnectionResetError):
                await lose_the_connection(transaction, word)

            assert state == transaction.state
            assert there == bodies(broker, "orders")

    run(story)


def test_an_error_that_cannot_be_shown_rolls_back_and_goes_on() -> None:
    async def story() -> None:
        async with patient_box() as broker, Producer(name_servers=broker.address, check=Desk().check) as producer:
            with pytest.raises(Unspeakable):
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    raise Unspeakable

            assert TransactionState.ROLLBACK == transaction.state

    run(story)


def test_a_question_about_a_block_that_runs_here_is_answered_without_the_function() -> None:
    """Which could only say what it finds in the store: nothing yet. "rollback" would be final."""

    async def story() -> None:
        desk = Desk("rollback")
        async with box() as broker, Producer(name_servers=broker.address, check=desk.check) as producer:
            async with producer.transaction(Message("orders", b"paid")) as transaction:
                await until(lambda: producer.cluster.checks.answered >= 2)

            assert 0 == desk.asked.qsize()
            assert TransactionState.COMMIT == transaction.state
            async with producer.transaction(Message("orders", b"left")) as left:
                left.unknown()
            await desk.asked.get()

    run(story)


def moved(half: bytes, *, place: int, offset: int, broker: str) -> RemotingCommand:
    """A question as of a stock broker, which has stored the half message anew."""
    header = CheckTransactionRequest(
        tran_state_table_offset=offset, commit_log_offset=place, topic=HALF_TOPIC, msg_id="?", transaction_id="?",
        offset_msg_id="?", broker_name=broker,
    )  # fmt: skip
    return RemotingCommand(CheckTransactionRequest.CODE, to_fields(header), half, flag=ONE_WAY_BIT)


def half_in(broker: Broker) -> bytes:
    """The one half message, as it is stored."""
    queue = broker.nodes[0].queue(HALF_TOPIC, 0)
    assert queue is not None
    (half,) = broker.nodes[0].store.log.read(queue, 0, count_max=9, bytes_max=1 << 20)[0]
    return half


def ask(broker: Broker, question: RemotingCommand) -> None:
    (member,) = broker.nodes[0].members.producers("desk")
    member.client.send(question)


@pytest.mark.parametrize(("broker_name", "ended"), [("broker-a", ("4711", "17")), ("another", None)])
def test_the_end_is_told_of_the_half_message_that_was_asked_about_last(
    broker_name: str, ended: tuple[str, str] | None
) -> None:
    """A stock broker stores it anew for each question, and asks about the newest: it would be committed twice."""

    async def story() -> None:
        told: list[tuple[str, str]] = []

        def end(request: Request) -> RemotingCommand:
            fields = request.command.fields
            told.append((fields["commitLogOffset"], fields["tranStateTableOffset"]))
            return RemotingCommand(0)

        async with patient_box() as broker, Producer(name_servers=broker.address, check=Desk().check) as producer:
            async with producer.transaction(Message("orders", b"paid")):
                ask(broker, moved(half_in(broker), place=4711, offset=17, broker=broker_name))
                await until(lambda: producer.cluster.checks.answered)
                broker.intercept(
                    Interceptor(code=RequestCode.END_TRANSACTION, answer=end, when=lambda it: not it.command.is_one_way)
                )

            assert [ended or ("0", "0")] == told

    run(story)


def test_a_member_that_says_rollback_while_the_block_runs_elsewhere_is_told_of() -> None:
    """That check function breaks its promise, and the message is lost: the line says what ended it."""

    async def story() -> None:
        hasty = Desk("rollback")
        async with (
            box() as broker,
            Producer(name_servers=broker.address, check=Desk().check) as producer,
            Producer(name_servers=broker.address, check=hasty.check) as another,
        ):
            with capture_logs() as lines:
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    await until(lambda: another.cluster.checks.answered and not is_open(broker))

            assert transaction.state is None
            (line,) = [line for line in lines if line["event"] == "transaction end not confirmed"]
            assert "the transaction is rolled back already; if it has not ended, the check decides" in line["reason"]

    run(story)


def is_open(broker: Broker) -> bool:
    return halves.next_due_ms(broker.nodes[0].store.database.writing) is not None


def test_a_producer_that_is_stopped_in_the_block_leaves_it_to_the_check() -> None:
    async def story() -> None:
        async with patient_box() as broker:
            producer = Producer(name_servers=broker.address, check=Desk().check)
            await producer.start()
            with capture_logs() as lines:
                async with producer.transaction(Message("orders", b"paid")) as transaction:
                    await producer.stop()

            assert transaction.state is None
            assert ["transaction end not confirmed"] == [
                line["event"] for line in lines if line["log_level"] == "warning"
            ]

    run(story)


@pytest.fixture(scope="module")
def blocking_box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        yield box


@transaction_check("sync-desk")
def undecided(message: Message) -> str:
    return "unknown"


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_a_blocking_producer_that_is_stopped_in_the_block_does_so_too(
    blocking_box: ThreadBox, error: type[Exception] | None
) -> None:
    """The block ends as it would have: an error would hide that the local transaction is committed."""
    producer = SyncProducer(name_servers=blocking_box.address, check=undecided)
    producer.start()
    with capture_logs() as lines:
        try:
            with producer.transaction(Message("orders", b"paid")) as transaction:
                producer.stop()
                if error is not None:
                    raise error
        except ZeroDivisionError:
            assert error is not None

    (line,) = [line for line in lines if line["event"] == "transaction end not confirmed"]
    assert ("commit" if error is None else "rollback") == line["state"]
    assert transaction.state is None


def test_a_block_that_ends_in_a_child_process_is_the_parent_s(blocking_box: ThreadBox) -> None:
    with SyncProducer(name_servers=blocking_box.address, check=undecided) as producer:
        block = producer.transaction(Message("orders", b"paid"))
        transaction = block.__enter__()

        def child() -> None:
            block.__exit__(None, None, None)
            os._exit(7 if transaction.state is None else 1)

        process = multiprocessing.get_context("fork").Process(target=child, daemon=True)
        process.start()
        process.join(PATIENCE_S)
        block.__exit__(None, None, None)

    assert 7 == process.exitcode
    assert TransactionState.COMMIT == transaction.state


def test_an_interrupted_block_is_asked_about() -> None:
    """Ctrl-C passes through a blocking block: from then on the check function answers, and not the block."""

    async def story() -> None:
        desk = Desk("commit")

        is_there = threading.Event()

        def interrupted(address: str) -> None:
            with SyncProducer(name_servers=address, check=desk.check) as producer:
                with pytest.raises(KeyboardInterrupt), producer.transaction(Message("orders", b"paid")):
                    raise KeyboardInterrupt
                is_there.wait(PATIENCE_S)

        async with box() as broker:
            working = asyncio.get_running_loop().run_in_executor(None, interrupted, broker.address)
            await until(lambda: bodies(broker, "orders") == [b"paid"])
            is_there.set()
            await working

    run(story)
