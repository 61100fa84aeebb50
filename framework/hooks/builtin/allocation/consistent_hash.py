"""`consistent_hash`: each queue goes to the member that follows it on a ring of hashes. Identical to the Java client's.

A member that comes or goes moves few queues, but shares are uneven: ten of sixteen queues may be one member's, and what
is where is hard to foresee. `sticky` moves hardly more and is balanced; this one is for groups with Java members.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue


class ConsistentHashOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    virtual_nodes: int = Field(default=10, ge=1, le=10_000)
    """Places of each member on the ring: more make shares less uneven. Java's default; all members use the same."""


class ConsistentHash:
    name = "consistent_hash"
    options = ConsistentHashOptions

    def __init__(self, virtual_nodes: int = 10) -> None:
        self._virtual_nodes = virtual_nodes

    def configured(self, options: ConsistentHashOptions, choose: object) -> ConsistentHash:
        return ConsistentHash(options.virtual_nodes)

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if member not in members:
            return []
        # Where two members meet on one place, the later one has it, as in Java's map.
        ring = {place(f"{each}-{replica}"): each for each in members for replica in range(self._virtual_nodes)}
        places = sorted(ring)
        return [queue for queue in queues if member == ring[_following(places, place(_key(queue)))]]


def place(key: str) -> int:
    """The first four bytes of the MD5; what UTF-8 cannot write becomes a question mark, as in Java."""
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _following(places: list[int], wanted: int) -> int:
    at = bisect_left(places, wanted)
    return places[at] if at < len(places) else places[0]


def _key(queue: MessageQueue) -> str:
    """Java's MessageQueue.toString: the ring is part of the protocol, so its spelling is too."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.number}]"


@hookimpl
def register_allocation_strategies() -> list[AllocationStrategy]:
    return [ConsistentHash()]
