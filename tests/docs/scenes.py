"""What pages with commands take for granted: messages that were sent, members that run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from framework import Message
from framework.cli import main
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.patience import wait_until
from tests.reading.threads import ThreadBox

LOOK_S = 0.3

SLOW = """
import asyncio
from framework import consumer

@consumer("orders", "billing")
async def bill(order: dict) -> None:
    print("began", flush=True)
    await asyncio.sleep(600)
"""


@contextmanager
def dead_letters(box: ThreadBox) -> Iterator[None]:
    """Of three orders two have no card."""
    orders: list[dict[str, Any]] = [{"number": 17}, {"number": 18, "card": "4711"}, {"number": 19}]
    box.send("orders", [Message("orders", json.dumps(order), keys=str(order["number"])) for order in orders], queue=0)
    _consume()
    os.environ["ID"] = _said("dlq", "list", "billing")[0]["message_id"]
    yield


def _said(*words: str) -> list[dict[str, Any]]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main.run([*words, "--json"])
    return [json.loads(line) for line in said.getvalue().splitlines()]


def _consume() -> None:
    subprocess.run([sys.executable, "-m", "framework", "run", "--until-idle", "200ms"], check=True, capture_output=True)


@contextmanager
def behind(box: ThreadBox) -> Iterator[None]:
    """Queue 2 has twelve orders more than the group has handled; its member is at the first of them."""
    for number, count in enumerate((3, 2, 13, 2)):
        box.send(
            "orders", [Message("orders", json.dumps({"number": n}), keys=str(n)) for n in range(count)], queue=number
        )
    with Reader(ReaderSettings((box.address,))) as reader:
        for number, offset in enumerate((3, 2, 1, 2)):
            reader.commit("billing", MessageQueue("orders", "broker-a", number), offset)
    Path("slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "framework", "run", "slow.py", "--set", "consumers.billing.concurrency=1"]
    member = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert member.stdout is not None
        assert "began\n" in iter(member.stdout.readline, "")
        # As `doctor --stuck-after 1s` wants it; members answer only so many questions a second.
        is_stuck = lambda: max(row["lag_s"] or 0 for row in _said("lag", "billing")) > 1  # noqa: E731
        wait_until(is_stuck, "a lag of a second", pause_s=LOOK_S)
        held = [row for row in _said("tail", "orders", "--from", "1") if row["queue"] == 2]
        os.environ["ID"] = held[0]["message_id"]
        yield
    finally:
        member.kill()
        member.communicate()


SCENES: dict[str, Callable[[ThreadBox], AbstractContextManager[None]]] = {
    "operate/dead-letters": dead_letters,
    "operate/lag": behind,
    "operate/stalled": behind,
}
