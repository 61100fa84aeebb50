"""Plain handlers in endless loops, under `run --workers`: their process is drained and another takes its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.processes import Errors, command
from tests.cli.test_workers import SHARED, send

SHOP = """
import os
import time

from framework import Message, consumer


@consumer("orders", "billing")
def bill(order: Message) -> None:
    print(f"began {order.body.decode()} in {os.getpid()}", flush=True)
    while order.body == b"endless":
        time.sleep(0.01)  # a loop without end is what this is about; it leaves the processor to others
"""
SETTINGS = """
app: {handlers: [shop]}
consumers: {billing: {start: first, concurrency: 1, timeout: 1s, expiry: drop}}
"""


def test_a_worker_whose_threads_all_hang_is_replaced_and_what_it_held_goes_on(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One place, and one beside it for the first that hangs: the second one that hangs leaves none."""
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    send(box, "first")  # so that there is a topic to share
    errors = Errors(capfd)
    with command("run", "--name-server", box, "--workers", "2", folder=tmp_path) as running:
        errors.until(running, SHARED, 2)
        send(box, "endless", "endless", "fine")
        hung = {int(running.until("began endless in ").rpartition(" ")[2]) for _ in range(2)}
        held = int(running.until("began fine in ").rpartition(" ")[2])
        errors.until(running, "its handlers hang")
        assert 0 == running.end()

    assert 1 == len(hung)
    assert held not in hung
    assert "handlers hung" in errors.text
    assert f"bill({tmp_path.name}/shop.py:" in errors.text
    with pytest.raises(ProcessLookupError):
        os.kill(hung.pop(), 0)
    assert running.lines[-1].endswith("retried=0 dead=0 left=0"), "nobody waits for those that hang"
