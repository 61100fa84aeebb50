"""Processes and groups that count in one file: what they add up to, and that ours is measured so by its own command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cells import Cells, own_row
from benchmarks.consumers import SHARED, Work, start_ours
from benchmarks.growth import Growth, Sizes, compared
from benchmarks.growth import main as growth
from benchmarks.machine import Busy
from benchmarks.memory import compared as memory_compared
from benchmarks.memory import main as memory
from benchmarks.peers.__main__ import PEERS
from benchmarks.peers.__main__ import main as peers
from benchmarks.peers.places import PROGRAMS
from benchmarks.turns import Sample
from tests.interop import probe
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S

QUEUES, MESSAGES = 4, 200


@pytest.fixture(scope="module")
def box() -> Iterator[str]:
    command = [sys.executable, "-m", "framework", "broker", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        yield broker.stdout.readline().split("namesrv=")[1].split()[0]
        broker.terminate()


def sample(who: str, case: str, **figures: float) -> Sample:
    return Sample(who=who, case=case, figures=figures, busy=Busy(1, 0))


def test_each_process_has_a_row_and_all_add_up(tmp_path: Path) -> None:
    cells = Cells(tmp_path / "cells")
    for handled, offsets, first in ((3, 30, 700), (4, 50, 600)):
        row = own_row(tmp_path / "cells")
        row[0], row[1], row[2] = handled, offsets, first

    assert (7, 80, 600) == (cells.handled(), cells.offsets(), cells.first_ns())


@pytest.mark.parametrize(("groups", "workers"), [(3, 1), (1, 2)])
def test_groups_and_workers_count_together(box: str, tmp_path: Path, groups: int, workers: int) -> None:
    topic = f"shared-{groups}-{workers}"
    sending = [sys.executable, "-m", "benchmarks.load", "batch", box, topic, "--messages", str(MESSAGES)]
    subprocess.run([*sending, "--queues", str(QUEUES), "--batch", "10"], check=True, stdout=subprocess.DEVNULL)
    _, body = probe.ask(box, 202, topic=topic)
    stored = sum(int(end) for end in re.findall(r'"maxOffset":(\d+)', body.decode()))
    work = Work(
        name_server=box, topic=topic, group="readers", count=stored, handler=SHARED, pull_batch=32, java_batch=1,
        groups=groups, workers=workers,
    )  # fmt: skip
    nursery = Nursery()
    try:
        side = start_ours(work, nursery, tmp_path)
        reached = side.wait_reached(timeout_s=PATIENCE_S)
        left = side.end()
    finally:
        nursery.close()

    assert reached.first_ns < reached.last_ns
    assert left.handled >= reached.handled >= work.total
    if workers == 1:
        assert left.handled == stored * groups


def test_what_grows_is_compared_by_part() -> None:
    costs = {"queues 8": 2.0, "queues 64": 3.0, "queues 1024": 2.5, "workers 1": 2.0, "workers 2": 4.0}
    found = compared([sample("ours", case, cpu_per_message_us=cost) for case, cost in costs.items()])

    assert ["queues: the dearest size costs 1.50x the smallest a message (bar 1.15)"] == found


def test_growth_has_a_case_for_each_size() -> None:
    growing = Growth(None, Sizes(queues=(8,), workers=(1, 2)))  # type: ignore[arg-type]  # nothing is filled

    assert ["queues 8", "workers 1", "workers 2"] == growing.cases(["queues", "workers"])
    assert growing.measured("workers 2", "java", 1) is None, "Java's consumer has no workers"


def test_memory_is_held_against_one_java_process() -> None:
    held = [sample("java", "1", pss_mb=400), *(sample("ours", str(n), pss_mb=25.0 + 20 * n) for n in (1, 2, 4))]

    assert [
        "ours with 1 workers: 0.113x of one Java process (bar 0.12: met)",
        "ours with 2 workers: 0.163x of one Java process",
        "ours with 4 workers: 0.263x of one Java process (bar 0.3: met)",
        "a further worker: 20.0 MB",
    ] == memory_compared(held)


def test_each_peer_of_python_has_a_program_that_can_be_read() -> None:
    programs = {peer.words[0] for peer in PEERS.values() if peer.words[0].endswith(".py")}

    assert {"grpc_push.py", "kafka_raw.py", "fast_stream.py"} == programs
    for path in PROGRAMS.glob("*.py"):
        compile(path.read_text(), path.name, "exec")


@pytest.mark.parametrize("module", ["growth", "memory", "peers"])
def test_without_java_it_says_so_and_ends_with_3(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.interop.jars.missing", lambda: "java was not found; install a JDK 17")
    main = {"growth": growth, "memory": memory, "peers": peers}[module]

    assert 3 == main(["--quick"])
    assert "install a JDK 17" in capsys.readouterr().err


def test_a_peer_whose_environment_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.interop.jars.missing", lambda: None)

    assert 3 == peers(["--sides", "dramatiq", "--python", str(tmp_path / "python")])
    assert "make bench-peers" in capsys.readouterr().err
