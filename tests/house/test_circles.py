"""No circle is left of a handler's run. One task and its slot that keep each other, until the collector comes by, keep
the batch's messages too: that cost a fifth of a batch's time, and 4 MB.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.cost.calls import work_of
from benchmarks.cost.engine import CASES, CONCURRENCY

ROOT = Path(__file__).parents[2]
KINDS = ("Task", "Slot", "BatchSlot", "LineSlot")


def left_for_the_collector(case: str) -> Counter[str]:
    """How many of each class are there at the end, of 8,192 messages."""
    work = work_of(case, 32)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        asyncio.run(work(8_192))
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_what_ran_is_freed_without_the_collector() -> None:
    """Only what the pool itself has is left, and no more where more was run; in a process without other garbage."""
    command = [sys.executable, "-m", "tests.house.test_circles"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)

    assert set(CASES) == set(found)
    # Of threads the tree is now and then gone: its last task may have ended before.
    assert all(left.get("TaskTree") or (case == "thread" and left) for case, left in found.items()), (
        "the pool is a circle itself, and was looked at"
    )
    most = {case: max(left.get(kind, 0) for kind in KINDS) for case, left in found.items()}
    assert not {case: count for case, count in most.items() if count > CONCURRENCY}


if __name__ == "__main__":
    told, sys.stdout = sys.stdout, sys.stderr  # where the engine's own lines go
    print(json.dumps({case: left_for_the_collector(case) for case in CASES}), file=told)
