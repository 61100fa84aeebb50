"""python -m benchmarks.cost [CASE ...] [--pull 32,1024] [--messages N]: processor time and calls a message, alone.

Time is the least of many slices of a run, so that a busy machine shows in few of them. Calls are counted in a run of
their own: Python's functions, and C's beside.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import time

import structlog

from benchmarks.cost.calls import ALL, spent
from benchmarks.cost.engine import BATCH, CASES, QUEUES, Engine

SLICE_LEAST = 4_000  # messages: a few milliseconds


def microseconds(case: str, *, messages: int, pull: int) -> float:
    """Of this thread and of those that it waits for: the process's time."""
    step = pull * QUEUES * -(-SLICE_LEAST // (pull * QUEUES))
    engine = Engine(case, most=messages, pull=pull, step=step)
    times: list[int] = []
    engine.side.on_step = lambda: times.append(time.process_time_ns())
    gc.collect()
    gc.freeze()
    asyncio.run(engine.run())
    # What threads have ended comes home in bursts: a step of theirs may take no time at all.
    steps = 1 if CASES[case].is_async else len(times) // 10
    return min(after - before for before, after in zip(times, times[steps:], strict=False)) / (step * steps) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(ALL)}; all without one")
    parser.add_argument("--pull", default=f"{BATCH},1024", help="messages a pull, several with commas")
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--count", action="store_true", help="calls and allocations alone, as JSON")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if asked.count:
        print(json.dumps({case: spent(case) for case in asked.cases or ALL}))
        return
    print(f"{'case':<16}{'pull':>6}{'us':>8}{'calls':>8}{'of C':>8}{'blocks':>8}")
    pulls = [int(text) for text in asked.pull.split(",")]
    for case in asked.cases or ALL:
        for pull in pulls if case in CASES else pulls[:1]:
            us = f"{microseconds(case, messages=asked.messages, pull=pull):.3f}" if case in CASES else ""
            found = spent(case, pull=pull)
            print(f"{case:<16}{pull:>6}{us:>8}{found.python:>8.2f}{found.c:>8.2f}{found.blocks:>8.2f}", flush=True)


main()
