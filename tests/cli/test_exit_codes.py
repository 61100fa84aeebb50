"""How commands end: the codes that others may rely on, and no other one, whatever became of a worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from framework.cli.exit_codes import ExitCode, of_all
from tests.cli.processes import Errors
from tests.cli.test_workers import both_at_work

ROOT = Path(__file__).parents[2]
PROMISED = {0, 1, 2, 69, 73, 75, 78, 130}


@pytest.mark.parametrize(
    ("codes", "abandoned", "code"),
    [
        ((), 0, ExitCode.CLEAN),
        ((0, 0), 0, ExitCode.CLEAN),
        ((0, -signal.SIGTERM), 0, ExitCode.CLEAN),
        ((0, ExitCode.HUNG), 0, ExitCode.CLEAN),
        ((0, ExitCode.HUNG), 3, ExitCode.ABANDONED),
        ((0, ExitCode.ABANDONED), 1, ExitCode.ABANDONED),
        ((-signal.SIGKILL, ExitCode.ABANDONED), 1, ExitCode.ABANDONED),
        ((-signal.SIGKILL, 0), 0, ExitCode.FAILED),
        ((-signal.SIGSEGV,), 0, ExitCode.FAILED),
        ((ExitCode.LEFT_AT_ONCE,), 0, ExitCode.FAILED),
        ((3, 0), 0, ExitCode.FAILED),
        ((1, 0), 0, ExitCode.FAILED),
        ((0, ExitCode.CONFIGURATION, 1), 0, ExitCode.CONFIGURATION),
        ((ExitCode.UNREACHABLE,), 0, ExitCode.UNREACHABLE),
        ((ExitCode.TAKEN,), 0, ExitCode.TAKEN),
        ((ExitCode.USAGE,), 0, ExitCode.USAGE),
    ],
)
def test_the_ends_of_workers_come_to_one_that_is_promised(codes: tuple[int, ...], abandoned: int, code: int) -> None:
    assert code == of_all(codes, abandoned=abandoned)


def test_whatever_a_worker_ends_with_the_whole_ends_as_promised() -> None:
    ends = {of_all([code]) for code in range(-64, 256)}

    assert ends <= PROMISED
    assert {code.value for code in ExitCode} - PROMISED == {ExitCode.HUNG}, "a child's word to its parent"


def test_a_worker_that_is_killed_while_it_drains_is_a_promise_that_failed(
    tmp_path: Path, box: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody can count what it left; the other one's drain is heeded."""
    errors = Errors(capfd)
    with both_at_work(tmp_path, box, errors, drain="1h") as (running, workers):
        running.process.send_signal(signal.SIGTERM)
        errors.until(running, "handlers awaited")
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        assert ExitCode.FAILED == running.end(None)


def test_the_page_says_what_each_code_means() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text()

    for code in PROMISED:
        assert f"| {code} |" in page, code
    assert f"| {ExitCode.HUNG} |" not in page
