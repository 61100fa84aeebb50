"""Seeds in a process of their own, which may have a mutant: `python -m tests.mutation.seeds --only 7,9`.

One JSON line per seed; it stops at the first that fails. A seed that takes more processor time than it is allowed ends
the process with SIGXCPU. With `--cover FILE` it writes down which lines each seed runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path

from tests.mutation.drawing import ROOMS, ROOT


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", required=True, help="the seeds, with commas between")
    parser.add_argument("--cpu", type=float, default=0.0, help="seconds of processor time a seed; 0: any")
    parser.add_argument("--cover", type=Path)
    options = parser.parse_args()
    seeds = [int(each) for each in options.only.split(",")]
    if options.cover is not None:
        return _cover(seeds, options.cover)
    for seed in seeds:
        if options.cpu:
            until = int(time.process_time() + options.cpu) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
        if not _runs(seed):
            return 1
    return 0


def _runs(seed: int) -> bool:
    """Whatever the run raises is the mutant's; what is raised elsewhere is an error of this tool."""
    began = time.process_time()
    try:
        from tests.simulation.__main__ import Run, run_one

        verdict = run_one(Run(seed))
        said = [str(each) for each in verdict.violations]
    except BaseException as error:  # noqa: BLE001  (anything that it raises is a finding)
        said = [f"the run broke: {type(error).__name__}: {error}"]
    line = {"seed": seed, "violations": said[:1], "cpu_s": round(time.process_time() - began, 2)}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return not said


def _cover(seeds: list[int], path: Path) -> int:
    import coverage

    measured = coverage.Coverage(
        data_file=None, config_file=False, include=[f"{ROOT}/{f}/*" for r in ROOMS for f in r.folders]
    )
    measured.start()
    for seed in seeds:
        measured.switch_context(str(seed))
        _runs(seed)
    measured.switch_context("")
    measured.stop()
    data = measured.get_data()
    found: dict[str, dict[int, list[int]]] = {}
    for file in sorted(data.measured_files()):
        lines: defaultdict[int, list[int]] = defaultdict(list)
        for line, contexts in data.contexts_by_lineno(file).items():
            lines[line] = sorted(int(each) for each in contexts if each)
        found[Path(file).relative_to(ROOT).as_posix()] = lines
    imported = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    there = [Path(each).relative_to(ROOT).as_posix() for each in imported if each and each.startswith(f"{ROOT}/")]
    path.write_text(json.dumps({"imported": sorted(there), "lines": found}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
