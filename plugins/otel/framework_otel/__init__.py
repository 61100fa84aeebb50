"""Traces of OpenTelemetry. `plugin` is what the host loads; `names` has the conventions' names; `attempts`, `sends` and
`micro_batches` are the spans; `carrying` is how a context travels in a message's properties.

The names here are loaded when they are first used: an application that has the plugin and does not enable it imports
nothing of OpenTelemetry.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework_otel.carrying import context_of as context_of
    from framework_otel.carrying import properties_of_context as properties_of_context
    from framework_otel.micro_batches import micro_batch as micro_batch

_HOME = {"context_of": "carrying", "micro_batch": "micro_batches", "properties_of_context": "carrying"}
__all__ = ["context_of", "micro_batch", "properties_of_context"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'framework_otel' has no attribute {name!r}")
    return getattr(import_module(f"framework_otel.{_HOME[name]}"), name)
