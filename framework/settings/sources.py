"""Where settings come from: defaults, file, overlays, environment, command line; each overrides those before it.

Reads files and variables, and collects all errors before it raises. `schema.py` knows what the keys mean, `document.py`
what YAML may contain.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, nearest, retold, shorten
from framework.mistakes import FileExposed, FileUnreadable, SettingUnclear, UnknownKey, VariableMissing
from framework.settings import document
from framework.settings.document import Document
from framework.settings.fields import NAMES_A_FILE
from framework.settings.hidden import Hidden
from framework.settings.mistakes import without_mistaken
from framework.settings.models import keys_of, models_in, walk
from framework.settings.schema import SOURCES, AppSettings, alike
from framework.settings.secret_words import names_a_secret

CONFIG_VARIABLE = "FRAMEWORK_APP_CONFIG"
PREFIX = "FRAMEWORK_APP__"
FILE_NAME = "framework-app.yaml"

_REFERENCE = re.compile(r"\$(\$)?\{([^}]*\}?)")
_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)\}")
_MISSING = object()
"""Replaces a value whose variable is not set, so that the schema does not report it again."""
_KEYS_OF_CREDENTIALS = ("access_key", "secret_key", "security_token")


@dataclass(frozen=True, slots=True)
class Override:
    """One value from the command line; `place` is the option as the user wrote it."""

    path: tuple[str, ...]
    text: str
    place: str


def override(assignment: str) -> Override:
    """`--set a.b=c` in parts."""
    name, separator, text = assignment.partition("=")
    path = tuple(step.strip() for step in name.split("."))
    if not separator or not all(path):
        raise SettingUnclear(f"--set {shorten(assignment)}: write --set consumers.billing.concurrency=4")
    return Override(path, text, f"--set {name.strip()}")


def find(config: str | None, environment: Mapping[str, str], folder: Path | None = None) -> Path | None:
    """The settings file: the one named, else the variable's, else ./framework-app.yaml, else the one in `folder`."""
    named = config or environment.get(CONFIG_VARIABLE)
    if named:
        path = Path(named)
        if not path.is_file():
            source = "--config" if config else f"${CONFIG_VARIABLE}"
            if path.is_dir():
                raise FileUnreadable(f"{source}: {shorten(named)} is a folder; name the file in it")
            raise FileUnreadable(f"{source}: there is no file {shorten(named)}{_near_file(path)}")
        return path
    candidates = [Path(FILE_NAME), *([folder / FILE_NAME] if folder is not None else [])]
    for path in candidates:
        if path.is_file():
            return path
        if (other := path.with_suffix(".yml")).is_file():
            raise FileUnreadable(f"{other} is not read; call it {FILE_NAME}, or write --config {other}")
    return None


def load(
    file: Path | str | None = None,
    *,
    overlays: Sequence[Path | str] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[Override] = (),
) -> AppSettings:
    """All sources merged and checked; raises ConfigurationMistakes with every error and its place.

    Without an `environment`, the process's own.
    """
    findings = Findings()
    settings = gather(file, findings, overlays=overlays, environment=environment, overrides=overrides)
    if findings:
        raise ConfigurationMistakes(findings.mistakes)
    return settings


def gather(
    file: Path | str | None,
    findings: Findings,
    *,
    overlays: Sequence[Path | str] = (),
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[Override] = (),
) -> AppSettings:
    """The same, but wrong settings are noted and left out, so that the caller can check the rest."""
    layers = _Layers(os.environ if environment is None else environment, findings)
    for path in ([file] if file is not None else []) + list(overlays):
        layers.add_file(Path(path))
    layers.add_environment()
    for each in overrides:
        layers.add(layers.options, each.path, each.text, each.place)
    return layers.settings()


def read_credentials(path: Path) -> Document:
    """A file with access_key, secret_key and perhaps security_token; refused when others may read it."""
    content = read_private(path)
    for key in content.values:
        if key not in _KEYS_OF_CREDENTIALS:
            raise UnknownKey(
                f"unknown key {shorten(key)}; known here: {', '.join(_KEYS_OF_CREDENTIALS)}",
                place=content.places[(key,)],
            )
    return content


