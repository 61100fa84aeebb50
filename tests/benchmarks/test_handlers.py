"""The handlers that are measured: each module is an application with one consumer of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.consumers import HANDLERS

ROOT = Path(__file__).parents[2]
COLLECTED = """
import sys
from framework.runtime.plans.collect import collect
from framework.settings.schema import AppSettings
print([len(collect(AppSettings(), name)) for name in sys.argv[1:]])
"""


def test_each_has_one_consumer(tmp_path: Path) -> None:
    """In a process of its own: what they count is written when it ends."""
    names = ("TOPIC", "GROUP", "COUNT", "REPORT")
    environment = {f"BENCHMARK_{name}": value for name, value in zip(names, ("t", "g", "1", "report"), strict=True)}
    modules = sorted(set(HANDLERS.values()))
    ran = subprocess.run(
        [sys.executable, "-c", COLLECTED, *modules],
        cwd=ROOT, env={**environment, "BENCHMARK_REPORT": str(tmp_path / "report")}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert f"{[1] * len(modules)}\n" == ran.stdout, ran.stderr
