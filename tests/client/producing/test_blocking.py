"""SyncProducer and Publisher.blocking, over a broker in another thread."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, get_type_hints

import pytest

from framework import Message, Producer, Publisher, SyncProducer, TransactionState, transaction_check
from framework.client.outgoing import SendResult
from framework.client.producing.options import ProducerOptions
from framework.errors import BrokerUnreachable, ConfigurationError, Forked, RequestTimedOut
from tests.patience import PATIENCE_S
from tests.reading.threads import ThreadBox, thread_box

_NUMBERS = count()


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        yield box


@pytest.fixture
def topic() -> str:
    return f"blocking-{next(_NUMBERS)}"


def test_it_sends_in_every_way_and_waits(box: ThreadBox, topic: str) -> None:
    with SyncProducer(name_servers=box.address, group="scripts") as producer:
        first = producer.send(topic, {"id": 1}, order_key="K")
        batch = producer.send_batch([Message(topic, f"{n}", order_key="K") for n in range(3)])
        producer.send_one_way(topic, b"x", queue=first.queue)
        last = producer.send(topic, b"x", queue=first.queue)
        later = producer.send(topic, b"later", delay="1h")
        assert later.message_id == producer.recall(later.recall_handle)
        assert first.queue == producer.queue_of(topic, "K")

    assert [0, 1, 2, 3] == [result.queue_offset for result in (first, *batch)]
    assert 5 == last.queue_offset, "the one-way is before it"


def test_threads_share_it(box: ThreadBox, topic: str) -> None:
    results: list[SendResult] = []
    with SyncProducer(name_servers=box.address) as producer:
        threads = [
            threading.Thread(target=lambda: results.extend(producer.send(topic, b"x") for _ in range(10)))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert 50 == len({(result.queue, result.queue_offset) for result in results})


def test_errors_are_those_of_the_producer(box: ThreadBox, topic: str) -> None:
    with SyncProducer(name_servers=box.address) as producer, pytest.raises(ConfigurationError, match="body is empty"):
        producer.send(topic, b"")
    with (
        pytest.raises(ConfigurationError, match="compression 'rar'"),
        SyncProducer(name_servers=box.address, compression="rar"),
    ):
        pass


@transaction_check("blocking-desk")
def undecided(message: Message) -> str:
    return "unknown"


def test_a_transaction_ends_with_its_block(box: ThreadBox, topic: str) -> None:
    """Committed, rolled back by an exception or by a word; an interrupt leaves it to the check."""
    with SyncProducer(name_servers=box.address, check=undecided) as producer:
        with producer.transaction(Message(topic, b"yes")) as committed:
            assert committed.message_id
        with pytest.raises(ZeroDivisionError), producer.transaction(Message(topic, b"no")) as raised:
            raise ZeroDivisionError
        with producer.transaction(Message(topic, b"no")) as withdrawn:
            withdrawn.rollback()
        with pytest.raises(KeyboardInterrupt), producer.transaction(Message(topic, b"perhaps")) as left:
            raise KeyboardInterrupt
        states = [block.state for block in (committed, raised, withdrawn, left)]
        places = [producer.send(topic, b"x").queue_offset for _ in range(4)]

    assert [TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.ROLLBACK, None] == states
    assert 1 == sum(places), "of the four queues one has the committed message before ours"


def test_a_transaction_without_a_check_and_a_request_without_a_reply_are_said(box: ThreadBox, topic: str) -> None:
    with SyncProducer(name_servers=box.address) as producer:
        with (
            pytest.raises(ConfigurationError, match="it has no check function"),
            producer.transaction(Message(topic, b"x")),
        ):
            raise AssertionError("its block does not begin")
        with pytest.raises(RequestTimedOut, match="no reply within 1000 ms"):
            producer.request(topic, b"x", timeout="1s")


def test_before_the_start_and_after_the_stop_it_says_so(box: ThreadBox, topic: str) -> None:
    producer = SyncProducer(name_servers=box.address)
    with pytest.raises(ConfigurationError, match="SyncProducer: start it first"):
        producer.send(topic, b"x")
    producer.start()
    producer.start()
    producer.send(topic, b"x")
    producer.stop()
    producer.stop()
    with pytest.raises(ConfigurationError, match="once stopped it stays so"):
        producer.send(topic, b"x")
    with pytest.raises(ConfigurationError, match="it was stopped, or failed to start"):
        producer.start()


@pytest.mark.parametrize(("is_begun", "told"), [(False, "nothing was sent"), (True, "what was under way may be done")])
def test_a_thread_whose_call_ends_with_the_loop_is_told(box: ThreadBox, topic: str, is_begun: bool, told: str) -> None:
    """As where another thread stops it meanwhile, or the application of a plain handler ends."""
    loop = asyncio.new_event_loop()
    running = Producer(name_servers=box.address)
    loop.run_until_complete(running.start())
    blocking = SyncProducer(over=running)
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(blocking.request, topic, b"nobody replies", timeout="1h")
        while not loop._ready:  # type: ignore[attr-defined]  # asyncio shows it in no other way
            pass
        if is_begun:
            loop.run_until_complete(asyncio.sleep(0))
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()

        with pytest.raises(BrokerUnreachable, match=f"it was stopped; {told}"):
            asked.result(PATIENCE_S)


def test_it_prints_nothing(box: ThreadBox) -> None:
    """What a program prints is its own: lines go to `logging`, as those of `Producer` do."""
    code = f"""
