"""Write the folder of a new application or plugin, which passes check, dev and pytest as it is.

NAME becomes a folder here and a Python name: letters, digits and underscores.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template

from framework import __version__
from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.errors import StoreError
from framework.mistakes import UsageWrong

_LENGTH_MAX = 64
_STANDS_FOR_NAME = "NAME"
_ENDING = ".tpl"
_TAKEN_BY_THE_FOLDER = ("conftest", "framework", "handlers", "send", "tests")
"""Modules that such a folder imports beside its own."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", choices=("app", "plugin"), help="app or plugin")
    parser.add_argument("name", metavar="NAME", help="the folder to write, such as order_desk")


def execute(arguments: argparse.Namespace) -> int:
    kind, name = arguments.kind, arguments.name
    complaint = _complaint(kind, name)
    if complaint:
        raise UsageWrong(f"new {kind}: {complaint}")
    folder = Path(name)
    if folder.exists() and not (folder.is_dir() and next(folder.iterdir(), None) is None):
        what = "is a folder with something in it" if folder.is_dir() else "is a file"
        raise StoreError(f"new {kind}: {name} {what}; choose another name, or move it away")
    for path, text in written(kind, name):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        output.say(f"wrote {target.as_posix()}")
    output.say(f"next: cd {name} && framework-app dev")
    return ExitCode.CLEAN


def written(kind: str, name: str) -> Iterator[tuple[Path, str]]:
    """Each file of the folder, by its path in there."""
    words = {
        "name": name,
        "distribution": re.sub(r"_+", "-", name).strip("-").lower() or "app",
        "kind": "".join(word[:1].upper() + word[1:] for word in name.split("_")),
        "version": __version__,
    }
    root = files("framework.cli").joinpath("templates", kind)
    for path, file in _templates(root, Path()):
        text = Template(file.read_text(encoding="utf-8")).substitute(words)
        yield Path(path.as_posix().replace(_STANDS_FOR_NAME, name).removesuffix(_ENDING)), text


def _templates(folder: Traversable, here: Path) -> Iterator[tuple[Path, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _templates(each, here / each.name)
        elif each.name.endswith(_ENDING):
            yield here / each.name, each


def _complaint(kind: str, name: str) -> str | None:
    """What keeps the name from being one in Python, in YAML and of a group; with the way out."""
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return f"{name!r} is a word of Python's; try {name}_{kind}"
    if len(name) > _LENGTH_MAX:
        return f"the name has {len(name)} characters; use {_LENGTH_MAX} at most"
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        close = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_0123456789").lower()
        hint = f"; try {close}" if close and not keyword.iskeyword(close) else ""
        return f"{name!r} is no name in Python: begin with a letter, go on with letters, digits and _{hint}"
    if name in _TAKEN_BY_THE_FOLDER or name in sys.stdlib_module_names or (kind == "plugin" and name in _built_in()):
        return f"there is a {name!r} already, of Python's or of framework-app's; try {name}_{kind}"
    if find_spec(name) is not None:
        return f"there is a module {name!r} already, which this Python has installed; try {name}_{kind}"
    return None


def _built_in() -> set[str]:
    from framework.hooks.host import PluginHost

    return {each.name for each in PluginHost(discover=list).plugins}
