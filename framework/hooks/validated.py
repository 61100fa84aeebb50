"""Turns what is written for a plugin into an instance of its model: its settings, and a strategy's options.

A model contains the plugin's code, so everything that it raises is reported under the plugin's name. The settings know
where a value was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from framework.errors import ConfigurationMistakes, Findings
from framework.hooks.failures import plugin_failure
from framework.hooks.unknown_keys import unknown_keys
from framework.mistakes import PluginBroken


class Origin(Protocol):
    """Says where a setting was written, and keeps secrets from being shown (`AppSettings`)."""

    def place(self, *path: str) -> str | None: ...
    def hide(self, path: tuple[str, ...], kind: type[BaseModel]) -> None: ...
    def explain(
        self, path: tuple[str, ...], kind: type[BaseModel], error: ValidationError
    ) -> ConfigurationMistakes: ...
    def right_in(self, kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]: ...


def validated(
    model: type[BaseModel], values: Mapping[str, Any], path: tuple[str, ...], origin: Origin | None
) -> BaseModel:
    """An instance of the model, of what is written at `path`; ConfigurationError for whatever is wrong, a key that the
    model does not know among it.
    """
    if origin is None:
        return model.model_validate(dict(values))
    try:
        made, wrong = _tried(model, values)
    except BaseException as error:
        plugin_failure(error)
        reason = f"checking it failed: {type(error).__name__}: {error}"
        raise PluginBroken(f"{'.'.join(path)}: {reason}", place=origin.place(*path)) from error
    if made is not None and not wrong:
        return made
    findings = Findings()
    for each in wrong:
        findings.note(origin.explain(path, model, each))
    raise ConfigurationMistakes(findings.mistakes)


def _tried(model: type[BaseModel], values: Mapping[str, Any]) -> tuple[BaseModel | None, list[ValidationError]]:
    """The instance, if there can be one, and what is wrong all the same."""
    unknown = unknown_keys(model, values) if values else None
    wrong = [] if unknown is None else [unknown]
    try:
        return model.model_validate(dict(values)), wrong
    except ValidationError as error:
        return None, [error, *wrong]
