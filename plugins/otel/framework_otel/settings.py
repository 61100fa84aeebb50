"""`plugins.settings.otel`. What is sampled and where spans go, OpenTelemetry's own variables and SDK say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class OtelSettings(BaseModel):
    """`plugins.settings.otel`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    enabled: bool = False
    """Whether there are spans. If not, the plugin costs nothing and imports nothing of OpenTelemetry."""
    sample: float = Field(default=1.0, gt=0, le=1)
    """Share of the traces beginning here that have spans: with 0.01 one message in a hundred, by chance, and the first.
    The others cost next to nothing, since no sampler is asked about them. What carries a context goes by that. Batches
    have one span each, always.
    """
    context: Literal["parent", "link"] = "parent"
    """Whether the span of a single message is a child of its sender's, or begins a trace of its own with a link to it.
    A message that its sender left out of its trace has no child; with senders that you do not trust, choose `link`."""
    logs: bool = True
    """Whether log lines that a handler writes carry `trace_id` and `span_id`."""
    exceptions: bool = True
    """Whether spans quote exceptions, with message and traceback. Else they name the type alone."""
    waits: bool = False
    """Whether a span tells how long a single message waited: from when the broker stored it to the attempt."""
    body_size: bool = False
    """Whether spans say how long bodies are; a compressed body is then opened for it."""
