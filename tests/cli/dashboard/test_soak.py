"""Ten minutes with everything on: metrics scraped each second, traces, a dashboard that is open, retries, dead letters.
Memory stays where it is.

`SOAK_SECONDS` is how long; 600 where nobody says so.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import pytest

from benchmarks.observers import ask
from framework import Message, SyncProducer
from tests.cli.processes import command
from tests.ports import free_port
from tests.runtime.observe.asking import read, series

SECONDS = int(os.environ.get("SOAK_SECONDS", "600"))
TOKEN = "a-token-of-the-soak-alone"
BATCH, PAUSE_S = 200, 0.1
GROWTH_MAX = 1.05
"""Of the median of the last fifth over that of the second: what is noise, and what a leak of 10 B a message passes."""
SHOP = """
import asyncio

from benchmarks.handlers.sampled import export_nowhere
from framework import DeadLetter, Message, RetryLater, consumer

export_nowhere()


@consumer("orders", "billing")
async def bill(order: Message) -> DeadLetter | RetryLater | None:
    number = int(order.body[:8])
    if number % 50 == 7 and number < 5_000:  # more of them are more to show, and no leak
        return DeadLetter("no card")
    if number % 20 == 3 and order.attempt == 1:
        return RetryLater("1s")
    await asyncio.sleep(0.001)
    return None
"""


@contextmanager
def repeated(act: Callable[[], object], seconds: float) -> Iterator[None]:
    """The act again and again, on a thread; what it raises is raised at the end."""
    is_over, errors = threading.Event(), []

    def serve() -> None:
        while not is_over.wait(seconds):
            try:
                act()
            except Exception as error:  # noqa: BLE001 - border: raised below
                errors.append(error)
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert [] == errors


def resident_bytes(process: int) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 300)
def test_memory_is_flat_with_everything_on(tmp_path: Path) -> None:
    port, numbers, sizes = free_port(), count(), []
    (tmp_path / "shop.py").write_text(SHOP)
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    with ExitStack() as stack:
        store = ("--data", str(tmp_path / "data"))  # in memory the box would hold a gigabyte at the end
        broker = command("broker", *store, "--port", "0", folder=tmp_path, environment=environment)
        found = re.search(r"namesrv=(\S+)", stack.enter_context(broker).until("broker: ready"))
        assert found is not None
        settings = {
            "app": {"name": "shop", "handlers": ["shop"]},
            "cluster": {"name_servers": [found[1]]},
            "consumers": {"billing": {"start": "first"}},
            "logging": {"level": "error"},
            "plugins": {"settings": {"otel": {"enabled": True, "sample": 0.01}}},
            "observe": {
                "listen": f"127.0.0.1:{port}", "dashboard": True, "token": TOKEN, "public": ["metrics", "probes"],
            },
        }  # fmt: skip
        (tmp_path / "framework-app.yaml").write_text(json.dumps(settings))
        producer = stack.enter_context(SyncProducer(name_servers=[found[1]]))

        def send() -> None:
            producer.send_batch([Message("orders", b"%08d %s" % (next(numbers), b"x" * 100)) for _ in range(BATCH)])

        send()
        running = stack.enter_context(command("run", folder=tmp_path, environment=environment))
        running.until("ready")
        _, _, cookie = ask(port, "POST", "/login", urlencode({"token": TOKEN}))

        def scrape() -> None:
            assert 200 == read(port, "/metrics").status
            assert 200 == read(port, "/live").status

        def renew() -> None:
            for path in ("/", "/group?group=billing", "/dead-letters?group=billing"):
                ask(port, "GET", path, cookie=cookie)

        with repeated(send, PAUSE_S), repeated(scrape, 1.0), repeated(renew, 5.0):
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                sizes.append(resident_bytes(running.process.pid))
                time.sleep(1)  # a sample each second
        metrics = series(read(port, "/metrics").body)
        running.end()

    fifth = len(sizes) // 5
    early, late = statistics.median(sizes[fifth : 2 * fifth]), statistics.median(sizes[-fifth:])
    by_outcome = {
        outcome: metrics[f'framework_app_messages_total{{consumer_group="billing",outcome="{outcome}"}}']
        for outcome in ("handled", "retried", "dead_lettered")
    }
    each = [round(size / 1e6, 1) for size in sizes[:: max(len(sizes) // 20, 1)]]
    print(f"{SECONDS} s: {early / 1e6:.1f} MB, then {late / 1e6:.1f} MB; {each}; {by_outcome}")
    assert late <= early * GROWTH_MAX, each
    assert all(by_outcome.values()), by_outcome
