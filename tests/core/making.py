"""Chunks and windows for tests of the core, made of plain messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from framework.core.budget import Budget
from framework.core.chunk import Chunk
from framework.core.window import Window
from framework.model.message import Message
from framework.model.queue import MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 3)
PLENTY = 1 << 30
THE_RUN: Any = "the run"


def messages_at(offsets: Iterable[int]) -> list[Message]:
    return [Message("orders", b"x", queue=QUEUE, queue_offset=offset) for offset in offsets]


def chunk_of(offsets: Sequence[int], *, size: int = 100) -> Chunk:
    return Chunk(messages_at(offsets), offsets[0], offsets[-1] + 1, size)


def window_at(begin: int = 0, budget: Budget | None = None) -> Window:
    return Window(begin, budget or Budget(PLENTY))


def admit(window: Window, offsets: Sequence[int], *, size: int = 100) -> Chunk:
    """Admit what a pull from the window's end would bring: these messages, and the range up to behind the last."""
    chunk = window.admit(messages_at(offsets), window.end, offsets[-1] + 1, size)
    assert chunk is not None
    return chunk


def finish(chunk: Chunk, *indexes: int) -> None:
    for index in indexes:
        assert chunk.finish(index)
