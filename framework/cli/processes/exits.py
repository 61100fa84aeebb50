"""Exits: which messages were in hand when processes ended unasked, and how often. Its owner is the parent."""

from __future__ import annotations

import structlog

from framework.services.call.notes import ENDS_MAX, EndsSoFar, Note

log = structlog.get_logger()

REMEMBERED = 256


class ExitTally:
    """Of all processes of an application."""

    def __init__(self) -> None:
        self.ends: dict[str, EndsSoFar] = {}
        """By the keys of notes, the last one last."""

    def ended(self, notes: list[Note]) -> None:
        """A process ended with these in hand."""
        for note in notes:
            before = max(self.ends.pop(key, EndsSoFar(0, 0)) for key in note.keys)
            ends = EndsSoFar(before.times + 1, max(before.attempt, note.attempt))
            self.ends |= dict.fromkeys(note.keys, ends)
            if ends.times >= ENDS_MAX:
                log.error(
                    "message ends processes",
                    group=note.group, message_id=note.message_id, queue=note.queue, offset=note.offset,
                    attempt=note.attempt, ends=ends.times, place=note.place,
                    remedy="it fails from now on, and is retried as far as max_retries; then `exits` decides",
                )  # fmt: skip
        while len(self.ends) > REMEMBERED:
            innocent = next((key for key, ends in self.ends.items() if ends.times == 1), next(iter(self.ends)))
            del self.ends[innocent]
