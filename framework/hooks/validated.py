"""What is written for a plugin, as an instance of the plugin's model: its settings, and a strategy's options.

A model holds code of the plugin's, so that whatever it raises is named. Where something was written, settings know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.hooks.theirs import theirs


class Origin(Protocol):
    """Who knows where a setting was written, and keeps what is secret from being shown (`AppSettings`)."""

    def place(self, *path: str) -> str | None: ...
    def hide(self, path: tuple[str, ...], kind: type[BaseModel]) -> None: ...
    def explain(
        self, path: tuple[str, ...], kind: type[BaseModel], error: ValidationError
    ) -> ConfigurationMistakes: ...


def validated(
    model: type[BaseModel], values: Mapping[str, Any], path: tuple[str, ...], origin: Origin | None
) -> BaseModel:
    """An instance of the model, of what is written at `path`; ConfigurationError for whatever is wrong."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        if origin is None:
            raise
        raise origin.explain(path, model, error) from None
    except BaseException as error:
        theirs(error)
        place = origin.place(*path) if origin is not None else None
        reason = f"checking it failed: {type(error).__name__}: {error}"
        raise ConfigurationError(f"{'.'.join(path)}: {reason}", place=place) from error
