"""Turns what is written for a plugin into an instance of its model: its settings, and a strategy's options; and finds
what plugins offer by the name that settings write.

A model contains the plugin's code, so everything that it raises is reported under the plugin's name. The settings know
where a value was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, get_args, get_type_hints, is_typeddict

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, nearest
from framework.hooks.failures import plugin_failure
from framework.mistakes import NameUnknown, OfferWrong, PluginBroken, WrongValue
from framework.model.allocation import Allocation
from framework.model.contracts import AllocationStrategy, TakesOptions


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


T = TypeVar("T")
Contain = Callable[[str, AllocationStrategy], AllocationStrategy]


def _as_it_is(_: str, strategy: AllocationStrategy) -> AllocationStrategy:
    return strategy


def choose(
    allocation: Allocation,
    strategies: Mapping[str, AllocationStrategy],
    path: tuple[str, ...],
    origin: Origin,
    contained: Contain = _as_it_is,
) -> AllocationStrategy:
    """The strategy for what was written at `path`; raises ConfigurationError (or several) with file and line.

    `contained(name, strategy)` is called in the strategy's place, and for one that another strategy's option names.
    """
    name, here = allocation.name, (*path, allocation.name)
    place = origin.place(*here) or origin.place(*path)
    strategy = named("strategy", name, strategies, path, origin)
    try:
        if not isinstance(strategy, TakesOptions):
            if allocation.options:
                raise WrongValue(f"{'.'.join(path)}: the strategy {name!r} has no options", place=place)
            return contained(name, strategy)
        options = validated(strategy.options, allocation.options, here, origin)
        configured = strategy.configured(
            options, lambda inner, option: choose(inner, strategies, (*here, option), origin, contained)
        )
        return contained(name, configured)
    except ConfigurationError:
        raise
    except BaseException as error:
        plugin_failure(error)
        reason = f"the strategy {name!r} failed: {type(error).__name__}: {error}"
        raise OfferWrong(f"{'.'.join(path)}: {reason}", place=place) from error


def named(
    what: str, name: str, offered: Mapping[str, T], path: tuple[str, ...], origin: Origin, also: Sequence[str] = ()
) -> T:
    """What plugins offer by this name, which is written at `path`. ConfigurationError with file, line and the nearest
    name, or all of them; `also` may be written, and are no plugin's.
    """
    found = offered.get(name)
    if found is None:
        known = [*also, *offered]
        hint = nearest(name, known) or f"; known: {', '.join(known)}"
        place = origin.place(*path, name) or origin.place(*path)
        raise NameUnknown(f"{'.'.join(path)}: no {what} {name!r}{hint}", place=place)
    return found
