"""`run --workers N`: one parent over processes that it ends in turn, has read their settings anew, and replaces."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from framework import Message, Producer
from framework.cli.commands.run import memory_bytes, reason_to_recycle
from framework.cli.exit_codes import ExitCode
from framework.cli.output import Event, mistake_event
from framework.cli.processes.children import Child, Children
from framework.cli.processes.supervise import _State, nothing
from framework.model.queue import MessageQueue
from framework.services.pool.run import MessageCounts
from framework.settings.schema import WorkersSettings
from tests.cli.processes import Command, Errors, command
from tests.cli.test_usual_mistakes import said
from tests.patience import wait_until

SHOP = """
import asyncio
import os

from framework import Message, Producer, consumer
from framework.hooks import hookimpl


@consumer("orders", "billing")
async def bill(order: Message) -> None:
    print(f"handled in {os.getpid()} {order.queue} {order.queue_offset} {order.body.decode()}", flush=True)
    if order.body == b"slow":
        await asyncio.sleep(3600)  # a handler that hangs; nobody waits for it


class Sends:
    @hookimpl
    def app_started(self, app):
        self.task = asyncio.get_running_loop().create_task(self.send(app))

    async def send(self, app):
        async with Producer(cluster=app.cluster) as producer:
            for body in BODIES:
                await producer.send("orders", body)
"""
SETTINGS = """
app: {handlers: [shop], drain: DRAIN}
cluster: {request_timeout: 60s}
consumers: {billing: {start: first}}
plugins: {local: [shop]}
"""
WORKERS = ("--workers", "2")
SHARED = "members=2 owned=2 queues=4 topic=orders"
"""What each of two workers says once it knows of the other."""


def shop(folder: Path, *bodies: str, drain: str = "30s") -> Path:
    (folder / "shop.py").write_text(f"BODIES = {list(bodies)!r}\n{SHOP}")
    (folder / "framework-app.yaml").write_text(SETTINGS.replace("DRAIN", drain))
    return folder


def send(box: str, *bodies: str, queue: int | None = None) -> None:
    """All in one queue, so that one worker has them."""
    place = None if queue is None else MessageQueue("orders", "broker-a", queue)

    async def sending() -> None:
        async with Producer(name_servers=[box]) as producer:
            await producer.send_batch([Message("orders", body.encode()) for body in bodies], queue=place)

    asyncio.run(sending())


@contextmanager
def both_at_work(folder: Path, box: str, errors: Errors, *, drain: str) -> Iterator[tuple[Command, set[int]]]:
    """Two workers with two handlers each that never end; and the workers' numbers."""
    send(box, "first")  # so that there is a topic to share
    with command("run", "--name-server", box, *WORKERS, folder=shop(folder, drain=drain)) as running:
        errors.until(running, SHARED, 2)
        for queue in range(4):
            send(box, "slow", queue=queue)
        slow: list[list[str]] = []
        while len(slow) < 4:
            words = running.until("handled in ").split()
            slow += [words] if words[-1] == "slow" else []
        yield running, {int(words[2]) for words in slow}


