"""`once_store: memory`: this process remembers what was handled, and forgets it when it exits.

It costs no disk and no thread. Another member of the group knows nothing of it, so a message that it gets after a crash
or a handover is handled again.
"""

from __future__ import annotations

from collections import OrderedDict

import structlog

from framework.hooks.markers import hookimpl
from framework.model.contracts import DedupMeans, DedupStore, RemembersKeys

_log = structlog.get_logger(__name__)

# Some 20 MB of keys as long as message ids are. A handler with more than that in its time wants a disk.
KEYS_MAX = 100_000


class MemoryStore:
    name = "memory"

    def open(self, means: DedupMeans) -> RemembersKeys:
        return MemoryKeys(means)


class MemoryKeys:
    """The keys in the order in which they were recorded; the oldest go first."""

    def __init__(self, means: DedupMeans, keys_max: int = KEYS_MAX) -> None:
        self._means, self._keys_max = means, keys_max
        self._until_ms: OrderedDict[str, int] = OrderedDict()
        self._was_full = False

    async def has(self, key: str) -> bool:
        return self._means.now_ms() < self._until_ms.get(key, 0)

    async def record(self, key: str, keep_ms: int) -> None:
        now_ms, kept = self._means.now_ms(), self._until_ms
        kept[key] = now_ms + keep_ms
        kept.move_to_end(key)
        while kept and next(iter(kept.values())) <= now_ms:
            kept.popitem(last=False)
        if len(kept) > self._keys_max:
            kept.popitem(last=False)
            if not self._was_full:
                self._was_full = True
                remedy = "once_store: sqlite has room; until then the oldest keys are forgotten early"
                _log.warning("once memory full", group=self._means.group, keys=self._keys_max, remedy=remedy)

    async def close(self) -> None:
        self._until_ms.clear()

    def __repr__(self) -> str:
        return f"<MemoryKeys {len(self._until_ms)} keys>"


@hookimpl
def register_dedup_stores() -> list[DedupStore]:
    return [MemoryStore()]
