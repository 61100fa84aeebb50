"""No circle is left of a handler's run. One task and its slot that keep each other, until the collector comes by, keep
the batch's messages too: that cost a fifth of a batch's time, and 4 MB.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

import pytest

from benchmarks.cost.calls import work_of
from benchmarks.cost.engine import CASES, CONCURRENCY


@pytest.mark.parametrize("case", CASES)
def test_what_ran_is_freed_without_the_collector(case: str) -> None:
    """Only what the pool itself has is left for it at the end, and that is no more where more was run."""
    work = work_of(case, 32)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        asyncio.run(work(8_192))
        gc.collect()
        found = Counter(type(each).__name__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert found["TaskTree"], "the pool is a circle itself, and was looked at"
    assert all(found[kind] <= CONCURRENCY for kind in ("Task", "Slot", "BatchSlot", "LineSlot")), found
