"""The broker's benchmark: its generator sends what brokers take and counts what they answer, and its table tells."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.boxes import Figure, report
from benchmarks.broker import main
from benchmarks.load import main as load
from tests.interop import probe


@pytest.fixture(scope="module")
def box() -> Iterator[str]:
    command = [sys.executable, "-m", "framework", "broker", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        yield broker.stdout.readline().split("namesrv=")[1].split()[0]
        broker.terminate()


def loaded(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, int]:
    assert 0 == load(list(words))
    said: dict[str, int] = json.loads(capsys.readouterr().out)
    return said


def stored(box: str, topic: str) -> int:
    _, body = probe.ask(box, 202, topic=topic)
    return sum(int(end) for end in re.findall(r'"maxOffset":(\d+)', body.decode()))


@pytest.mark.parametrize(("what", "least"), [("batch", 400), ("single", 100)])
def test_what_it_counts_is_stored(box: str, what: str, least: int, capsys: pytest.CaptureFixture[str]) -> None:
    tally = loaded(capsys, what, box, what, "--queues", "4", "--messages", str(least), "--batch", "16")

    assert 0 == tally["refused"]
    assert least <= tally["total"] == stored(box, what)


def test_pulls_read_what_is_there_again_and_again(box: str, capsys: pytest.CaptureFixture[str]) -> None:
    loaded(capsys, "batch", box, "pulled", "--queues", "4", "--messages", "200", "--batch", "10")

    tally = loaded(capsys, "pull", box, "pulled", "--queues", "4", "--messages", "1000")

    assert 0 == tally["refused"]
    assert 1000 <= tally["counted"] <= tally["total"]


def test_a_refusal_is_counted_and_shown(box: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == load(["pull", box, "nowhere", "--seconds", "0.05", "--warm-up", "0"])

    said = capsys.readouterr()
    assert json.loads(said.out)["refused"] > 0
    assert "nowhere" in said.err


def test_without_java_it_says_so_and_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.broker.jars.missing", lambda: "java was not found; install a JDK 17")

    assert 3 == main([])
    assert "install a JDK 17" in capsys.readouterr().err


def test_the_table_names_bars_and_why_one_is_not_met() -> None:
    options = argparse.Namespace(stored=1_000_000, few=20_000)
    figures = [
        Figure(what="start", who="box", value=0.4),
        Figure(what="start", who="rocketmq", value=9.0),
        Figure(what="single", who="box", value=7_000.0, cpu_us=100.0, cores=0.3, generator_cores=0.1),
        Figure(what="pull few", who="box", value=100_000.0, cpu_us=6.0, cores=0.9, generator_cores=0.95),
        Figure(what="pull", who="box", value=80_000.0, cpu_us=7.5, cores=0.9, generator_cores=0.95),
    ]

    lines = report(figures, options).splitlines()

    assert re.search(r"start to its ready line, s +0.5 +0.40 +9.00  met", lines[1])
    assert lines[2].endswith("not met, with 0.30 of a core given to it: busy machine or disk")
    assert lines[4].endswith("the generator has no more; --generators 2")
    assert "0.80x its rate, 1.25x its processor time: slower" in lines[-1]
