"""Batches' bodies as clients write them, and as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from framework.wire import batch, properties


@dataclass(frozen=True, slots=True)
class BatchedMessage:
    """One message of a batch."""

    body: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


def encode(parts: Iterable[BatchedMessage]) -> bytes:
    """The batch's body."""
    return b"".join([batch.written(each.body, properties.encode(each.properties), each.flag) for each in parts])


def decode(data: bytes) -> list[BatchedMessage]:
    """The messages in their order, or ProtocolError."""
    return [
        BatchedMessage(batch.body_at(data, at), batch.properties_at(data, at), batch.flag_at(data, at))
        for at in batch.positions(data)
    ]
