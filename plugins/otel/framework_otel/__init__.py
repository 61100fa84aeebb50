"""Traces of OpenTelemetry. `plugin` is what the host loads; `names` has the conventions' names; `attempts` and `sends`
are the spans; `carrying` is how a context travels in a message's properties.

The two names here are loaded when they are first used: an application that has the plugin and does not enable it
imports nothing of OpenTelemetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from framework_otel.carrying import context_of as context_of
    from framework_otel.carrying import properties_of_context as properties_of_context

__all__ = ["context_of", "properties_of_context"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'framework_otel' has no attribute {name!r}")
    from framework_otel import carrying

    return getattr(carrying, name)
