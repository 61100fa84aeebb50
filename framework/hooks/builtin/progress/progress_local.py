"""`progress: local`: files of this machine keep progress above a gap, one per queue.

It needs nothing of a broker, and helps only a new owner on this machine: a process that starts again, or another one
beside it that names the same folder.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from framework.errors import StoreError, Superseded
from framework.hooks.markers import hookimpl
from framework.model.contracts import KeepsProgress, Kept, ProgressMeans, ProgressStore
from framework.model.queue import MessageQueue

_HEAD = re.compile(rb"framework-app progress 1 epoch=(\d{1,18}) crc32=([0-9a-f]{8})")


class LocalStore:
    name = "local"

    def open(self, means: ProgressMeans) -> KeepsProgress:
        return _LocalProgress(means)


class _LocalProgress:
    def __init__(self, means: ProgressMeans) -> None:
        self._means = means

    async def read(self, queue: MessageQueue) -> Kept | None:
        return await self._means.in_thread(lambda: self._read(queue))

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        def job() -> int:
            try:
                before = self._read(queue)
            except StoreError:
                before = None
            epoch = 0 if before is None else before.epoch + 1
            self._replace(queue, epoch, content)
            return epoch

        return await self._means.in_thread(lambda: self._alone(queue, job))

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        def job() -> int:
            try:
                before = self._read(queue)
            except StoreError as error:  # it may be of another process: then to be taken anew
                raise Superseded(str(error)) from error
            if before is not None and before.epoch > epoch:
                raise Superseded(f"progress of {queue}: another process of this machine has taken the queue since")
            self._replace(queue, epoch, content)
            return epoch

        await self._means.in_thread(lambda: self._alone(queue, job))

    # On a thread

    def _alone(self, queue: MessageQueue, job: Callable[[], int]) -> int:
        """Between reading and replacing nobody else may write."""
        path = self._path(queue)
        try:
            release = self._means.files.lock(f"{path}.lock")
            if release is None:
                raise StoreError(f"{path}: another process of this machine is writing it")
            try:
                return job()
            finally:
                release()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from None

    def _read(self, queue: MessageQueue) -> Kept | None:
        path = self._path(queue)
        try:
            content = self._means.files.read(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from None
        if content is None:
            return None
        head, _, body = content.partition(b"\n")
        match = _HEAD.fullmatch(head)
        if match is None or int(match[2], 16) != zlib.crc32(body):
            raise StoreError(f"{path}: damaged: the checksum does not match")
        return Kept(int(match[1]), body)

    def _replace(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        head = b"framework-app progress 1 epoch=%d crc32=%08x\n" % (epoch, zlib.crc32(content))
        self._means.files.replace(self._path(queue), head + content)

    def _path(self, queue: MessageQueue) -> str:
        return f"{self._means.folder}/{queue.topic}@{queue.broker}@{queue.number}.progress"


@hookimpl
def register_progress_stores() -> list[ProgressStore]:
    return [LocalStore()]