from framework import SyncProducer
with SyncProducer(name_servers="{box.address}") as producer:
    producer.send("quiet", b"x")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert ("", "") == (done.stdout, done.stderr)


def test_it_does_not_block_an_event_loop(box: ThreadBox, topic: str) -> None:
    with SyncProducer(name_servers=box.address) as producer:

        async def blocked() -> None:
            producer.send(topic, b"x")

        with pytest.raises(
            ConfigurationError, match=r"SyncProducer.send: it would block the event loop of this thread"
        ):
            asyncio.run(blocked())


def test_a_plain_handler_s_thread_sends_by_the_application_s_producer(box: ThreadBox, topic: str) -> None:
    async def application() -> SendResult:
        async with Producer(name_servers=box.address) as producer:
            publisher = Publisher(lambda: producer)
            await publisher.send(topic, b"awaited")
            send = partial(publisher.blocking.send, topic, b"blocking")
            return await asyncio.get_running_loop().run_in_executor(None, send)

    assert asyncio.run(application()).message_id


def test_it_is_of_its_own_or_over_another() -> None:
    with pytest.raises(ConfigurationError, match="give either name_servers or over"):
        SyncProducer()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name_servers": "nope"}, "name server 'nope': write host:port"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"over": "producer", "name_servers": "", "timeout": "3s"}, "timeout: give it to the producer that is `over`"),
    ],
)
def test_a_wrong_option_is_said_where_it_is_given(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        SyncProducer(**{"name_servers": "127.0.0.1:9876", **options})


def test_its_options_are_those_of_the_producer() -> None:
    """Written twice, so that editors know them."""
    own = {"name_servers", "cluster", "world"}
    assert get_type_hints(ProducerOptions) == {
        name: kind for name, kind in get_type_hints(Producer.__init__).items() if name not in {*own, "return"}
    }


@pytest.mark.parametrize("is_blocking", [False, True])
def test_one_that_was_not_started_before_a_fork_is_each_child_s_own(
    box: ThreadBox, topic: str, is_blocking: bool
) -> None:
    """As in a preloaded worker. With one seed in each of them ids would repeat, and `once=` drop messages."""
    plain, blocking = Producer(name_servers=box.address), SyncProducer(name_servers=box.address)

    async def in_a_loop() -> tuple[str, str]:
        async with plain:
            return plain.cluster.options.client_id, (await plain.send(topic, b"x")).message_id

    def child(end: Connection) -> None:
        if is_blocking:
            with blocking:
                end.send((str(os.getpid()), blocking.send(topic, b"x").message_id))
        else:
            end.send(asyncio.run(in_a_loop()))
        os._exit(0)

    told = []
    for _ in range(2):
        ours, its = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=child, args=(its,))
        process.start()
        assert ours.poll(PATIENCE_S)
        told.append(ours.recv())
        process.join(PATIENCE_S)

    (first_client, first), (second_client, second) = told
    assert first_client != second_client
    assert first[8:20] != second[8:20], "process and seed"


def test_a_forked_child_is_told_instead_of_waiting_for_ever(box: ThreadBox, topic: str) -> None:
    with SyncProducer(name_servers=box.address) as producer:
        producer.send(topic, b"x")

        def child() -> None:
            try:
                producer.send(topic, b"y")
            except Forked as error:
                os._exit(7 if "this SyncProducer belongs to process" in str(error) else 1)
            os._exit(1)

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(PATIENCE_S)
        code = process.exitcode
        assert producer.send(topic, b"z").message_id, "the parent goes on"

    assert 7 == code