def read_private(path: Path) -> Document:
    """A file with secrets; refused when others may read it."""
    content = read(path)
    _check_private(path)
    return content


def private_text(path: Path) -> str:
    """A file that is one secret, in a line; refused when others may read it."""
    text = _text(path)
    _check_private(path)
    return text.strip()


def _check_private(path: Path) -> None:
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FileExposed(f"other users may read this file; run: chmod 600 {path}", place=str(path))


def has_content(value: Any) -> bool:
    """Whether any key in it has a value."""
    if isinstance(value, Mapping):
        return any(has_content(each) for each in value.values())
    return value is not None


def read(path: Path) -> Document:
    """One settings file; ConfigurationError with the place of an error."""
    return document.parsed(_text(path), str(path))


def _text(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            content = stream.read(document.BYTES_MAX + 1)
    except FileNotFoundError:
        raise FileUnreadable(f"there is no such file{_near_file(path)}", place=str(path)) from None
    except OSError as error:
        raise FileUnreadable(f"cannot be read: {error.strerror}; run: ls -l {path}", place=str(path)) from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FileUnreadable(f"byte {error.start} is not UTF-8; save it as UTF-8", place=str(path)) from None


def _near_file(path: Path) -> str:
    """A hint at the file that may be meant."""
    return nearest(path.name, [each.name for each in path.parent.glob("*.y*ml")]) or "; correct the name"


class _Layer(PydanticBaseSettingsSource):
    """A source for pydantic-settings, which merges the values of all sources; and the place of each value."""

    def __init__(self) -> None:
        super().__init__(AppSettings)
        self.values: dict[str, Any] = {}
        self.places: dict[tuple[str, ...], str] = {}

    def lay(self, values: dict[str, Any], places: Mapping[tuple[str, ...], str]) -> None:
        """Override what this source had before."""
        _lay(self.values, values)
        self.places |= places

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self.values


class _Credentials(_Layer):
    """Keys from `cluster.credentials.file`. The weakest source: keys beside `file` override them."""

    def __init__(self, layers: _Layers) -> None:
        super().__init__()
        self._layers = layers

    def __call__(self) -> dict[str, Any]:
        cluster = self.current_state.get("cluster")
        credentials = cluster.get("credentials") if isinstance(cluster, dict) else None
        name = credentials.get("file") if isinstance(credentials, dict) else None
        if isinstance(name, str) and name:
            self._read(name)
        self._layers.laid(self, self.current_state)
        return self.values

    def _read(self, name: str) -> None:
        route = ("cluster", "credentials")
        try:
            found = read_credentials(Path(name))
        except ConfigurationError as mistake:
            layers = (self._layers.options, self._layers.variables, self._layers.files)
            where = next((each.places[*route, "file"] for each in layers if (*route, "file") in each.places), None)
            self._layers.findings.note(retold(mistake, f"cluster.credentials.file: {mistake}", place=where))
            return
        self.values = {"cluster": {"credentials": found.values}}
        self.places = {(*route, *path): place for path, place in found.places.items()}


@dataclass(slots=True)
class _Layers:
    environment: Mapping[str, str]
    findings: Findings
    files: _Layer = field(default_factory=_Layer)
    """The file and its overlays. A section that an overlay empties stays empty for later sources."""
    variables: _Layer = field(default_factory=_Layer)
    options: _Layer = field(default_factory=_Layer)
    below: dict[str, Any] = field(default_factory=dict)
    """The sources so far, the strongest last: what the next one is laid over."""
    below_places: dict[tuple[str, ...], str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """The merged values of all sources."""
    places: dict[tuple[str, ...], str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    hidden: Hidden = field(default_factory=Hidden)

    def add_file(self, path: Path) -> None:
        layer = self.findings.tried(lambda: read(path))
        if layer is None:
            return
        self._warn_of_secrets(layer)
        layer.values = self._expanded(layer.values, (), layer.places)
        _beside(path.parent, AppSettings, layer.values)
        _handlers_beside(path.parent, layer.values)
        self._lay(self.files, layer.values, layer.places)

    def add_environment(self) -> None:
        """`FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY=4`; in the order of their names, so that runs are alike."""
        for variable in sorted(each for each in self.environment if each.startswith(PREFIX)):
            path = self.findings.tried(partial(self._spelled, variable))
            if path is not None:
                self.add(self.variables, path, self.environment[variable], f"${variable}", expand=False)

    def add(self, layer: _Layer, path: tuple[str, ...], text: str, place: str, *, expand: bool = True) -> None:
        path = _keyed(path, self.below)
        try:
            value = document.value(text, place)
        except ConfigurationError as mistake:
            self.findings.note(mistake)
            return
        places = dict.fromkeys((each for each, _ in walk(value, path)), place)
        if expand:
            value = self._expanded(value, path, places)
        else:
            self.hidden.came_from(path, place.removeprefix("$"), text)
        if value is _MISSING:
            return
        for step in reversed(path):
            value = {step: value}
        self._lay(layer, value, places)

    def _lay(self, layer: _Layer, values: dict[str, Any], places: Mapping[tuple[str, ...], str]) -> None:
        """Keys that are laid over a plain value hide it; so it is checked here, or nobody would ever hear of it."""
        for path, value in _covered(self.below, values, ()):
            alone = reduce(lambda inner, step: {step: inner}, reversed(path), value)
            found = AppSettings.parsed(alone, self.below_places, hidden=self.hidden)
            if isinstance(found, list):
                self.findings.note(*found)
        _lay(self.below, deepcopy(values))
        self.below_places |= places
        layer.lay(values, places)

    def _spelled(self, variable: str) -> tuple[str, ...]:
        """Variables are upper case and have no hyphen; keys that exist below are spelled as they are there."""
        path: list[str] = []
        level: Any = _lay(deepcopy(self.files.values), self.variables.values)
        for step in variable.removeprefix(PREFIX).split("__"):
            known = level if isinstance(level, dict) else {}
            names = [key for key in known if alike(key, step)]
            if len(names) > 1:
                raise SettingUnclear(
                    f"{'.'.join(path) or 'the settings'}: {step} may mean {' or '.join(names)}; use --set or the file",
                    place=f"${variable}",
                )
            name = names[0] if names else step.lower()
            path.append(name)
            level = known.get(name)
        return tuple(path)

    def _expanded(self, value: Any, path: tuple[str, ...], places: Mapping[tuple[str, ...], str]) -> Any:
        """`${env:NAME}` in parsed texts only, and once: what a variable holds can add no keys and no references."""
        if isinstance(value, dict):
            opened = {key: self._expanded(item, (*path, key), places) for key, item in value.items()}
            return {key: item for key, item in opened.items() if item is not _MISSING}
        if isinstance(value, list):
            items = [self._expanded(item, (*path, str(at)), places) for at, item in enumerate(value)]
            return _MISSING if any(item is _MISSING for item in items) else items
        if not isinstance(value, str) or "$" not in value:
            return value

        wrong: list[ConfigurationError] = []

        def replaced(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]
            variable = _VARIABLE.fullmatch(found[2])
            if variable is None:
                reason = f"{shorten(found[0])} is no reference; write ${{env:NAME}}, or $${{ for a plain ${{"
            elif variable[1] not in self.environment:
                reason = f"the environment variable {variable[1]} is not set; set it before the start"
            else:
                self.hidden.came_from(path, variable[1], self.environment[variable[1]])
                return self.environment[variable[1]]
            wrong.append(VariableMissing(f"{'.'.join(path)}: {reason}", place=places.get(path)))
            return ""

        text = _REFERENCE.sub(replaced, value)
        self.findings.note(*wrong)
        return _MISSING if wrong else text

    def _warn_of_secrets(self, layer: Document) -> None:
        for path, value in walk(layer.values):
            is_literal = isinstance(value, str) and value and "${" not in value
            # An access key is a name.
            if is_literal and names_a_secret(path[-1]) and "access" not in path[-1].lower():
                name = ".".join(path)
                self.warnings.append(f"{layer.places[path]}: {name} is in the file; write ${{env:NAME}} instead")

    def settings(self) -> AppSettings:
        """What pydantic-settings merges from the sources; wrong settings are noted and left out."""
        found = self._parsed({SOURCES: (self.options, self.variables, self.files, _Credentials(self))})
        while isinstance(found, list):
            self.findings.note(*found)
            before, self.values = self.values, without_mistaken(AppSettings, self.values)
            found = AppSettings() if self.values == before else self._parsed(self.values)
        return found

    def _parsed(self, values: Mapping[str, Any]) -> AppSettings | list[ConfigurationError]:
        return AppSettings.parsed(values, self.places, self.warnings, self.hidden)

    def laid(self, weakest: _Layer, above: Mapping[str, Any]) -> None:
        """Keep the merged values, so that wrong ones can be left out, and the places of those that are left."""
        self.values = _lay(deepcopy(weakest.values), above)
        found = weakest.places | self.files.places | self.variables.places | self.options.places
        self.places.update({path: found[path] for path, _ in walk(self.values) if path and path in found})


def _lay(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`below` with `above` over it: keys join keys, anything else is replaced whole."""
    for key, value in above.items():
        old = below.get(key)
        below[key] = _lay(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return below


def _keyed(path: tuple[str, ...], below: Any) -> tuple[str, ...]:
    """The path, its end as one key with dots where it names one: those of `logging.levels` and `cluster.address_map`,
    and what weaker sources have, such as a setting of Spark's.
    """
    models: list[type[BaseModel]] = [AppSettings]
    for at, step in enumerate(path[:-1], start=1):
        fields = [each for model in models for name, each in model.model_fields.items() if step in keys_of(name, each)]
        below = below.get(step) if isinstance(below, dict) else None
        rest = ".".join(path[at:])
        if any(_is_of_texts(each.annotation) for each in fields) or (isinstance(below, dict) and rest in below):
            return (*path[:at], rest)
        models = [model for each in fields for model in models_in(each.annotation)] or models
    return path


def _is_of_texts(kind: Any) -> bool:
    """Whether it is a mapping whose values are no keys and values again."""
    if get_origin(kind) is not Mapping or any(models_in(kind)):
        return False
    of = get_args(kind)[1]
    return get_origin(get_args(of)[0] if get_origin(of) is Annotated else of) is not Mapping


def _covered(below: Any, above: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values below that are no keys, with keys above them."""
    if not isinstance(above, dict) or below is None:
        return
    if not isinstance(below, dict):
        yield path, below
        return
    for key, value in above.items():
        yield from _covered(below.get(key), value, (*path, key))


def _beside(folder: Path, model: type[BaseModel], values: dict[str, Any]) -> None:
    """Make file names relative to the settings file, wherever the process runs."""
    for name, each in model.model_fields.items():
        value = values.get(name)
        if isinstance(value, dict):
            for inner in models_in(each.annotation):
                _beside(folder, inner, value)
        elif NAMES_A_FILE in each.metadata and isinstance(value, str) and value and not _is_elsewhere(value):
            values[name] = str(folder / value)


def _is_elsewhere(text: str) -> bool:
    return text.startswith("~") or text == "auto"


def _handlers_beside(folder: Path, values: dict[str, Any]) -> None:
    """The same for handlers that are files or folders; modules are imported by name."""
    app = values.get("app")
    names = app.get("handlers") if isinstance(app, dict) else None
    if isinstance(app, dict) and isinstance(names, list | tuple):
        app["handlers"] = [_handler_beside(folder, name) if isinstance(name, str) else name for name in names]
    elif isinstance(app, dict) and isinstance(names, str):
        app["handlers"] = _handler_beside(folder, names)


def _handler_beside(folder: Path, name: str) -> str:
    is_file = name.partition(":")[0].endswith(".py") or "/" in name or name == "."
    if not is_file or folder == Path():
        return name
    beside = str(folder / name)
    return beside if "/" in beside else f"./{beside}"
