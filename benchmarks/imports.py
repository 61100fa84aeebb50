"""What importing costs: `python -m benchmarks.imports [--runs 11] [--json FILE]`.

New interpreters, whose cases take turns; the time of one that imports nothing is taken off. Shown are the wall clock
and the processor time of each, median and best, and how many modules it brings along.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BAR_MS = 150
CASES = {
    "nothing": "",
    "import framework": "import framework",
    "... and consumer, Message, outcomes": (
        "from framework import Ack, Consumer, DeadLetter, Delivery, Drop, Message, Retry, RetryLater, Suspend, consumer"
    ),
    "... and App (settings, plugins, client)": "from framework import App, Producer",
}
COUNT = "\nimport sys; sys.stdout.write(str(len(sys.modules)))"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    for run in range(arguments.runs + 1):
        for case, program in CASES.items():
            sample = _run(program)
            if run:  # the first one of each writes and warms what the others read
                taken[case].append(sample)
    empty = [statistics.median(each[at] for each in taken["nothing"]) for at in (0, 1)]
    least = [min(each[at] for each in taken["nothing"]) for at in (0, 1)]
    rows = []
    for case, samples in taken.items():
        wall, processor = ([each[at] for each in samples] for at in (0, 1))
        rows.append(
            {
                "case": case,
                "wall_ms": round(statistics.median(wall) - empty[0], 1),
                "wall_best_ms": round(min(wall) - least[0], 1),
                "processor_ms": round(statistics.median(processor) - empty[1], 1),
                "processor_best_ms": round(min(processor) - least[1], 1),
                "modules": _modules(CASES[case]) - _modules(""),
            }
        )
    for row in rows[1:]:
        sys.stdout.write(
            f"{row['case']:<40} wall {row['wall_ms']:>6} ms (best {row['wall_best_ms']}), processor "
            f"{row['processor_ms']:>6} ms (best {row['processor_best_ms']}), {row['modules']} modules\n"
        )
    alone = f"An interpreter alone: {empty[0]:.1f} ms, load {os.getloadavg()[0]:.1f}"
    sys.stdout.write(f"bar for `import framework`: {BAR_MS} ms. {alone}\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({"bar_ms": BAR_MS, "runs": arguments.runs, "rows": rows}, indent=2))
    return 0


def _run(program: str) -> tuple[float, float]:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", program])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    if status:
        raise SystemExit(f"{program!r} ended with {status}")
    return (time.perf_counter() - began) * 1000, (used.ru_utime + used.ru_stime) * 1000


def _modules(program: str) -> int:
    return int(
        subprocess.run([sys.executable, "-c", program + COUNT], capture_output=True, check=True, text=True).stdout
    )


if __name__ == "__main__":
    raise SystemExit(main())
