"""A wire that can be cut: what is sent through it waits while it is, in both directions, and no connection ends.

It listens on an address of its own for what is elsewhere. A broker that calls itself 127.0.0.2 and listens on 127.0.0.1
is reached through a wire between the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE_S

Address = tuple[str, int]


class Wire:
    """One listening address and where it leads; a thread of its own carries the bytes."""

    def __init__(self, listen: Address, target: Address) -> None:
        self._listen, self._target = listen, target
        self._loop = asyncio.new_event_loop()
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"wire to {target}", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, *listen), self._loop).result(
            PATIENCE_S
        )

    @contextmanager
    def cut(self) -> Iterator[None]:
        self._loop.call_soon_threadsafe(self._is_whole.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._is_whole.set)

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # in which what was broken off is closed

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            await self._is_whole.wait()
            with contextlib.suppress(OSError):
                inner, outer = await asyncio.open_connection(*self._target)
                ends.append(outer)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(reader, outer))
                    both.create_task(self._carry(inner, writer))
        finally:
            self._tasks.discard(task)
            for each in ends:
                if not each.transport.is_closing():  # else what it still has to send is on its way
                    each.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._is_whole.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
