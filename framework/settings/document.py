"""One YAML text -> plain values, each with its place. Rejects all YAML features but lists, keys and text.

Every scalar stays the text that was written, and the schema decides what is a number: `NO`, `12:30:45` and `1_000` stay
text where the schema wants text. Built on the parser's events, so that size, depth and aliases are limited before
anything is built from them. Knows no schema, file or variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from framework.errors import ConfigurationError, shorten
from framework.mistakes import NotYaml
from framework.settings.models import Path

BYTES_MAX = 1 << 20
DEPTH_MAX = 50
ALIASES_MAX = 100
VALUES_MAX = 100_000  # with aliases followed: ten lines may stand for 10^10 values otherwise

_BRACKETED_ADDRESS = re.compile(r"\s*\[[^\[\],]*:[^\[\],]*\]:\d")
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
MERGE = "<<"
_NO_COLON = "this key has no ':' after it; write key: value"
_PLAINER = {
    "mapping values are not allowed": "a ':' too many; quote the value, or begin a new line",
    "did not find expected node content": "a value cannot begin so; quote it",
    "found character that cannot start any token": "a value cannot begin so; quote it",
    "did not find expected ','": "a ',' or a bracket is missing before this",
    "did not find expected key": "not indented as the key above; indent them alike",
}
"""What the parser says -> what to do."""
_CORE = "tag:yaml.org,2002:"
_CORE_TAGS = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null", "map", "seq"))

# The C parser where PyYAML has it: 20 times as fast, and it does not recurse on nested brackets.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Document:
    """Plain values (dict, list, str, None) and where each one was written."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Node:
    line: int
    column: int
    text: str | None = None
    items: list[_Node] | None = None
    pairs: list[tuple[_Node, _Node]] | None = None
    is_open: bool = True  # being built: an alias to it would refer to itself


def parsed(text: str, name: str) -> Document:
    """The document in `text`; `name` is what errors call the file. Raises ConfigurationError with line and column."""
    if len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX:
        raise NotYaml(f"{name} is larger than the limit of {BYTES_MAX} bytes", place=name)
    root = _root(text, name)
    document = Document()
    if root is None or (root.text is None and root.items is None and root.pairs is None):
        return document
    if root.pairs is None:
        raise NotYaml("expected keys and values; write key: value", place=f"{name}:{root.line}:{root.column}")
    document.values = _Plain(name, document.places).of(root, ())
    return document


def value(text: str, name: str) -> Any:
    """One value as a variable or an option writes it: `[a, b]` and `{a: b}` are opened, anything else is a text."""
    if text.lstrip()[:1] in ("[", "{") and _BRACKETED_ADDRESS.match(text) is None:
        root = _root(text, name)
        return _Plain(name, {}).of(root, ()) if root is not None else None
    return None if text in NULLS - {""} else text


def _root(text: str, name: str) -> _Node | None:
    try:
        return _Builder(name, _events(text)).document()
    except yaml.MarkedYAMLError as error:
        mark, reason = _blamed(error, text)
        raise NotYaml(f"not YAML: {reason}", place=f"{name}:{mark}" if mark else name) from None
    except yaml.YAMLError as error:
        raise NotYaml(f"not YAML: {shorten(str(error), 120)}", place=name) from None


