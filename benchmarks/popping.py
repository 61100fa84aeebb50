"""Pulling beside popping: the same messages of the built-in broker, by one process, in turns.

    python -m benchmarks.popping --messages 50000 --runs 2

Each run is a group of its own that begins at the first message. A rate is messages per second between the first handler
and the last. Exit 0: each message was handled once in every run; 1: not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from framework import Message, Producer

ROOT = Path(__file__).parents[1]
_BATCH = 500
_HANDLER = """
import atexit, os, time
from framework import consumer, Message

count, first, last = 0, 0.0, 0.0

@consumer("popped", group=os.environ["GROUP"])
async def handle(message: Message) -> None:
    global count, first, last
    last = time.monotonic()
    first, count = first or last, count + 1

atexit.register(lambda: print("handled", count, round((count - 1) / (last - first)), flush=True))
"""


async def fill(name_server: str, count: int) -> None:
    async with Producer(name_servers=[name_server]) as producer:
        for _ in range(0, count, _BATCH):
            await producer.send_batch([Message("popped", b"x" * 100) for _ in range(_BATCH)])


def consumed(folder: Path, name_server: str, group: str, delivery: str) -> tuple[int, int]:
    """How many calls there were, and how many a second."""
    settings = folder / "settings.yaml"
    own = {"start": "first", "delivery": delivery}
    settings.write_text(json.dumps({"cluster": {"name_servers": [name_server]}, "consumers": {group: own}}))
    command = [sys.executable, "-m", "framework", "run", str(folder / "handler.py"), "-c", str(settings)]
    ended = subprocess.run(
        [*command, "--until-idle", "3s"], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "GROUP": group},
    )  # fmt: skip
    found = re.search(r"handled (\d+) (\d+)", ended.stdout)
    assert found is not None, ended.stdout
    return int(found[1]), int(found[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    is_whole = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "handler.py").write_text(_HANDLER)
        ready = folder / "ready"
        command = [sys.executable, "-m", "framework", "broker", "--data", str(folder / "data")]
        box = subprocess.Popen([*command, "--ready-file", str(ready)], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            while not (ready.exists() and ready.read_text().endswith("\n")):
                time.sleep(0.1)
            found = re.search(r"namesrv=(\S+)", ready.read_text())
            assert found is not None
            asyncio.run(fill(found[1], given.messages))
            for run in range(given.runs):
                for delivery in ("pull", "pop"):
                    count, rate = consumed(folder, found[1], f"{delivery}-{run}", delivery)
                    is_whole &= count == given.messages
                    print(
                        json.dumps({"delivery": delivery, "rate": rate, "handled": count, "load": os.getloadavg()[0]})
                    )
        finally:
            box.terminate()
            box.wait()
    return 0 if is_whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
