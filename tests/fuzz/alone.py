"""`python -m tests.fuzz.fuzz_NAME [SECONDS]`: one target, by itself."""

from __future__ import annotations

import sys

from tests.fuzz import harness


def alone(name: str) -> int:
    figures = harness.run(name, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    print(figures.report[-4000:], file=sys.stderr)
    print(f"fuzz: targets=1 runs={figures.runs} crashes={figures.crashes}")
    return 1 if figures.crashes else 0
