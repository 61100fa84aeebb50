"""A message whose handler ends its process: it fails after three times, and what is behind it is handled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.cli.processes.children import REMEMBERED, ExitTally
from framework.services.call.notes import EndsSoFar, Note
from tests.cli.processes import Errors, command
from tests.cli.test_workers import send
from tests.reading.threads import thread_box

SHOP = """
import ctypes
import os
import sys

from framework import Message, consumer

ENDS = {
    "exit": sys.exit,
    "configuration": lambda: sys.exit(78),
    "at once": lambda: os._exit(0),
    "kernel": lambda: os.kill(os.getpid(), 9),
    "segfault": lambda: ctypes.string_at(0),
}
"""
HANDLERS = {
    "async": """
@consumer("orders", "billing")
async def bill(order: Message) -> None:
    body = order.body.decode()
    print(f"began {body} {order.attempt} {os.getpid()}", flush=True)
    ENDS.get(body, bool)()
""",
    "plain": """
@consumer("orders", "billing")
def bill(order: Message) -> None:
    body = order.body.decode()
    print(f"began {body} {order.attempt} {os.getpid()}", flush=True)
    ENDS.get(body, bool)()
""",
    "batch": """
@consumer("orders", "billing", batch=8)
async def bill(orders: list[Message]) -> None:
    for order in orders:
        body = order.body.decode()
        print(f"began {body} {order.attempt} {os.getpid()}", flush=True)
        ENDS.get(body, bool)()
""",
    "orderly": """
@consumer("orders", "billing", orderly=True)
async def bill(order: Message) -> None:
    body = order.body.decode()
    print(f"began {body} {order.attempt} {os.getpid()}", flush=True)
    ENDS.get(body, bool)()
""",
}
SETTINGS = "app: {handlers: [shop]}\nconsumers: {billing: {start: first, max_retries: 0}}\n"
LATER = [f"later{number}" for number in range(10)]


@pytest.fixture
def box() -> Iterator[str]:
    """The address of a broker in the box, which delivers what failed soon: nothing here is about its delays."""
    with thread_box() as box:
        yield box.address


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    return tmp_path


@pytest.mark.parametrize(
    ("handler", "how"),
    [
        ("plain", "exit"), ("batch", "kernel"),
        *(pytest.param("async", how, marks=pytest.mark.slow) for how in
          ("exit", "kernel", "configuration", "at once", "segfault")),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in
          [("plain", "kernel"), ("batch", "exit"), ("orderly", "exit")]),
    ],
)  # fmt: skip
def test_what_is_behind_it_is_handled_and_it_becomes_a_dead_letter(
    handler: str, how: str, shop: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """All in one queue. None of the others is sent to the dead letters with it, though they were in hand as well.

    In order each end costs a minute: the broker keeps the lock of a process that is gone for so long.
    """
    (shop / "shop.py").write_text(SHOP + HANDLERS[handler])
    errors = Errors(capfd)
    send(box, "first")  # so that there is a topic
    send(box, LATER[0], how, *LATER[1:], queue=0)
    with command("run", "--name-server", box, "--workers", "2", folder=shop) as running:
        begun: list[str] = []
        while {f"began {each}" for each in LATER} - {" ".join(line.split()[:2]) for line in begun}:
            begun.append(running.until("began "))
        errors.until(running, "dead-lettered")
        assert 0 == running.end()

    begun += [line for line in running.lines if line.startswith("began ") and line not in begun]
    ends = sum(line.startswith(f"began {how} 1 ") for line in begun)
    assert ends in {3, 4}, "one more where two processes had it at once, and the second one had not heard of the first"
    assert running.lines[-1].split()[3] == "dead=1"
    assert ends == errors.read().count("child restarted")


def test_with_retries_left_its_attempt_is_raised(shop: Path, box: str, capfd: pytest.CaptureFixture[str]) -> None:
    (shop / "shop.py").write_text(SHOP + HANDLERS["async"])
    errors = Errors(capfd)
    send(box, "exit", *LATER)
    more = ("--set", "consumers.billing.max_retries=1")
    with command("run", "--name-server", box, "--workers", "2", *more, folder=shop) as running:
        running.until("began exit 2 ")
        errors.until(running, "message ends processes", 2)
        errors.until(running, "child restarted", 4)
        errors.until(running, "dead-lettered")
        assert 0 == running.end()
    assert 1 == sum(line.startswith("began exit 2 ") for line in running.lines), "one end is enough from then on"


# What is counted


def note(place: int, name: str = "", attempt: int = 0, *, is_alone: bool = False) -> Note:
    return Note("billing", "shop.py:1", "orders@broker-a:0", place, name, attempt, is_certain=False, is_alone=is_alone)


def test_ends_are_counted_by_place_and_by_name_and_the_last_attempt_is_known() -> None:
    exits = ExitTally()

    exits.ended([note(7), note(8)])
    assert {
        "billing orders@broker-a:0+7": EndsSoFar(1, 0),
        "billing orders@broker-a:0+8": EndsSoFar(1, 0),
    } == exits.ends
    exits.ended([note(7, "a", 1)])
    assert EndsSoFar(2, 1) == exits.ends["billing a"] == exits.ends["billing orders@broker-a:0+7"]
    exits.ended([note(3, "a", 2, is_alone=True)])
    assert EndsSoFar(3, 2) == exits.ends["billing a"], "a copy of it"


def test_a_third_end_beside_others_accuses_nobody_of_having_been_alone() -> None:
    """Two processes had one batch, as its queue had moved: the second ended before it heard of the first one's end."""
    exits = ExitTally()
    batch = [note(7, "a", 1), note(8, "b", 1)]
    for _ in range(4):
        exits.ended(batch)
    assert EndsSoFar(2, 1) == exits.ends["billing a"] == exits.ends["billing b"]

    exits.ended([note(7, "a", 1, is_alone=True), note(9)])
    assert (EndsSoFar(3, 1), EndsSoFar(2, 1)) == (exits.ends["billing a"], exits.ends["billing b"])


def test_so_many_are_remembered_and_those_that_came_twice_are_forgotten_last() -> None:
    exits = ExitTally()

    exits.ended([note(7)])
    exits.ended([note(7, "a", 1)])
    exits.ended([note(100 + number) for number in range(REMEMBERED)])
    assert REMEMBERED == len(exits.ends)
    assert EndsSoFar(2, 1) == exits.ends["billing a"]
    assert "billing orders@broker-a:0+100" not in exits.ends
