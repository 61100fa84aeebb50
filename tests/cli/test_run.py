"""`run` and `dev` as processes: what they print, how they end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from framework.cli.exit_codes import ExitCode
from tests.cli.processes import ROOT, command

SHOP = """
import asyncio

from framework import DeadLetter, Message, Producer, consumer
from framework.hooks import hookimpl


@consumer("orders", "billing")
async def bill(order: Message) -> DeadLetter | None:
    if order.body == b"bad":
        return DeadLetter("not an order")
    if order.body == b"slow":
        print("slow one started", flush=True)
        await asyncio.sleep(3600)  # a handler that hangs; nobody waits for it
    return None


class Sends:
    @hookimpl
    def app_started(self, app):
        self.task = asyncio.get_running_loop().create_task(self.send(app))

    async def send(self, app):
        async with Producer(cluster=app.cluster) as producer:
            for body in BODIES:
                await producer.send("orders", body, keys="key-" + body)
"""
HANGS = """
import os
import re
import threading


@consumer("orders", "billing")
def hang(order: Message) -> None:
    print(f"hangs in {os.getpid()}", flush=True)
    threading.Event().wait()
"""
HASTY = ("--set", "app.drain=100ms")
HANGS_SETTINGS = "start: first, concurrency: 1, timeout: 200ms, expiry: drop"
SETTINGS = """
app: {handlers: [shop], drain: 1m}
cluster: {request_timeout: 60s}
consumers: {billing: {start: first}}
plugins: {local: [shop]}
"""


def shop(folder: Path, *bodies: str) -> Path:
    (folder / "shop.py").write_text(f"BODIES = {list(bodies)!r}\n{SHOP}")
    (folder / "framework-app.yaml").write_text(SETTINGS)
    return folder


def test_events_are_one_a_line_and_the_totals_come_last(tmp_path: Path, box: str) -> None:
    with command("run", "--name-server", box, "--json", folder=shop(tmp_path, "a", "bad")) as run:
        for _ in range(2):
            run.line()
        assert 0 == run.end()

    *events, last = [json.loads(line) for line in run.lines]
    assert {"event": "stopped", "handled": 1, "retried": 0, "dead_lettered": 1, "abandoned": 0} == last
    assert {("handled", "key-a"), ("dead_lettered", "key-bad")} == {(each["event"], each["key"]) for each in events}
    every = {"event", "group", "topic", "queue", "offset", "message_id", "attempt", "outcome", "elapsed_ms", "key"}
    fields = {each["event"]: set(each) for each in events}  # two queues: either may be first
    assert {"handled": every, "dead_lettered": every | {"reason", "error"}} == fields


def test_a_signal_drains_and_the_last_line_counts(tmp_path: Path, box: str) -> None:
    with command("run", "shop", "--name-server", box, "--for", "1h", *HASTY, folder=shop(tmp_path, "slow")) as run:
        run.until("slow one started")
        code = run.end(signal.SIGINT)

    assert "drained: handled=0 retried=0 dead=0 left=1" == run.lines[-1]
    assert ExitCode.ABANDONED == code


def test_the_length_of_a_run_may_be_given(tmp_path: Path, box: str) -> None:
    with command("run", "--name-server", box, "--for", "200ms", folder=shop(tmp_path)) as run:
        assert 0 == run.end(None)

    assert "drained: handled=0 retried=0 dead=0 left=0" == run.lines[-1]


def test_giving_up_on_a_broker_is_69(tmp_path: Path) -> None:
    with command("run", "--name-server", "127.0.0.1:9", "--wait-broker", "300ms", folder=shop(tmp_path)) as run:
        assert ExitCode.UNREACHABLE == run.end(None)


def test_a_signal_ends_a_run_that_still_waits_for_its_broker(tmp_path: Path) -> None:
    """`retried for ever` must not mean that nobody can stop it."""
    (tmp_path / "telling.py").write_text(
        "from framework.hooks import hookimpl\n"
        "class Telling:\n"
        "    def __init__(self): print('loaded', flush=True)\n"
        "    @hookimpl\n"
        "    def app_stopping(self): ...\n"
    )
    folder = shop(tmp_path)
    with command("run", "--name-server", "127.0.0.1:9", "--set", "plugins.local=telling", folder=folder) as run:
        run.until("loaded")
        assert run.end(signal.SIGTERM) in {0, -signal.SIGTERM}


def test_wrong_settings_are_78_and_nothing_is_connected(tmp_path: Path) -> None:
    with command("run", "--set", "app.nmae=x", folder=shop(tmp_path)) as run:
        assert ExitCode.CONFIGURATION == run.end(None)


def test_a_running_command_takes_over_its_settings_and_sighup_does_not_end_it(tmp_path: Path, box: str) -> None:
    folder = shop(tmp_path, "slow", "slow")
    one = "consumers: {billing: {start: first, concurrency: 1}}"
    (folder / "framework-app.yaml").write_text(SETTINGS.replace("consumers: {billing: {start: first}}", one))
    with command("run", "--name-server", box, *HASTY, folder=folder) as run:
        run.until("slow one started")
        (folder / "framework-app.yaml").write_text(SETTINGS)
        run.process.send_signal(signal.SIGHUP)
        run.until("slow one started")
        assert ExitCode.ABANDONED == run.end()

    assert "drained: handled=0 retried=0 dead=0 left=2" == run.lines[-1]


def test_workers_share_the_work_and_their_totals_are_summed(tmp_path: Path, box: str) -> None:
    folder, seen = shop(tmp_path, "a", "b"), set[str]()
    with command("run", "--name-server", box, "--workers", "2", "--json", folder=folder) as run:
        while len(seen) < 4:  # each of the two sends both
            seen.add(json.loads(run.line())["message_id"])
        assert 0 == run.end()

    # What the first is at when the second joins may be handled by both.
    *events, last = [json.loads(line) for line in run.lines]
    assert 4 <= len(events) <= 8
    assert {"event": "stopped", "handled": len(events), "retried": 0, "dead_lettered": 0, "abandoned": 0} == last


def test_a_worker_whose_handlers_hang_is_replaced(tmp_path: Path, box: str) -> None:
    """A process of one place holds two handlers that never end; the third is begun by its successor."""
    (tmp_path / "shop.py").write_text(f"BODIES = {['a', 'b', 'c']!r}\n{SHOP}\n{HANGS}")
    (tmp_path / "framework-app.yaml").write_text(SETTINGS.replace("start: first", HANGS_SETTINGS))
    with command("run", "shop:hang", "--name-server", box, "--workers", "2", *HASTY, folder=tmp_path) as run:
        numbers = {run.until("hangs in ") for _ in range(5)}
        assert len(numbers) >= 3
        run.end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_dev_brings_a_broker_and_drains_for_the_whole_group(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches every process of the terminal's group, and still everything ends in order."""
    with command("dev", "shop", folder=shop(tmp_path, "a", "bad")) as dev:
        assert dev.until("ready: ").startswith("ready: namesrv=127.0.0.1:")
        shown = {dev.line(), dev.line()}
        dev.signal_group(number)
        code = dev.end(None)

    assert {
        "handled orders key-a group=billing",
        "dead-lettered orders key-bad group=billing: not an order",
    } == shown
    assert "drained: handled=1 retried=0 dead=1 left=0" == dev.lines[-1]
    assert 0 == code


