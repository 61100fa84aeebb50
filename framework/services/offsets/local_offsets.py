"""LocalOffsets: keeps a broadcasting group's offsets: in two files on this machine instead of on the brokers.

It is used where a group otherwise asks its brokers for offsets. The file is read once, at the start, and locked against
a second process. Saves share one write, on a thread; if the disk is full, the write is retried. `core/offset_file.py`
says what the bytes mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from framework import marks
from framework.client.brokers import Brokers
from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.offset_file import SavedOffsets, encode, newest
from framework.errors import ProtocolError, StoreError
from framework.mistakes import FolderUnusable
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.wire.bodies.progress import JavaOffsets

log = structlog.get_logger()

WARN_EACH_S = 60.0


@dataclass(frozen=True, slots=True)
class OffsetFiles:
    """Where one group's files are."""

    folder: str
    group: str
    java_folder: str = ""
    """A Java client's, `.rocketmq_offsets/<client id>`, for a group that has no file of ours yet."""

    @property
    def files(self) -> tuple[str, str]:
        return f"{self.folder}/{self.group}.0.offsets", f"{self.folder}/{self.group}.1.offsets"

    @property
    def lock(self) -> str:
        return f"{self.folder}/{self.group}.lock"


class LocalOffsets:
    """One per broadcasting group, and the only one that writes its files."""

    def __init__(self, place: OffsetFiles, brokers: Brokers, world: World, tree: TaskTree) -> None:
        self._place, self._world, self._tree = place, world, tree
        self._offsets: dict[MessageQueue, int] = {}
        """Also of queues that nobody names now: a broker that is away comes back."""
        self._on_disk: dict[MessageQueue, int] = {}
        self._sequence = 0
        self._noted = self._saved = 0
        """How often an offset was noted, and up to which time that is on the disk."""
        self._saving: asyncio.Task[str | None] | None = None
        self._is_keeping = False
        self._warned_at = -WARN_EACH_S
        self._release: Callable[[], None] | None = None
        # What the brokers know of their queues is asked of them.
        self.min_offset, self.max_offset, self.search_offset = (
            brokers.min_offset, brokers.max_offset, brokers.search_offset,
        )  # fmt: skip

    # Life

    def open(self) -> None:
        """Lock and read the files; ConfigurationError or StoreError where that cannot be."""
        place, files = self._place, self._world.files
        try:
            self._release = files.lock(place.lock)
            if self._release is None:
                raise FolderUnusable(
                    f"broadcasting group {place.group!r}: another process keeps its offsets in {place.folder}; end "
                    "it, or give this one a `broadcasting.name` of its own"
                )
            saved, damaged = newest({path: files.read(path) for path in place.files}, place.group)
            for path, reason in damaged.items():
                log.warning(
                    "offset file damaged", group=place.group, file=path, reason=f"{reason}; the older file is used"
                )
            if saved is not None:
                self._offsets, self._sequence = dict(saved.offsets), saved.sequence
            elif place.java_folder:
                self._take_over(place.java_folder)
        except OSError as error:
            self.close()
            raise FolderUnusable(
                f"broadcasting group {place.group!r}: its offsets cannot be kept in {place.folder}: "
                f"{error.strerror or error}; make it writable, or name another folder with `broadcasting.folder`"
            ) from None

    def close(self) -> None:
        """Let another process have the files."""
        if self._release is not None:
            self._release()
            self._release = None

    def _take_over(self, folder: str) -> None:
        """Begin where a Java client had got to. Its older copy counts where the file itself is damaged."""
        group = self._place.group
        for path in (f"{folder}/{group}/offsets.json", f"{folder}/{group}/offsets.json.bak"):
            content = self._world.files.read(path)
            if not content:
                continue
            try:
                found = JavaOffsets.decode(content).offsets
            except ProtocolError as error:
                log.warning("offset file damaged", group=group, file=path, reason=str(error))
                continue
            self._offsets = {queue: offset for queue, offset in found.items() if offset >= 0}
            self._noted += 1  # written with the first save
            log.info("Java offsets imported", group=group, file=path, queues=len(self._offsets))
            return
        log.warning("Java offsets missing", group=group, folder=folder)

    # As the keeper of a group's offsets

    async def query_offset(self, group: str, queue: MessageQueue) -> int | None:
        return self._offsets.get(queue)

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Note the offset and wait until it is on the disk; StoreError where it is not."""
        self._note(queue, offset)
        failure = await self._save()
        if failure is not None:
            self._keep()
            raise StoreError(f"offsets of group {group!r}: {failure}")

    async def commit_one_way(
        self, group: str, queue: MessageQueue, committable: Callable[[], int | None]
    ) -> int | None:
        """Note the offset; it is on the disk soon, together with others."""
        offset = committable()
        if offset is not None:
            self._note(queue, offset)
            self._keep()
        return offset

    def stored(self, queue: MessageQueue) -> int:
        """The offset that is on the disk; -1 where none is."""
        return self._on_disk.get(queue, -1)

    def _note(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset
        self._noted += 1

    # Saving

    def _keep(self) -> None:
        if not self._is_keeping:
            self._is_keeping = True
            self._tree.start(self._keep_at_it(), name=f"offsets {self._place.group}")

    async def _keep_at_it(self) -> None:
        """Save until everything is saved: a disk that is full does not stay so, and handling goes on meanwhile."""
        backoff = Backoff(limits.FAILURE_DELAY_MS, limits.FAILURE_DELAY_MAX_MS)
        try:
            while self._saved < self._noted:
                failure = await self._save()
                if failure is None:
                    continue
                now = self._world.clock.monotonic()
                if now - self._warned_at >= WARN_EACH_S:
                    self._warned_at = now
                    log.warning("offsets not saved", group=self._place.group, reason=failure)
                await asyncio.sleep(backoff.failed(self._world.chance.random()) / 1000)
        finally:
            self._is_keeping = False
        if backoff.failures:
            log.info("offsets saved again", group=self._place.group)

    async def _save(self) -> str | None:
        """Have everything on the disk that is noted now; why not, where that failed. Those who come together share."""
        noted = self._noted
        while self._saved < noted:
            if self._saving is None:
                self._saving = self._tree.start(self._write(), name=f"save offsets {self._place.group}")
            failure = await asyncio.shield(self._saving)
            if failure is not None:
                return failure
        return None

    async def _write(self) -> str | None:
        noted, sequence = self._noted, self._sequence + 1
        offsets = dict(self._offsets)
        content = encode(SavedOffsets(self._place.group, sequence, offsets))
        path = self._place.files[sequence % 2]
        try:
            if marks.rarely("a file of offsets is not written"):
                raise OSError("a disk that failed")
            await marks.stretched("a file of offsets is to be written")
            await self._world.workers.run(lambda: self._world.files.replace(path, content))
            await marks.stretched("a file of offsets is written")
        except OSError as error:
            return f"{path}: {error.strerror or error}"
        finally:
            self._saving = None
        self._saved, self._sequence, self._on_disk = noted, sequence, offsets
        return None

    def __repr__(self) -> str:
        return f"<LocalOffsets {self._place.group}: {len(self._offsets)} queues, save {self._sequence}>"
