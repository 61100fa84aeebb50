"""Turns what is written for a plugin into an instance of its model: its settings, and a strategy's options.

A model contains the plugin's code, so everything that it raises is reported under the plugin's name. The settings know
where a value was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias, get_args, get_type_hints, is_typeddict

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from framework.errors import ConfigurationMistakes, Findings
from framework.hooks.failures import plugin_failure
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


Steps: TypeAlias = tuple[int | str, ...]
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")


def unknown_keys(model: type[BaseModel], values: Mapping[str, Any]) -> ValidationError | None:
    """What is written and no field of the model, nor of a model within it; None where there is nothing such.

    pydantic ignores it unless the model forbids it; we refuse it. pydantic itself is asked, so aliases, unions and
    validators mean what they mean to the model. It has no "forbid unless allowed", so what a model allows itself
    (`extra="allow"`) is removed from what it finds.
    """
    try:
        model.model_validate(dict(values), extra="forbid")
    except ValidationError as error:
        found = {
            _steps(values, each["loc"]): each["input"]
            for each in error.errors(include_url=False, include_context=False)
            if each["type"] in _UNKNOWN
        }
        mistakes = [
            InitErrorDetails(type="extra_forbidden", loc=steps, input=value)
            for steps, value in found.items()
            if steps and not _is_known(model, steps)
        ]
        if mistakes:
            return ValidationError.from_exception_data(model.__name__, mistakes)
    return None


def _steps(values: Any, loc: Steps) -> Steps:
    """The way to the value as it is written: pydantic also names the members of a union on it."""
    steps: list[int | str] = []
    level = values
    for step in loc:
        is_index = isinstance(step, int) and isinstance(level, list | tuple) and step < len(level)
        if is_index or (isinstance(level, Mapping) and step in level):
            level = level[step]
            steps.append(step)
    return tuple(steps)


def _is_known(model: type[BaseModel], steps: Steps) -> bool:
    """Whether one of the models that may stand there has this key, or allows any."""
    *way, last = steps
    kinds: list[Any] = [model]
    for step in way:
        inside: list[Any] = []
        for kind in kinds:
            fields = _fields(kind)
            # What is no field is a key of a mapping, or an index: its values are of the same kinds.
            inside += _models(fields[step]) if step in fields else [kind]
        kinds = inside
    return any(last in _fields(kind) or _allows(kind) for kind in kinds)


def _allows(kind: Any) -> bool:
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    return bool(config.get("extra") == "allow")


def _fields(kind: Any) -> Mapping[Any, Any]:
    """What may be written for each field -> its type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        by_name = kind.model_config.get("populate_by_name") or kind.model_config.get("validate_by_name")
        return {
            key: each.annotation
            for name, each in kind.model_fields.items()
            for key in _written(name, each, by_name=bool(by_name))
        }
    try:
        return get_type_hints(kind)
    except NameError:  # of what was defined within a function: the names are enough to know a key by
        return dict(kind.__annotations__)


def _written(name: str, field: FieldInfo, *, by_name: bool) -> Iterator[str]:
    alias = field.validation_alias
    if alias is None or by_name:
        yield name
    for each in getattr(alias, "choices", [alias]):
        yield from (step for step in getattr(each, "path", [each])[:1] if isinstance(step, str))


def _models(annotation: Any) -> list[Any]:
    """The models, dataclasses and typed dictionaries in an annotation."""
    annotation = getattr(annotation, "__value__", annotation)  # what a `type` statement names
    is_model = isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel)
    if is_model or is_typeddict(annotation) or (isinstance(annotation, type) and dataclasses.is_dataclass(annotation)):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
