"""A message that is tried again where it is: the same record, with the attempts that this process has counted.

Orderly and broadcasting queues do so. Any other retry is a copy on the broker, which counts the attempts in its record.
"""

from __future__ import annotations

from framework.model.message import Message, RecordSource, RecordView


class Repeated(RecordView):
    """The source of such a message: the record's own, but for the attempts."""

    __slots__ = ("_reconsumed",)

    def __init__(self, record: RecordSource, reconsumed: int) -> None:
        super().__init__(record, record.queue)
        self._reconsumed = reconsumed

    def reconsume_times(self, at: int) -> int:
        return self._reconsumed


def repeated(message: Message, attempt: int) -> Message:
    """The message as its `attempt`th try sees it; `message` is the one that was pulled, or an earlier try of it."""
    source = message._source  # noqa: SLF001 - how pulled messages are made, too
    again = object.__new__(Message)
    # Of what was pulled, not of its last try: many tries would else be a long chain.
    again._source = Repeated(source.record if isinstance(source, Repeated) else source, attempt - 1)
    again._at = message._at  # noqa: SLF001 - likewise
    again._body = again._properties = None
    again.queue_offset = message.queue_offset
    return again
