"""Forks while an application runs: a child is told what it must not use, and its parent notices nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.net import forks
from tests.runtime.test_app import box, send

PROGRAM = Path(__file__).with_name("forking.py")
MESSAGES = 20


def reports_of(mode: str) -> tuple[list[dict[str, Any]], str]:
    """What the program printed and logged; everything that was sent is handled by then."""
    reports: list[dict[str, Any]] = []
    logged = ""

    async def scenario() -> None:
        nonlocal logged
        async with box() as broker:
            await send(broker, "orders", *map(str, range(MESSAGES)))
            program = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), mode, broker.address,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            output, _ = await program.communicate()
            logged = output.decode()
            assert 0 == program.returncode, logged
            reports.extend(json.loads(line) for line in logged.splitlines() if line.startswith("{"))

    asyncio.run(scenario())  # bounded by the program, which ends itself after a while
    return reports, logged


def assert_the_parent_noticed_nothing(report: dict[str, Any], logged: str) -> None:
    assert {str(number): 1 for number in range(MESSAGES)} == report["handled"]
    assert MESSAGES == logged.count(f" in {report['process']}\n"), "each message by the parent, once"
    assert MESSAGES == logged.count("handling "), "and by nobody else"
    lost = [line for line in logged.splitlines() if "disconnected" in line and "closed by this process" not in line]
    assert [] == lost


@pytest.mark.parametrize("mode", ["uses", "uses in a thread"])
def test_a_child_shares_no_connection_and_is_told_so_on_use(mode: str) -> None:
    (report,), logged = reports_of(mode)

    assert_the_parent_noticed_nothing(report, logged)
    assert report["connections"], "the parent had some to share"
    assert [] == report["child"]["peers"]
    for use in ("publish", "stop", "awaited stop", "pause"):
        assert f"belongs to process {report['process']}" in report["child"][use], use
        assert "make another one here" in report["child"][use]
    assert "sent" == report["own"], "what a child makes itself works"


@pytest.mark.parametrize("mode", ["returns", "raises", "returns in a thread"])
def test_a_child_that_comes_back_into_the_application_ends_with_one_error(mode: str) -> None:
    (report,), logged = reports_of(mode)

    assert_the_parent_noticed_nothing(report, logged)
    assert forks.LEAVE == report["exit"]
    assert 1 == logged.count("forked child ended")


def test_a_child_is_ended_by_the_signals_that_drain_its_parent() -> None:
    (report,), logged = reports_of("terminates")

    assert_the_parent_noticed_nothing(report, logged)
    assert -signal.SIGTERM == report["exit"]


def test_an_application_that_has_not_begun_may_run_in_a_child_as_a_member_of_its_own() -> None:
    (child, parent), logged = reports_of("before")

    assert_the_parent_noticed_nothing(child, logged)  # here the child is the one that runs
    assert {} == parent["handled"]
    assert parent["member"] == parent["parent"] == child["parent"]
    assert child["member"] != parent["member"]
    assert f"@{child['process']}#" in child["member"]
