"""`by_config`: fixed queues for fixed members, as the settings list them.

Java's strategy of this kind knows one process's list and checks nothing. Here every member has the whole table, so that
a queue has one owner however it is written, and what nobody owns can be said. Members are named by how their client ids
begin (`host@`); those that one line fits share its queues. A topic that the table does not mention, such as the retry
topic, is divided by `averaging`: else failed messages would wait for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from framework.model.reserved import is_legal

_SHOWN = 5
_WHOLE = Averaging()


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Queues of one topic on one broker: `orders@broker-a:0-3`, `orders@broker-a:3`, or all: `orders@broker-a`."""

    topic: str
    broker: str
    low: int = 0
    high: int | None = None

    def __contains__(self, queue: MessageQueue) -> bool:
        return (
            (queue.topic, queue.broker) == (self.topic, self.broker)
            and queue.number >= self.low
            and (self.high is None or queue.number <= self.high)
        )


def queue_range(value: Any) -> Any:
    """What one entry of the table spells; raises ValueError for what spells nothing."""
    if isinstance(value, QueueRange):
        return value
    topic, _, rest = value.partition("@") if isinstance(value, str) else ("", "", "")
    broker, separator, numbers = rest.rpartition(":")
    if not separator:
        broker, numbers = rest, "0"
    low, dash, high = numbers.partition("-")
    if not is_legal(topic) or not broker or not _is_number(low) or (dash and not _is_number(high)):
        raise ValueError("write topic@broker:0-3, topic@broker:3, or topic@broker for all of its queues")
    if dash and int(high) < int(low):
        raise ValueError(f"{numbers}: not a range; write the lower number first")
    return QueueRange(topic, broker, int(low), None if not separator else int(high or low))


Entry = Annotated[QueueRange, BeforeValidator(queue_range)]
Beginning = Annotated[str, Field(min_length=1)]


class ByConfigOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)

    members: Annotated[Mapping[Beginning, tuple[Entry, ...]], Field(min_length=1)]
    """{beginning of a client id: queues}; the longest beginning that fits a member counts."""


class ByConfig:
    name = "by_config"
    options = ByConfigOptions

    def __init__(self, table: Mapping[str, Sequence[QueueRange]] | None = None) -> None:
        self._table = dict(sorted((table or {}).items()))

    def configured(self, options: ByConfigOptions, choose: object) -> ByConfig:
        return ByConfig(options.members)

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        lines = self._lines(members)
        mine = _WHOLE.allocate(member, members, [queue for queue in queues if not self._is_mentioned(queue)])
        for line, takers in lines.items():
            if member in takers:
                # Named by several, a queue is the first one's: two owners would handle every message twice.
                wanted = [queue for queue in queues if line == next(iter(self._naming(queue, lines)), None)]
                mine += _WHOLE.allocate(member, takers, wanted)
        return mine

    def remarks(self, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[str]:
        lines = self._lines(members)
        mentioned = [queue for queue in queues if self._is_mentioned(queue)]
        unnamed = [queue for queue in mentioned if not self._naming(queue, lines)]
        doubled = [queue for queue in mentioned if len(self._naming(queue, lines)) > 1]
        return [
            f"{len(found)} of {len(queues)} queues are named by {whom}: {_listed(found)}"
            for found, whom in ((unnamed, "nobody who is here"), (doubled, "more than one, and the first one's"))
            if found
        ]

    def _lines(self, members: Sequence[str]) -> dict[str, list[str]]:
        """Lines of the table that somebody who is here fits, with who does."""
        lines: dict[str, list[str]] = {}
        for member in members:
            fitting = [line for line in self._table if member.startswith(line)]
            if fitting:
                lines.setdefault(max(fitting, key=len), []).append(member)
        return dict(sorted(lines.items()))

    def _naming(self, queue: MessageQueue, lines: Mapping[str, Sequence[str]]) -> list[str]:
        return [line for line in lines if any(queue in entry for entry in self._table[line])]

    def _is_mentioned(self, queue: MessageQueue) -> bool:
        return any(queue.topic == entry.topic for entries in self._table.values() for entry in entries)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def _listed(queues: Sequence[MessageQueue]) -> str:
    text = ", ".join(map(str, queues[:_SHOWN]))
    return f"{text} and {len(queues) - _SHOWN} more" if len(queues) > _SHOWN else text


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [ByConfig()]
