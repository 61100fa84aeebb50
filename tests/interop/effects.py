"""Applications that leave effects behind, and what those say: how many, of what, when."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop.application import Application, Ended
from tests.interop.processes import Nursery

HANDLERS = Path(__file__).with_name("effects_app.py")
LINE = 3 + 1 + 9 + 1 + 18 + 1

Place = tuple[int, int]
"""A queue's number and an offset in it: one message of a topic on one broker."""


@dataclass(frozen=True, slots=True)
class Effect:
    place: Place
    at: float


class Worker:
    """One application of a group; each handler takes `pause_s` and then leaves its effect."""

    def __init__(
        self, nursery: Nursery, folder: Path, name_server: str, topic: str, *, pause_s: float = 0.01, concurrency: int,
        options: Sequence[str] = (), group: str = "",
    ) -> None:  # fmt: skip
        folder.mkdir()
        self.topic = topic
        self._file = folder / "effects"
        self.application = Application(
            nursery, folder, name_server, topic=topic, group=group or f"workers-of-{topic}", handlers=HANDLERS,
            environment={"EFFECTS_FILE": str(self._file), "EFFECTS_PAUSE_S": str(pause_s)},
            concurrency=concurrency, options=options,
        )  # fmt: skip

    @property
    def count(self) -> int:
        return self._file.stat().st_size // LINE if self._file.exists() else 0

    def effects(self) -> list[Effect]:
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [Effect((int(line[:3]), int(line[4:13])), float(line[14:])) for line in lines]

    @property
    def has_queues(self) -> bool:
        return "queue positioned" in self.application.said()

    def queues(self) -> set[int]:
        """The numbers of the topic's queues that were ever its own."""
        gained = re.findall(r"gained=\[([^\]]*)\]", self.application.said())
        return {int(number) for each in gained if "%RETRY%" not in each for number in re.findall(r":(\d+)'", each)}

    def kill(self) -> None:
        self.application.kill()

    def stop(self) -> Ended:
        return self.application.stop()
