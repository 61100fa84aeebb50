"""Fresh seeds until time is over: which ones, what is kept of those that fail, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from framework.testing.errors import Violation
from tests.simulation import __main__ as swarming
from tests.simulation.__main__ import Run, main
from tests.simulation.failures import fresh
from tests.simulation.failures.deadline import Deadline
from tests.simulation.failures.plan_text import read
from tests.simulation.plans.plan import draw
from tests.simulation.simulation import Verdict

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
ROOT = Path(__file__).parents[2]
LAST = re.compile(r"sim: seeds=(\d+) base=(\d+) failed=(\d+) .* trace=[0-9a-f]{16}")


class Clock:
    """One second a run."""

    def __init__(self) -> None:
        self.now = 0.0

    def run(self, seed: int) -> Verdict:
        self.now += 1.0
        return Verdict(draw(seed))


def seed_of(verdict: Verdict) -> int:
    return verdict.plan.seed


def holds(seed: int) -> Verdict:
    return Verdict(draw(seed))


def test_one_seed_after_the_other_until_the_time_is_over() -> None:
    clock = Clock()
    until = Deadline(5.0, lambda: clock.now)
    assert [70, 71, 72, 73, 74] == [seed_of(each) for each in fresh.verdicts(70, 1, until, clock.run)]


def test_several_processes_leave_no_seed_out() -> None:
    until, seen = Deadline(60.0), []
    for verdict in fresh.verdicts(70, 2, until, holds):
        seen.append(seed_of(verdict))
        if len(seen) == 20:
            until.interrupt()
    assert list(range(70, 70 + len(seen))) == seen
    assert 20 <= len(seen) <= 20 + 2 * fresh.AHEAD


def test_a_base_is_drawn_anew() -> None:
    first = fresh.drawn_base()
    time.sleep(0.01)
    assert 0 <= first < fresh.BASES
    assert first != fresh.drawn_base()


def test_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    said: list[str] = []
    minutes = fresh.Minutes(Deadline(600.0, lambda: clock.now), said.append)
    for passed in (10.0, 59.0, 61.0, 70.0, 119.0, 200.0, 201.0):
        clock.now = passed
        minutes.tell(int(passed), 1)
    assert ["1 min: 61 seeds, 1 failed, 9 min left", "3 min: 200 seeds, 1 failed, 7 min left"] == said


def test_what_failed_is_kept_in_a_form_that_replays(tmp_path: Path) -> None:
    found = tmp_path / "build" / "found.jsonl"
    verdict = Verdict(draw(5), [Violation("progress", "late", 90.0), Violation("nothing lost", "m1", 3.0)])
    fresh.keep(found, verdict, "abc")
    fresh.keep(found, Verdict(draw(6), [Violation("order kept", "m2", 4.0)]), "abc")

    first, second = (json.loads(line) for line in found.read_text(encoding="utf-8").splitlines())
    assert (5, "abc", "nothing lost", "m1", 3.0) == tuple(
        first[name] for name in ("seed", "commit", "truth", "fact", "at")
    )
    assert draw(5) == read(json.dumps(first["plan"]))
    words = shlex.split(second["command"])
    assert ["python", "-m", "tests.simulation.one", "--plan"] == words[:4]
    assert draw(6) == read(words[4])


def test_the_commit_is_named_where_git_can_say(tmp_path: Path) -> None:
    assert "unknown" == fresh.commit_of(tmp_path)
    assert "unknown" == fresh.commit_of(tmp_path / "nowhere")
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    assert re.fullmatch("[0-9a-f]{7,}", fresh.commit_of(tmp_path))


def test_the_base_comes_first_and_the_ordinary_line_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def each_third_fails(run: Run, seconds: float = 60.0) -> Verdict:
        verdict = Verdict(draw(run.seed, seconds=seconds))
        if run.seed % 3 == 0:
            verdict.violations.append(Violation("nothing lost", "m1", 3.0))
        return verdict

    monkeypatch.setattr(swarming, "run_one", each_third_fails)
    found = tmp_path / "found.jsonl"
    assert 1 == main(["--for", "300ms", "--jobs", "1", "--base", "3000", "--seconds", "20", "--found", str(found)])
    said = capsys.readouterr()
    lines = said.out.splitlines()
    last = LAST.fullmatch(lines[-1])
    assert "fresh seeds: base=3000" == lines[0]
    assert last is not None
    seeds, base, failed = map(int, last.groups())
    assert 3000 == base
    assert failed == (seeds + 2) // 3 == len(found.read_text(encoding="utf-8").splitlines())
    assert "python -m tests.simulation.one --seed 3000 --for 20s" in lines
    assert "3000 failed: nothing lost at 3.000s: m1" in said.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_with_the_same_last_line(number: signal.Signals, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", "--for", "10m", "--jobs", "2", "--seconds", "5",
         "--found", str(tmp_path / "found.jsonl")],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert re.fullmatch(r"fresh seeds: base=\d+\n", process.stdout.readline())
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        out, err = process.communicate(timeout=120)
    last = LAST.fullmatch(out.splitlines()[-1])
    assert last is not None, err
    assert int(process.returncode) == (1 if int(last.group(3)) else 0)
    assert "Traceback" not in err


def test_make_passes_the_time_on_and_a_base_that_was_given() -> None:
    def told(*words: str) -> str:
        done = subprocess.run(["make", "-n", "sim", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return next(line for line in done.stdout.splitlines() if "tests.simulation" in line)

    assert re.search(r"simulation --for 20m +--jobs ", told("FOR=20m"))
    assert re.search(r"simulation --for 20m --base 77 --jobs ", told("FOR=20m", "BASE=77"))
    assert re.search(r"simulation --seeds 9 --base 0 --jobs ", told("SEEDS=9"))
