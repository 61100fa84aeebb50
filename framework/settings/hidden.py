"""Which settings of plugins are secret: by their model, their name, their variable, or as a URL's password.

The framework's own secrets have a type. A plugin's values are plain until its model reads them, so the log, and all
that shows settings, ask here. Knows no plugin: its model is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import unquote

import pydantic
from pydantic import BaseModel

from framework.errors import ConfigurationError, ConfigurationMistakes, retold
from framework.settings.models import Path, keys_of, walk
from framework.settings.secret import Secret
from framework.settings.secret_words import MASK, names_a_secret

PLUGINS: Path = ("plugins", "settings")
VARIABLE_LENGTH_MIN = 8
"""What a variable holds may be a port or `prod`: shorter than this it would mask half of every line of the log."""

PART_LENGTH = 6
"""A value and an error that share this many characters in a row: the error shows a part of the value."""

_SECRETS = (Secret, pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)
_EACH = "*"
# To the last @: whoever forgot to escape one in a password shall not have half of it shown.
_IN_URL = re.compile(r"(://[^\s/:@]*:)(\S+)(?=@)")
_BY_NAME = re.compile(r"((?:password|passwd|pwd|secret|token)\s*=\s*)([^\s&;]+)", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """A URL, or a database's `host=... password=...`, as it may be shown."""
    return _BY_NAME.sub(rf"\1{MASK}", _IN_URL.sub(rf"\1{MASK}", text))


def passwords_in(text: str) -> Iterator[str]:
    for found in (*_IN_URL.finditer(text), *_BY_NAME.finditer(text)):
        yield found[2]
        yield unquote(found[2])


@dataclass(slots=True)
class Hidden:
    """What is hidden in one application's settings. Two are always equal: only values make settings differ."""

    declared: set[Path] = field(default_factory=set, compare=False)
    """Paths that a plugin's model calls secret, and with them all that is below; `*` stands for any key."""
    variables: dict[Path, dict[str, str]] = field(default_factory=dict, repr=False, compare=False)
    """Path of a value that came from variables -> what they held, by their names."""

    def declare(self, path: Path, model: type[BaseModel]) -> None:
        """Hide the fields that this model declares as secret, in the settings at this path."""
        self.declared.update((*path, *inner) for inner in _secret_paths(model, ()))

    def came_from(self, path: Path, variable: str, text: str) -> None:
        """The value at this path has this text from a variable."""
        self.variables.setdefault(path, {})[variable] = text

    def joined(self, other: Hidden) -> Hidden:
        """All that either hides."""
        return Hidden(self.declared | other.declared, {**self.variables, **other.variables})

    def covers(self, path: Path) -> bool:
        """Whether the value at this path is not to be shown."""
        return self._is_declared(path) or _is_below(path, self._of_plugins)

    @property
    def _of_plugins(self) -> Iterator[Path]:
        return (path for path in self.variables if path[: len(PLUGINS)] == PLUGINS)

    def sources(self, path: Path) -> dict[str, str]:
        """The variables that the value at this path came from, or one around it or in it, with what they hold."""
        found: dict[str, str] = {}
        for each, held in self.variables.items():
            shorter = min(len(each), len(path))
            if each[:shorter] == path[:shorter]:
                found.update(held)
        return found

    def without_values(self, text: str, variables: Mapping[str, str] | None = None) -> str:
        """An error's text, with names in place of what variables hold: these, which it is about, or any."""
        held = [each for values in self.variables.values() for each in values.items()]
        for name, value in sorted(held if variables is None else variables.items(), key=lambda each: -len(each[1])):
            if len(value) >= PART_LENGTH:
                text = _without_parts(text, name, value)
            elif value:
                begin, end = ("['\"]", "['\"]") if variables is None else (r"(?<!\w)['\"]?", r"['\"]?")
                text = re.sub(f"{begin}{re.escape(value)}{end}", f"${{env:{name}}}", text)
        return text

    def masked(self, error: ConfigurationError) -> ConfigurationError:
        """The error without what variables hold, to be shown."""
        if isinstance(error, ConfigurationMistakes):
            return ConfigurationMistakes(self.masked(each) for each in error.mistakes)
        text = self.without_values(str(error))
        return error if text == str(error) else retold(error, text)

    def shown(self, value: Any, path: Path) -> Any:
        """The value as it may be shown, stars for what may not."""
        if isinstance(value, Mapping):
            return {key: self.shown(each, (*path, str(key))) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown(each, (*path, str(at))) for at, each in enumerate(value)]
        if value is None or value == "":
            return value
        if self.covers(path):
            return MASK
        return without_passwords(value) if isinstance(value, str) else value

    def texts(self, values: Mapping[str, Any]) -> Iterator[str]:
        """Every text in the settings of all plugins that no line of the log may show."""
        for path, value in walk(values, PLUGINS):
            if value is not None and not isinstance(value, Mapping | list | tuple):
                text = str(value)
                yield from passwords_in(text)
                if self._is_declared(path):
                    yield text
        for path in self._of_plugins:
            yield from (text for text in self.variables[path].values() if len(text) >= VARIABLE_LENGTH_MIN)

    def _is_declared(self, path: Path) -> bool:
        below_plugin = path[len(PLUGINS) + 1 :]
        return any(map(names_a_secret, below_plugin)) or _is_below(path, self.declared)


def _without_parts(text: str, name: str, value: str) -> str:
    """Errors show a value whole, quoted, cut off, or in parts that they have divided it into."""
    kept, at = list[str](), 0
    while at < len(text):
        end = at + PART_LENGTH
        if text[at:end] not in value or end > len(text):
            kept.append(text[at])
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in value:
            end += 1
        kept.append(f"${{env:{name}}}")
        at = end
    shown = re.escape(f"${{env:{name}}}")
    return re.sub(rf"(['\"])({shown})\1|['\"]({shown})\.\.\.", r"\2\3", "".join(kept))


def _is_below(path: Path, hidden: Iterable[Path]) -> bool:
    return any(
        len(each) <= len(path) and all(step in (_EACH, ours) for step, ours in zip(each, path, strict=False))
        for each in hidden
    )


def _secret_paths(kind: Any, around: tuple[Any, ...]) -> Iterator[Path]:
    """Where secrets are in values of this type."""
    kind = getattr(kind, "__value__", kind)  # what a `type` statement names
    origin, arguments = get_origin(kind), get_args(kind)
    if _is_secret(kind if origin is None else origin):
        yield ()
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind in around:
            yield ()  # a model within itself has no last level: hidden whole
            return
        for name, each in kind.model_fields.items():
            for inner in _secret_paths(each.annotation, (*around, kind)):
                yield from ((key, *inner) for key in keys_of(name, each))
    elif origin is Annotated:
        yield from _secret_paths(arguments[0], around)
    elif origin in (Union, UnionType):
        for each in arguments:
            yield from _secret_paths(each, around)
    else:
        for each in arguments:
            yield from ((_EACH, *inner) for inner in _secret_paths(each, around))


def _is_secret(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _SECRETS)
