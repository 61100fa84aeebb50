"""What every fuzz target shares: its seeds, one run of it, and the figures of that run.

A target is a module `fuzz_NAME` with `SEEDS` and `check(data)`. `check` may raise nothing but what it names itself; any
other exception is a crash. `python -m tests.fuzz.harness NAME SECONDS` runs one under atheris, in a process of its own,
for libFuzzer leaves by its own door. Without atheris the corpus can still be replayed (`test_corpus.py`).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast

HERE = Path(__file__).parent
TARGETS = ("frame", "header_json", "header_compact", "records", "properties", "bodies")
INPUT_BYTES_MAX = 65_536
SLOWEST_SECONDS_MAX = 1.0
FRAME_BYTES_MAX = 16 * 1024 * 1024


class Target(Protocol):
    """A fuzz module."""

    SEEDS: list[bytes]

    def check(self, data: bytes) -> None: ...


def target(name: str) -> Target:
    return cast("Target", import_module(f"tests.fuzz.fuzz_{name}"))


def corpus(name: str) -> list[bytes]:
    """The seeds, what real peers wrote, and the inputs that once crashed."""
    recorded = import_module("tests.fuzz.recorded")
    kept = sorted((HERE / "corpus" / name).glob("*"))
    return [*target(name).SEEDS, *recorded.seeds(name), *(path.read_bytes() for path in kept)]


class Figures(NamedTuple):
    """What one run came to."""

    runs: int
    crashes: int
    slowest_seconds: float
    peak_bytes: int
    """Memory above what the process held before the first input."""
    report: str


def run(name: str, seconds: int) -> Figures:
    """Fuzz one target in a process of its own for so long."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.fuzz.harness", name, str(seconds), folder]
        done = subprocess.run(command, cwd=HERE.parent.parent, capture_output=True, text=True, check=False)
        figures = Path(folder, "figures")
        slowest, baseline, peak = map(float, figures.read_text().split()) if figures.exists() else (0.0, 0.0, 0.0)
    runs = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("Done ")]
    return Figures(
        runs[0] if runs else 0, 0 if done.returncode == 0 and runs else 1, slowest, int(peak - baseline), done.stderr
    )


def _fuzz(name: str, seconds: int, folder: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["framework"]):
        check = target(name).check
    seeds, found = folder / "seeds", folder / "found"
    seeds.mkdir()
    found.mkdir()
    for number, data in enumerate(corpus(name)):
        (seeds / f"{number:04}").write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", "-timeout=20", "-print_final_stats=0"]
    keep = HERE / "crashes"
    keep.mkdir(exist_ok=True)
    atheris.Setup(
        [sys.argv[0], *options, f"-artifact_prefix={keep}/{name}-", str(found), str(seeds)],
        _measured(check, folder / "figures"),
    )
    atheris.Fuzz()


def _measured(check: Callable[[bytes], None], figures: Path) -> Callable[[bytes], None]:
    """`check` with its slowest input (in processor time: the machine may be busy) and the memory of the process."""
    slowest, baseline, peak = 0.0, _memory(), 0

    def measured(data: bytes) -> None:
        nonlocal slowest, peak
        began = time.process_time()
        check(data)
        elapsed, memory = time.process_time() - began, _memory()
        if elapsed > slowest or memory > peak:
            # Written at once: libFuzzer ends the process without a word to Python.
            slowest, peak = max(elapsed, slowest), max(memory, peak)
            figures.write_text(f"{slowest} {baseline} {peak}")

    return measured


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    _fuzz(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
