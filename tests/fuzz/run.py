"""Run the fuzz targets: `SECONDS=5 TARGET=frame python -m tests.fuzz.run`; without TARGET all, SECONDS for each.

Exit 1 on a crash, an input slower than a second, or memory above three frames. A crash's input is kept in
`tests/fuzz/crashes`; move it to `tests/fuzz/corpus/TARGET`, where it is replayed for ever.
"""

from __future__ import annotations

import os
import sys

from tests.fuzz import harness


def main() -> int:
    seconds = int(os.environ.get("SECONDS") or 5)
    names = [os.environ["TARGET"]] if os.environ.get("TARGET") else list(harness.TARGETS)
    strangers = [name for name in names if name not in harness.TARGETS]
    if strangers:
        print(f"no fuzz target {strangers[0]!r}; there are {', '.join(harness.TARGETS)}", file=sys.stderr)
        return 2
    runs = crashes = 0
    for name in names:
        figures = harness.run(name, seconds)
        runs += figures.runs
        slow = figures.slowest_seconds > harness.SLOWEST_SECONDS_MAX
        large = figures.peak_bytes > 3 * harness.FRAME_BYTES_MAX
        crashes += 1 if figures.crashes or slow or large else 0
        print(
            f"{name}: runs={figures.runs} crashes={figures.crashes} slowest_ms={figures.slowest_seconds * 1000:.0f}"
            f"{' TOO SLOW' if slow else ''} peak_mib={figures.peak_bytes / 2**20:.0f}{' TOO LARGE' if large else ''}",
            file=sys.stderr,
        )
        if figures.crashes:
            print(figures.report[-4000:], file=sys.stderr)
    print(f"fuzz: targets={len(names)} runs={runs} crashes={crashes}")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
