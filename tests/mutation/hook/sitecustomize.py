"""Puts one mutant into a Python process and into all that it starts: Python imports a module of this name at its start.

The environment names a file with the module's path and its changed source. Nothing is written, neither the source nor
compiled code, so any number of processes may have a mutant of their own at once.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

VARIABLE = "FRAMEWORK_MUTANT"
MEMORY_MAX = 2 << 30
"""A mistake in a loop must not take the machine along."""


class ChangedSource(SourceFileLoader):
    """Loads a module from its own path, with another text."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class OneMutant(MetaPathFinder):
    """Finds the module that stands in the mutant's file, and leaves all others to those behind it."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self._stem = Path(path).stem

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        last = fullname.rpartition(".")[2]
        if self._stem not in {last, "__init__"}:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or os.path.realpath(spec.origin) != self._path:
            return None
        spec.loader = ChangedSource(fullname, spec.origin, self._text)
        return spec


def install(job: str) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, resource.RLIM_INFINITY))
    said = json.loads(Path(job).read_text(encoding="utf-8"))
    sys.meta_path.insert(0, OneMutant(os.path.realpath(said["path"]), said["text"]))


if os.environ.get(VARIABLE):
    install(os.environ[VARIABLE])
