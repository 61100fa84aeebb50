"""Memory: what earlier looks at a cluster found, kept in a small file, so that a broker that went away is missed, and
resets of offsets that members have not taken yet, which brokers do not tell.

Name servers forget a broker two minutes after its last word. Without this, what lay there would count as nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from framework import private_files
from framework.model.queue import MessageQueue

FORMAT = 1
BYTES_MAX = 16 * 1024 * 1024
QUEUES_MAX = 100_000
"""Of all groups together; further groups are not remembered."""
RESET_MS = 600_000
"""Members take one with their next pull, a few seconds later. What is older than that is nothing to wait for."""


class PendingReset(NamedTuple):
    """A queue's offset was moved, and nobody has seen yet that its owner goes on from there."""

    before: int
    after: int
    at_ms: int

    def is_taken(self, stored: int | None, owners: int) -> bool:
        """By what the broker keeps, and where the owner says that it is."""
        if stored != self.after:
            return True
        return owners < self.before if self.after < self.before else owners >= self.after


class Memory:
    """Of one cluster, which its name servers' addresses tell from others. Without a path it ends with the process."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.brokers: dict[str, int] = {}
        """Name -> when it was there last, in Unix milliseconds."""
        self.trouble = ""
        """Why the file could not be read or written."""
        self._queues: dict[str, frozenset[MessageQueue]] = {}
        self._resets: dict[str, dict[MessageQueue, PendingReset]] = {}
        if path is not None:
            self._read(path)

    def absent(self, there: Collection[str]) -> dict[str, int]:
        """Brokers that are not there any more, and when they were."""
        return {name: seen_ms for name, seen_ms in sorted(self.brokers.items()) if name not in there}

    def queues(self, group: str) -> frozenset[MessageQueue]:
        """Those that the group had."""
        return self._queues.get(group, frozenset())

    def groups_at(self, brokers: Collection[str]) -> set[str]:
        """Those that had queues at one of these."""
        return {
            group for group, queues in list(self._queues.items()) if any(queue.broker in brokers for queue in queues)
        }

    def knows(self, group: str) -> bool:
        return group in self._queues

    def may_have_used(self, group: str, broker: str) -> bool:
        """Whether the group had queues there, as far as somebody looked."""
        known = self._queues.get(group)
        return known is None or any(queue.broker == broker for queue in known)

    def saw(self, brokers: Iterable[str], now_ms: int) -> None:
        self.brokers.update(dict.fromkeys(brokers, now_ms))

    def saw_group(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """All of its queues, in place of those that were known."""
        kept = frozenset(queues)
        before = self._queues.pop(group, frozenset())
        count = sum(map(len, list(self._queues.values())))
        if count + len(kept) <= QUEUES_MAX:
            self._queues[group] = kept
        elif before:
            self._queues[group] = before

    def forget(self, broker: str) -> bool:
        """It was taken away for good. False where nothing is known of it."""
        for group, queues in list(self._queues.items()):
            self._queues[group] = frozenset(queue for queue in queues if queue.broker != broker)
        return self.brokers.pop(broker, None) is not None

    def has_reset(self, group: str, queue: MessageQueue, reset: PendingReset) -> None:
        self._resets.setdefault(group, {})[queue] = reset

    def resets(self, group: str, now_ms: int) -> dict[MessageQueue, PendingReset]:
        """Those that may wait to be taken."""
        kept = {queue: each for queue, each in self._resets.pop(group, {}).items() if now_ms - each.at_ms < RESET_MS}
        if kept:
            self._resets[group] = kept
        return dict(kept)

    def reset_taken(self, group: str, queue: MessageQueue) -> None:
        self._resets.get(group, {}).pop(queue, None)

    # The file

    def _read(self, path: Path) -> None:
        try:
            with os.fdopen(private_files.open_file(path, os.O_RDONLY), "rb") as stream:
                text = stream.read(BYTES_MAX + 1)
            if len(text) > BYTES_MAX:
                self.trouble = f"{path}: has more than {BYTES_MAX} bytes, and is made anew"
                return
            told = json.loads(text)
            brokers = {str(name): int(seen_ms) for name, seen_ms in told["brokers"].items()}
            queues = {str(group): _queues_of(places) for group, places in told["groups"].items()}
            resets = {str(group): dict(map(_reset_of, rows)) for group, rows in told.get("resets", {}).items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            self.trouble = f"{path}: cannot be read ({type(error).__name__}: {error}), and is made anew"
            return
        self.brokers, self._queues, self._resets = brokers, queues, resets

    def save(self) -> None:
        """Whole or not at all; only its owner may read it. What keeps it from being written is its `trouble`."""
        if self.path is None:
            return
        told = {
            "format": FORMAT,
            "brokers": self.brokers,
            "groups": {group: _places_of(queues) for group, queues in sorted(dict(self._queues).items())},
            "resets": {
                group: [[*queue, *each] for queue, each in sorted(resets.items())]
                for group, resets in sorted(dict(self._resets).items())
                if resets
            },
        }
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            private_files.make_folder(self.path.parent)
            file = private_files.open_file(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
            with os.fdopen(file, "w") as stream:
                json.dump(told, stream)
            draft.replace(self.path)
        except OSError as error:
            self.trouble = f"{self.path}: cannot be written ({error.strerror})"
            with suppress(OSError):
                draft.unlink()


def place_of(name_servers: Iterable[str], environment: Mapping[str, str]) -> Path:
    """The file of the cluster with these name servers, for this user. RuntimeError where he has no home."""
    home = environment.get("XDG_STATE_HOME", "")
    folder = Path(home) if home.startswith("/") else Path.home() / ".local" / "state"
    name = sha256("\n".join(sorted(name_servers)).encode()).hexdigest()[:16]
    return folder / "framework-app" / "clusters" / f"{name}.json"


def _places_of(queues: Iterable[MessageQueue]) -> dict[str, dict[str, list[int]]]:
    """Broker -> topic -> numbers: a group's hundred queues are a line."""
    places: dict[str, dict[str, list[int]]] = {}
    for queue in sorted(queues):
        places.setdefault(queue.broker, {}).setdefault(queue.topic, []).append(queue.number)
    return places


def _queues_of(places: Any) -> frozenset[MessageQueue]:
    return frozenset(
        MessageQueue(str(topic), str(broker), int(number))
        for broker, topics in places.items()
        for topic, numbers in topics.items()
        for number in numbers
    )


def _reset_of(row: Any) -> tuple[MessageQueue, PendingReset]:
    topic, broker, number, before, after, at_ms = row
    return MessageQueue(str(topic), str(broker), int(number)), PendingReset(int(before), int(after), int(at_ms))