def test_settings_are_read_anew_by_every_worker_when_the_parent_is_told_to(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """SIGHUP: each worker says so, whether or not something differs; and its lines have its number as before."""
    errors, folder = Errors(capfd), shop(tmp_path)
    with command("run", "--name-server", box, *WORKERS, folder=folder) as running:
        running.until("ready: ")  # of both: who is still coming up is not told
        running.process.send_signal(signal.SIGHUP)
        errors.until(running, "settings unchanged", 2)
        with (folder / "framework-app.yaml").open("a") as settings:
            settings.write("logging: {level: debug}\n")
        running.process.send_signal(signal.SIGHUP)
        errors.until(running, "setting changed", 2)
        changed = [line for line in errors.read().splitlines() if "setting changed" in line]
        assert ["worker=0", "worker=1"] == sorted(line.rpartition(" ")[2] for line in changed), changed
        assert 0 == running.end()


def test_messages_that_two_workers_leave_behind_are_75_and_counted(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    errors = Errors(capfd)
    with both_at_work(tmp_path, box, errors, drain="100ms") as (running, workers):
        assert ExitCode.ABANDONED == running.end()
    assert 2 == len(workers)
    # On a busy machine one may hear of its end late, and begin what the other left. The first message may be given to
    # both, while they begin to share.
    left = [int(count) for count in re.findall(r"app stopped .*abandoned=(\d+)", errors.read())]
    assert 2 == len(left)
    assert min(left) >= 2
    last = running.lines[-1]
    assert re.fullmatch(rf"drained: handled=[12] retried=0 dead=0 left={sum(left)}", last), last


def test_the_second_signal_leaves_at_once(tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Both workers are gone, too, though each would have drained for an hour."""
    errors = Errors(capfd)
    with both_at_work(tmp_path, box, errors, drain="1h") as (running, workers):
        running.process.send_signal(signal.SIGTERM)
        errors.until(running, "handlers awaited")  # two in one moment would be an echo of the same wish
        assert ExitCode.LEFT_AT_ONCE == running.end(signal.SIGTERM)
    wait_until(lambda: not any(is_alive(each) for each in workers), "the end of both workers")


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--set", "consumers.biling.concurrency=2"), ExitCode.CONFIGURATION),
        (("--name-server", "127.0.0.1:9", "--wait-broker", "300ms"), ExitCode.UNREACHABLE),
    ],
)
def test_what_no_other_start_would_mend_ends_all_with_its_code(
    tmp_path: Path, options: tuple[str, ...], code: ExitCode
) -> None:
    with command("run", *WORKERS, *options, folder=shop(tmp_path)) as running:
        assert code == running.end(None)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_each_worker_fails_by_is_said_once(tmp_path: Path, more: tuple[str, ...]) -> None:
    code, lines, shown = said(shop(tmp_path), "run", *WORKERS, *more, "--set", "consumers.biling.concurrency=2")

    assert (ExitCode.CONFIGURATION, []) == (code, shown)
    assert 1 == sum("no consumer is in this group; did you mean 'billing'?" in line for line in lines)
    assert (1 if more else 2) == len(lines)
    code, lines, _ = said(
        shop(tmp_path), "run", *WORKERS, *more, "--name-server", "127.0.0.1:9", "--wait-broker", "300ms"
    )
    assert (ExitCode.UNREACHABLE, 1) == (code, sum("no broker accepted a heartbeat" in line for line in lines))


def test_a_worker_that_fails_by_the_same_again_says_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Each start of an application that cannot start is a line, however many workers it has."""
    children = Children([], on_line=print, on_told=nothing, changed=lambda: None)
    first, second = (Child(cast("Any", None), cast("Any", None), worker) for worker in (0, 1))

    for child in (first, second, second, first):
        children._line(child, mistake_event("error: no database\n"))
    assert 2 * "error: no database\n" == capsys.readouterr().err


def test_a_worker_that_has_done_enough_is_replaced_and_its_work_is_not_repeated(tmp_path: Path, box: str) -> None:
    """One process; its successor sends three more and does them, and so on."""
    limit = ("--set", "workers.max_messages=3")
    with command("run", "--name-server", box, *limit, folder=shop(tmp_path, "a", "b", "c")) as running:
        lines = [running.until("handled in ") for _ in range(7)]
        assert 0 == running.end()

    assert [3, 3, 1] == list(Counter(line.split()[2] for line in lines).values())
    handled = [line.split()[3:] for line in running.lines if line.startswith("handled in ")]
    assert [] == [place for place in handled if handled.count(place) > 1]
    assert f"drained: handled={len(handled)} retried=0 dead=0 left=0" == running.lines[-1]


HOARDER = """
import asyncio
import os

from framework import Message, consumer

KEPT = []


@consumer("orders", "billing")
async def hoard(order: Message) -> None:
    KEPT.append(bytearray(os.urandom(16)) * (1 << 18))  # 4 MiB, and all of it written
    print(f"handled in {os.getpid()} {order.message_id}", flush=True)
    await asyncio.sleep(0.02)
"""
HOARD = """
app: {handlers: [hoarder]}
consumers: {billing: {start: first, concurrency: 2}}
workers: {max_memory: 160MiB}
"""


@pytest.mark.parametrize(
    "workers", [pytest.param((), id="one"), pytest.param(WORKERS, marks=pytest.mark.slow, id="two")]
)
def test_a_handler_that_grows_costs_processes_and_no_message(
    workers: tuple[str, ...], tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """By memory, end to end: each process that holds too much drains, its successor goes on; none lost, none twice.

    Memory is looked at twice a second: how much of it a process comes to is the machine's affair, and not asked here.
    Of two workers one takes queues from the other whenever one is replaced; with `progress` it waits for what runs.
    """
    (tmp_path / "hoarder.py").write_text(HOARDER)
    (tmp_path / "framework-app.yaml").write_text(HOARD)
    sent: set[str] = set()
    handled: dict[str, list[str]] = {}
    """Message -> the processes that handled it."""

    async def send(count: int) -> None:
        async with Producer(name_servers=[box]) as producer:
            for number in range(count):
                sent.add((await producer.send("orders", str(number))).message_id)

    options = (*workers, "--set", "consumers.billing.progress=broker") if workers else ()
    enough = 4 if workers else 3
    asyncio.run(send(40))
    with command("run", "--name-server", box, *options, folder=tmp_path) as running:
        while True:
            while sent - handled.keys():
                *_, process, message_id = running.until("handled in ").split()
                handled.setdefault(message_id, []).append(process)
            if len({process for processes in handled.values() for process in processes}) >= enough:
                break
            asyncio.run(send(10))  # a quick machine: nobody has looked at their memory yet
        assert 0 == running.end()

    assert sent == handled.keys(), "none is lost"
    lines = [line for line in running.lines if line.startswith("handled in ")]
    assert len(sent) == len(lines), f"none is handled twice: {[each for each in handled.items() if len(each[1]) > 1]}"
    assert f"drained: handled={len(sent)} retried=0 dead=0 left=0" == running.lines[-1]
    assert "MiB of memory" in capfd.readouterr().err


def test_a_worker_that_somebody_ends_is_replaced_and_it_is_said(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each worker sends one message when it starts: the third one is the successor's."""
    with command("run", "--name-server", box, *WORKERS, folder=shop(tmp_path, "a")) as running:
        os.kill(int(running.until("handled in ").split()[2]), signal.SIGTERM)
        Errors(capfd).until(running, "it ended by itself")
        for _ in range(2):
            running.until("handled in ")
        assert 0 == running.end()


class Quiet:
    """A process that prints nothing, and has ended when its output has."""

    pid, returncode = 0, 0

    async def wait(self) -> int:
        return 0


def test_a_worker_that_says_ready_after_asking_to_be_recycled_is_recycled_all_the_same() -> None:
    """Where messages wait, the first ones may be enough before the start is over."""
    told: list[Event] = []
    children = Children([], on_line=print, on_told=told.append, changed=lambda: None)
    child = Child(cast("Any", None), cast("Any", None))
    for line in ('{"event": "recycle", "reason": "3 messages"}', '{"event": "ready"}'):
        children._line(child, line)  # as `follow` hands it on

    assert ("3 messages", True) == (child.recycle_reason, child.is_ready)
    assert ["recycle", "ready"] == [event["event"] for event in told]


def test_the_pause_before_a_restart_grows_until_a_worker_has_run_soundly() -> None:
    state = _State()

    assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0] == [state.pause(59.0) for _ in range(7)]
    assert [1.0, 2.0] == [state.pause(60.0), state.pause(0.0)]


def test_how_long_a_worker_ran_is_known_when_it_has_ended() -> None:
    async def scenario() -> None:
        process: Any = Quiet()
        lines = asyncio.StreamReader()
        child = Child(process, lines)
        following = asyncio.get_running_loop().create_task(child.follow(lambda *_: None))
        await asyncio.sleep(0.02)
        lines.feed_eof()
        await following
        assert child.ran_seconds > 0.01

    asyncio.run(scenario())


def test_a_process_is_recycled_by_messages_or_by_memory_and_by_neither_unless_told() -> None:
    counts = MessageCounts()
    counts.handled, counts.retried, counts.dead_lettered, counts.dropped = 4, 3, 2, 1

    assert reason_to_recycle(counts, WorkersSettings()) is None
    assert reason_to_recycle(counts, WorkersSettings(max_messages=11)) is None
    assert "10 messages" == reason_to_recycle(counts, WorkersSettings(max_messages=10))
    held = memory_bytes()
    assert held > 1 << 20
    assert reason_to_recycle(counts, WorkersSettings(max_memory=held + (1 << 30))) is None
    reason = reason_to_recycle(counts, WorkersSettings(max_memory=1 << 24))
    assert reason is not None
    assert reason.endswith(" MiB of memory")