def test_dev_starts_anew_when_a_file_changes_and_outlives_a_mistake(tmp_path: Path) -> None:
    folder = shop(tmp_path, "a")
    with command("dev", "shop", folder=folder) as dev:
        dev.until("handled orders key-a")

        (folder / "shop.py").write_text("import no_such_module\n")
        shop(folder, "b")
        dev.until("handled orders key-b")
        code = dev.end(signal.SIGINT)

    assert 1 == sum(line.startswith("ready: ") for line in dev.lines)
    assert "drained: handled=2 retried=0 dead=0 left=0" == dev.lines[-1]
    assert 0 == code


@pytest.mark.parametrize("arguments", [("dev", "example_app"), ("run", "shop", "--json")])
def test_it_drains_and_ends_when_nobody_reads_it_any_more(tmp_path: Path, box: str, arguments: tuple[str, ...]) -> None:
    """`framework-app dev | head -1` must not stay behind for ever."""
    folder = ROOT if "example_app" in arguments else shop(tmp_path, *"abcdefgh")
    server = () if "example_app" in arguments else ("--name-server", box)
    with command(*arguments, *server, folder=folder) as running:
        running.line()
        assert running.process.stdout is not None
        running.process.stdout.close()
        if "example_app" not in arguments:
            running.process.terminate()  # all events may have been read already: its last line is what breaks

        assert 0 == running.process.wait()


def test_the_example_runs() -> None:
    """What `make demo` shows."""
    with command("dev", "example_app", "--set", "plugins.settings.traffic.per_second=100", folder=ROOT) as dev:
        dev.until("ready: ")
        dev.until("handled orders ")
        dev.until("retry orders ")
        dev.until("dead-lettered orders ")
        dev.until("handled stock ")
        code = dev.end(signal.SIGINT)

    assert dev.lines[-1].startswith("drained: handled=")
    assert dev.lines[-1].endswith(" left=0")
    assert 0 == code
