"""Latency's sender keeps its rate and its numbers, the handler notes each one's time, and shares are shares."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.consumers import ROOT, configured
from benchmarks.latency import HANDLER, main, percentiles
from benchmarks.paced import main as paced
from tests.patience import wait_until


@pytest.fixture(scope="module")
def box() -> Iterator[str]:
    command = [sys.executable, "-m", "framework", "broker", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        yield broker.stdout.readline().split("namesrv=")[1].split()[0]
        broker.terminate()


def test_shares_are_the_least_that_so_many_did_not_pass() -> None:
    found = percentiles([number * 1_000_000 for number in range(1, 1_001)])

    assert {"p50_ms": 500, "p99_ms": 990, "p999_ms": 999, "most_ms": 1_000} == found
    assert {"p50_ms": 2, "p99_ms": 2, "p999_ms": 2, "most_ms": 2} == percentiles([2_000_000])


def test_each_message_is_timed_by_its_number(box: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = configured(tmp_path, box, {"readers": {"start": "first"}})
    given = {"TOPIC": "timed", "GROUP": "readers", "COUNT": "40", "REPORT": str(tmp_path / "taken")}
    sent = ["--queues", "4", "--first=-4", "--messages", "4", "--rate", "0"]
    assert 0 == paced([box, "timed", *sent])
    with subprocess.Popen(
        [sys.executable, "-m", "framework", "run", HANDLER, "--config", str(settings)],
        cwd=ROOT, env={**os.environ, **{f"BENCHMARK_{name}": value for name, value in given.items()}},
        stdout=subprocess.PIPE, text=True,
    ) as consumer:  # fmt: skip
        assert consumer.stdout is not None
        probes: set[str] = set()
        while len(probes) < 4:
            line = consumer.stdout.readline()
            probes |= {line} if line.startswith("here ") else set()
        capsys.readouterr()
        assert 0 == paced([box, "timed", "--queues", "4", "--messages", "40", "--rate", "400"])
        wait_until((tmp_path / "taken").exists, "all messages")
        consumer.send_signal(signal.SIGTERM)

    said = json.loads(capsys.readouterr().out)
    assert {"here 1\n", "here 2\n", "here 3\n", "here 4\n"} == probes
    assert (40, 0) == (said["answered"], said["refused"])
    taken = array("q", (tmp_path / "taken").read_bytes())
    assert 40 == len(taken)
    assert min(taken) > 0


def test_without_java_it_says_so_and_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.on_a_cluster.jars.missing", lambda: "java was not found; install a JDK 17")

    assert 3 == main([])
    assert "install a JDK 17" in capsys.readouterr().err
