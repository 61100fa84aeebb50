"""Measure groups of many members in virtual time, and draw what grows.

    python -m benchmarks.scale                         30 members, a table on stdout
    python -m benchmarks.scale --members 10,100,1000   several sizes, the smallest first
        --json build/scale.json                        keep the figures; sizes measured before stay in the file
        --draw docs/scale.svg                          draw the figures of that file instead of measuring

A thousand members take some ten minutes of processor time and two gigabytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.scale.drill import PHASES, Drill, Figures, memory_mib
from benchmarks.scale.plot import drawn
from benchmarks.scale.world import GroupWorld

HEAD = (
    "| | Members | Queue moves | Seconds to rest | Requests per broker and second: mean, most | Most of one member | "
    "Processor seconds a minute |\n|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__, formatter_class=_Raw)
    parser.add_argument("--members", type=_sizes, default=[30], metavar="N,N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg")
    given = parser.parse_args()
    if given.draw is not None:
        if given.json is None:
            parser.error("--draw needs --json FILE, the figures that a measurement has kept")
        kept = json.loads(given.json.read_text())
        given.draw.write_text(drawn(kept["runs"]))
        print(table(kept["runs"]))
        return
    for members in sorted(given.members):
        measured(members, given.seed, given.json)


def measured(members: int, seed: int, path: Path | None) -> None:
    """One size, written after each phase."""
    world = GroupWorld(members, seed)
    run: dict[str, Any] = {"members": members, "commit": _commit(), "phases": {}}

    def tell(found: Figures) -> None:
        run["phases"][found.phase] = asdict(found) | {"cpu_a_minute": found.cpu_a_minute}
        run["memory_mib"] = memory_mib()
        print(row(run["phases"][found.phase]), flush=True)
        if path is not None:
            _keep(path, run)

    figures = Drill(world, tell).run()
    print(
        f"{members} members: {memory_mib()} MiB, {sum(each.cpu_s for each in figures.values()):.0f} s of processor time"
    )
    if world.failures:
        raise SystemExit(f"{len(world.failures)} errors were logged; the first: {world.failures[0]}")


def table(runs: list[dict[str, Any]]) -> str:
    """As Markdown."""
    rows = [row(run["phases"][phase]) for phase in PHASES for run in runs if phase in run["phases"]]
    return "\n".join([HEAD, *rows])


def row(found: dict[str, Any]) -> str:
    rest = "not all" if found["rest_s"] is None else f"{found['rest_s']:.1f}"
    return (
        f"| {found['phase']} | {found['members']:,} | {found['moves']:,} | {rest} | {found['mean']:,.1f}, "
        f"{found['peak']:,} | {found['group_peak']}, {found['member_peak']} | "
        f"{found['cpu_s'] * 60 / found['virtual_s']:,.1f} |"
    )


def _keep(path: Path, run: dict[str, Any]) -> None:
    kept = json.loads(path.read_text()) if path.exists() else {"runs": []}
    others = [each for each in kept["runs"] if each["members"] != run["members"]]
    kept["runs"] = sorted([*others, run], key=lambda each: int(each["members"]))
    path.write_text(json.dumps(kept, indent=1) + "\n")


def _commit() -> str:
    said = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def _sizes(text: str) -> list[int]:
    sizes = [int(each) for each in text.split(",") if each.isdecimal()]
    if not sizes or len(sizes) != text.count(",") + 1 or min(sizes) < 10:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers of members, each at least 10, with commas between them")
    return sizes


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


if __name__ == "__main__":
    main()
