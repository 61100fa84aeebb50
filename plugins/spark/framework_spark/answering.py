"""Answering: a member of the transactional sink's producer group that lives longer than a query.

Brokers ask a member of the group about half messages that stay open: those of tasks that failed, of drivers that died.
Without one that answers nothing is wrong: they stay hidden and are given up in the end.
"""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Self

from framework_spark.lots import desk_of
from framework_spark.mistakes import SparkMisused
from framework_spark.options import sink_options
from framework_spark.outgoing import quiet_logs

END_SECONDS = 15.0


class Answering:
    """Answers on a thread of its own until it is closed: `Answering(nameServers="...")`, with the sink's options."""

    def __init__(self, **given: str) -> None:
        # Of an id and a checkpoint it needs none: a half message says which query it is of.
        options = sink_options({"transactional": "true", "checkpointLocation": "none", **given})
        if options.lots is None:
            raise SparkMisused("Answering: only a transactional sink is asked; leave out option transactional")
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = Thread(target=self._run, name="framework-spark-answering", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; returns when the connections are closed, or had time enough: the thread keeps no process."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        quiet_logs()
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        async with desk_of(self._options):
            await self._end.wait()
