"""Planting: runs stories or seeds in a process of its own whose code has one of the mistakes of `planted.py` in it.

    python -m tests.simulation.planting a-reset-is-not-seen story
    python -m tests.simulation.planting a-reset-is-not-seen seeds --most 200 --base 7

The module is compiled from its source with the mistake in it when it is imported; no file changes. The exit code is 1
where the mistake was found, 0 where not. `seeds` says at which one, and by which truth.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from tests.simulation.planted import PLANTED, Mistake

if TYPE_CHECKING:
    from tests.simulation.simulation import Verdict

ROOT = Path(__file__).parents[2]
FOUND, MISSED = 1, 0


class _WithMistake(SourceFileLoader):
    """Loads the module from its source with the mistake in it, and never from a compiled file."""

    mistake: Mistake

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(self.mistake.put_into(Path(path).read_text(encoding="utf-8")), path, "exec")


class Planter(MetaPathFinder):
    """Has one module loaded with the mistake; all others as usual."""

    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._mistake.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None, f"no module {fullname}"
        assert spec.origin is not None, f"{fullname} has no file"
        loader = _WithMistake(fullname, spec.origin)
        loader.mistake = self._mistake
        return importlib.util.spec_from_file_location(fullname, spec.origin, loader=loader)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Whether stories or seeds find a mistake that is put into the code.")
    parser.add_argument("mistake", choices=[each.name for each in PLANTED])
    parser.add_argument("how", choices=["story", "seeds"])
    parser.add_argument("--most", type=int, default=200, help="seeds that are played at most")
    parser.add_argument("--base", type=int, default=0, help="the first of them")
    parser.add_argument("--forced", action="store_true", help="with the kinds of fault that bring it to light")
    options = parser.parse_args(arguments)
    mistake = next(each for each in PLANTED if each.name == options.mistake)
    assert mistake.module not in sys.modules, f"{mistake.module} was imported before the mistake was in it"
    sys.meta_path.insert(0, Planter(mistake))
    if options.how == "story":
        return _told(mistake)
    return _played(range(options.base, options.base + options.most), mistake.faults if options.forced else ())


def _told(mistake: Mistake) -> int:
    import pytest  # behind the mistake, as all that is imported here

    # Rewritten assertions would come with a loader of their own for all of the framework.
    ended = pytest.main(
        ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:randomly", str(ROOT / mistake.story)]
    )
    assert ended in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}, f"the story could not be told: {ended!r}"
    return FOUND if ended is pytest.ExitCode.TESTS_FAILED else MISSED


def _played(seeds: Sequence[int], faults: Sequence[str]) -> int:
    for number, seed in enumerate(seeds, start=1):
        verdict = verdict_of(seed, faults)
        if verdict.violations:
            sys.stdout.write(f"found by seed {seed}, number {number}: {verdict.violations[0]}\n")
            return FOUND
    sys.stdout.write(f"not found by {len(seeds)} seeds\n")
    return MISSED


def verdict_of(seed: int, faults: Sequence[str] = ()) -> Verdict:
    """What becomes of a seed, with its own faults or with these; in this process, whatever is in its code."""
    from tests.simulation.faults.kinds import kind_named  # as above
    from tests.simulation.plans.plan import draw
    from tests.simulation.simulation import play

    verdict, _ = play(draw(seed, kinds=[kind_named(name) for name in faults] or None))
    gc.collect()  # the collector is off during a run
    return verdict


if __name__ == "__main__":
    sys.exit(main())
