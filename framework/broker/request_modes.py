"""Whether a group pulls a topic or pops it, as administrators chose (`setConsumeMode`); kept over a restart."""

from __future__ import annotations

from typing import NamedTuple

from framework.broker.store.values import NamedValues

PULL, POP = "PULL", "POP"
MODES = (PULL, POP)


class Mode(NamedTuple):
    """How one group takes one topic."""

    name: str = PULL
    share_queues: int = 0
    """Of how many members after it in the list a member pops the queues, too; 0: every member pops every queue."""


class RequestModes:
    """Those of one logical broker."""

    def __init__(self, values: NamedValues, broker: str) -> None:
        self._values, self._scope = values, f"modes:{broker}"

    def get(self, group: str, topic: str) -> Mode:
        saved = self._values.get(self._scope, _name(group, topic))
        if saved is None:
            return Mode()
        name, _, share = saved.partition(" ")
        return Mode(name, int(share))

    def put(self, group: str, topic: str, mode: Mode) -> None:
        self._values.put(self._scope, _name(group, topic), f"{mode.name} {mode.share_queues}")


def _name(group: str, topic: str) -> str:
    return f"{group} {topic}"
