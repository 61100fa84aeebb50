"""Which files belong to an application, and whether one has changed. Imports nothing of the application."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from framework.cli import options
from framework.errors import ConfigurationError
from framework.runtime.plans.collect import target

FILES_MAX = 5_000
_SUFFIXES = frozenset({".py", ".yaml", ".yml"})
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})

Stamp = dict[str, tuple[int, int]]


def watched_files(arguments: argparse.Namespace) -> Callable[[], Stamp]:
    """What to call for the state of the application's files: name -> (time of change, size)."""
    return lambda: _stamp(_roots(arguments))


def _roots(arguments: argparse.Namespace) -> list[Path]:
    """The settings and overlays, and the top package (or the folder) of each module that holds handlers."""
    try:
        file = options.settings_file(arguments)
    except ConfigurationError:
        file = Path(arguments.config) if arguments.config else None
    roots = [Path(each) for each in arguments.overlay]
    roots += [file] if file is not None else []
    names = [arguments.app] if arguments.app else _handlers(arguments)
    for name in names:
        roots += _places(name)
    return roots


def _handlers(arguments: argparse.Namespace) -> list[str]:
    try:
        return list(options.loaded(arguments).settings.app.handlers)
    except ConfigurationError:
        return []  # the settings themselves are watched; once they are right, the rest is


def _places(name: str) -> list[Path]:
    try:
        top = target(name).module.partition(".")[0]
        spec = find_spec(top)
    except (ConfigurationError, ImportError, ValueError):
        path = Path(name.partition(":")[0])
        return [path] if path.exists() else []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(place) for place in spec.submodule_search_locations]
    # A single file is watched with its neighbours: that is where what it imports lies.
    return sorted(Path(spec.origin).parent.glob("*.py")) if spec.origin else []


def _stamp(roots: list[Path]) -> Stamp:
    stamp: Stamp = {}
    for root in roots:
        for path in _files(root):
            if len(stamp) >= FILES_MAX:
                return stamp
            try:
                state = path.stat()
            except OSError:
                continue  # gone between listing and looking: that is a change, and it shows as one
            stamp[str(path)] = (state.st_mtime_ns, state.st_size)
    return stamp


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.glob("*")) if root.is_dir() else ():
        if path.name in _SKIPPED or path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.suffix in _SUFFIXES:
            yield path
