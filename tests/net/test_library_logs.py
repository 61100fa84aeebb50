"""A program that uses the framework as a library: its stdout is its own, and logging is the standard library's."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE_S

PROGRAM = """
import asyncio, logging, sys
from framework import App, Producer
from framework.errors import BrokerUnreachable
{setup}
async def main():
    async with Producer(name_servers=["127.0.0.1:1"]) as producer:
        try:
            await producer.send("orders", b"x")
        except BrokerUnreachable as error:
            print("the program's own line")
asyncio.run(main())
"""


def printed(setup: str = "") -> tuple[list[str], str]:
    program = [sys.executable, "-c", PROGRAM.format(setup=setup)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return ended.stdout.splitlines(), ended.stderr


def test_a_producer_outside_an_application_says_nothing_on_stdout() -> None:
    out, err = printed()

    assert ["the program's own line"] == out
    assert "not connected" in err
    assert "127.0.0.1:1" in err


def test_a_program_that_sets_up_logging_gets_the_lines_as_it_says() -> None:
    out, err = printed("logging.basicConfig(stream=sys.stderr, format='%(levelname)s %(name)s: %(message)s')")

    assert ["the program's own line"] == out
    assert "WARNING framework.net.pool: not connected " in err


def test_a_program_that_has_configured_structlog_keeps_that() -> None:
    setup = "import structlog; structlog.configure(processors=[lambda *_: 'mine'])"
    out, err = printed(setup)

    assert {"mine", "the program's own line"} == set(out)
    assert "unreachable" not in err


def test_its_stderr_may_be_gone() -> None:
    """Lines that nobody can write must not fail a send with another error than its own."""
    no_stderr, full_stderr = "sys.stderr = None", "sys.stderr = open('/dev/full', 'w'); logging.raiseExceptions = False"

    assert ["the program's own line"] == printed(no_stderr)[0] == printed(full_stderr)[0]