def _blamed(error: yaml.MarkedYAMLError, text: str) -> tuple[str, str]:
    """Line and column of what is wrong, and the reason. The parser notices a missing colon a line too late."""
    reason = str(error.problem or error.context)
    mark = error.problem_mark or error.context_mark
    if mark is not None and (tab := _tab_before(text, mark)):
        return tab, "a tab; use spaces"
    if mark is not None and error.context_mark is not None and mark.line >= len(text.splitlines()):
        opened = _sign_at(text, error.context_mark)
        if opened in {"{", "[", "'", '"'}:
            mark, reason = error.context_mark, f"this {opened} is not closed"
    if "could not find expected ':'" in reason and error.context_mark is not None:
        mark, reason = error.context_mark, _NO_COLON
    elif mark is not None and reason.startswith(("mapping values are not allowed", "did not find expected key")):
        lines = text.splitlines()[: mark.line]
        above = [(at, line) for at, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
        if above and ":" not in above[-1][1]:
            number, line = above[-1]
            return f"{number}:{len(line) - len(line.lstrip()) + 1}", _NO_COLON
    plainer = next((ours for theirs, ours in _PLAINER.items() if reason.startswith(theirs)), reason)
    return (f"{mark.line + 1}:{mark.column + 1}" if mark else ""), plainer


def _tab_before(text: str, mark: yaml.Mark) -> str:
    """Where a line is indented with a tab, up to what the parser stumbled over; empty where none is."""
    for number, line in enumerate(text.splitlines()[: mark.line + 1], 1):
        indent = line[: len(line) - len(line.lstrip())]
        if "\t" in indent and line.strip():
            return f"{number}:{indent.index(chr(9)) + 1}"
    return f"{mark.line + 1}:{mark.column + 1}" if _sign_at(text, mark) == "\t" else ""


def _sign_at(text: str, mark: yaml.Mark) -> str:
    return "".join(text.splitlines()[mark.line : mark.line + 1])[mark.column : mark.column + 1]


def _events(text: str) -> Iterator[Any]:
    events: Iterator[Any] = yaml.parse(text.removeprefix("\ufeff"), Loader=_LOADER)
    return events


class _Builder:
    """Events -> nodes, within the limits."""

    def __init__(self, name: str, events: Iterator[Any]) -> None:
        self._name = name
        self._events = events
        self._anchors: dict[str, _Node] = {}
        self._aliases = 0

    def document(self) -> _Node | None:
        root: _Node | None = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise self._refusal(event, "a second document; a settings file holds one")
                root = self._node(next(self._events), 1)
        return root

    def _node(self, event: Any, depth: int) -> _Node:
        if depth > DEPTH_MAX:
            raise self._refusal(event, f"nested deeper than the limit of {DEPTH_MAX}")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None and event.tag not in _CORE_TAGS and event.tag != "!":
            raise self._refusal(event, f"the tag {shorten(event.tag)} is not allowed; settings are plain YAML")
        node = _Node(event.start_mark.line + 1, event.start_mark.column + 1)
        if event.anchor:
            self._anchors[event.anchor] = node
        if isinstance(event, yaml.ScalarEvent):
            if "\0" in event.value:
                raise self._refusal(event, f"the text {shorten(event.value)} contains a NUL, which no setting may")
            is_plain = not event.style  # None, or "" from the C parser
            is_null = is_plain and event.tag is None and event.value in NULLS
            node.text = None if is_null else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            node.items = self._items(depth)
        else:
            node.pairs = self._pairs(depth)
        node.is_open = False
        return node

    def _items(self, depth: int) -> list[_Node]:
        items: list[_Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return items

    def _pairs(self, depth: int) -> list[tuple[_Node, _Node]]:
        pairs: list[tuple[_Node, _Node]] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if key.text is None:
                raise self._refusal(event, "a key must be text")
            pairs.append((key, self._node(next(self._events), depth + 1)))
        return pairs

    def _alias(self, event: Any) -> _Node:
        self._aliases += 1
        if self._aliases > ALIASES_MAX:
            raise self._refusal(event, f"more aliases than the limit of {ALIASES_MAX}")
        node = self._anchors.get(event.anchor)
        if node is None:
            raise self._refusal(event, f"unknown anchor {shorten(event.anchor)}")
        if node.is_open:
            raise self._refusal(event, f"the anchor {shorten(event.anchor)} refers to itself")
        return node

    def _refusal(self, event: Any, reason: str) -> ConfigurationError:
        mark = event.start_mark
        return NotYaml(reason, place=f"{self._name}:{mark.line + 1}:{mark.column + 1}")


class _Plain:
    """Nodes -> values and places, aliases followed and merge keys (`<<`) opened."""

    def __init__(self, name: str, places: dict[Path, str]) -> None:
        self._name = name
        self._places = places
        self._count = 0

    def of(self, node: _Node, path: Path) -> Any:
        self._count += 1
        if self._count > VALUES_MAX:
            raise NotYaml(f"more than {VALUES_MAX} values, aliases counted", place=self._place(node))
        self._places[path] = self._place(node)
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        if node.items is not None:
            return [self.of(item, (*path, str(at))) for at, item in enumerate(node.items)]
        return node.text

    def _mapping(self, pairs: list[tuple[_Node, _Node]], path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key.text == MERGE:
                values = {**self._merged(key, value, path), **values}
        lines: dict[str, int] = {}
        for key, value in pairs:
            name = str(key.text)
            if name in lines:
                what = f"duplicate key {shorten(name)}, first in line {lines[name]}; remove one"
                raise NotYaml(what, place=self._place(key))
            lines[name] = key.line
            if name != MERGE:
                values[name] = self.of(value, (*path, name))
                self._places[(*path, name)] = self._place(key)
        return values

    def _merged(self, key: _Node, value: _Node, path: Path) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for source in [value] if value.items is None else value.items:
            if source.pairs is None:
                raise NotYaml("<< needs keys and values", place=self._place(key))
            self._count += 1
            merged = {**self._mapping(source.pairs, path), **merged}
        return merged

    def _place(self, node: _Node) -> str:
        return f"{self._name}:{node.line}:{node.column}"
