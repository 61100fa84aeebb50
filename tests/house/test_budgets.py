"""What a message costs in calls and allocations, for each kind of handler, decoded and sent: `budgets.toml` says.

The pool's own share is in test_calls_a_message.py; here are the pull loop, decoding, the window, the handler's call,
and the producer between `send` and the socket.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cost.calls import ALL, Spent

pytestmark = pytest.mark.timeout(600)  # each call is counted; a busy machine takes ten times as long
ROOT = Path(__file__).parents[2]
BUDGETS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def judged(case: str, what: str, used: float, budget: float) -> str:
    """What is wrong with a budget, in words; nothing where it holds."""
    if used > 1.05 * budget:
        return f"{case}: {used:.2f} {what} a message, and its budget is {budget}"
    if used < 0.9 * budget:
        return f"{case}: {used:.2f} {what} a message: lower the budget, which is {budget}"
    return ""


@pytest.mark.long
def test_a_message_costs_what_its_budget_says() -> None:
    """Counted in a process of its own: what earlier tests left in memory is not the message's."""
    command = [sys.executable, "-m", "benchmarks.cost", "--count"]
    counted = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    wrong = []
    for case, figures in json.loads(counted).items():
        used, budget = Spent(*figures), BUDGETS[case]
        wrong.append(judged(case, "calls of Python's functions", used.python, budget["python"]))
        wrong.append(judged(case, "calls of C's functions", used.c, budget["c"]))
        if VERSION in budget["blocks"]:
            wrong.append(judged(case, "allocations", used.blocks, budget["blocks"][VERSION]))

    assert [] == [line for line in wrong if line]


def test_each_kind_of_message_has_a_budget() -> None:
    assert set(ALL) == set(BUDGETS)
    assert all({"3.11", "3.12", "3.13"} == set(budget["blocks"]) for budget in BUDGETS.values())


def test_a_budget_is_passed_by_a_twentieth_and_lowered_where_a_tenth_is_left() -> None:
    assert "async: 5.30 calls a message, and its budget is 5.0" == judged("async", "calls", 5.3, 5.0)
    assert "async: 4.40 calls a message: lower the budget, which is 5.0" == judged("async", "calls", 4.4, 5.0)
    assert ["", ""] == [judged("async", "calls", used, 5.0) for used in (4.6, 5.2)]


ONE_MORE = """
import json
from benchmarks.cost.calls import spent
from benchmarks.cost.engine import CASES
from framework import Message, consumer

before = spent("async")
kept = []

@consumer("benchmark", "cost")
async def handle(message: Message) -> None:
    keep()

def keep():
    kept.append(object())

CASES["async"] = handle.spec
print(json.dumps([before, spent("async")]))
"""


def test_one_call_and_one_allocation_more_a_message_are_noticed() -> None:
    """Else the gate could not fail."""
    told = subprocess.run([sys.executable, "-c", ONE_MORE], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    before, after = (Spent(*figures) for figures in json.loads(told.stdout))

    assert 1 == round(after.python - before.python, 1)
    assert after.python > 1.05 * BUDGETS["async"]["python"]
    assert after.blocks > before.blocks + 0.9
