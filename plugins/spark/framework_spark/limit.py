"""A time limit for the jobs that a handler starts in Spark: they are cancelled when it is over."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

END_SECONDS = 5.0
AGAIN_S = 1.0  # a function may go on after a job that was cancelled, and start the next one


class JobOverLimit(Exception):
    """A handler took longer than its `job_timeout`, and what it ran in Spark was cancelled."""


def is_connect(session: Any) -> bool:
    """Whether the session is one of Spark Connect, whose jobs run in another process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def limited(session: Any, limit_ms: int | None, name: str) -> Iterator[None]:
    """Cancel the jobs that this thread starts in the block once it has taken so long; JobOverLimit if it then fails.

    What the function does outside of Spark, nobody can stop.
    """
    if limit_ms is None:
        yield
        return
    tag = f"framework-{uuid.uuid4().hex}"
    forget, cancel = _tagged(session, tag)
    over = threading.Event()
    fired = threading.Event()

    def watch() -> None:
        wait_s = limit_ms / 1000
        while not over.wait(wait_s):
            fired.set()
            wait_s = AGAIN_S
            with suppress(Exception):  # of a session that died meanwhile, which whoever waits for the job is told
                cancel()

    thread = threading.Thread(target=watch, name=f"limit {name}", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if fired.is_set():
            raise JobOverLimit(
                f"handler {name} took longer than its job_timeout of {limit_ms / 1000:g} s; its jobs were cancelled"
            ) from error
        raise
    finally:
        over.set()
        thread.join(END_SECONDS)  # it may be waiting for a session that died
        with suppress(Exception):
            forget()


def _tagged(session: Any, tag: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Tag what this thread starts; answers how the tag is taken away, and how what has it is cancelled."""
    if is_connect(session):
        session.addTag(tag)
        return lambda: session.removeTag(tag), lambda: session.interruptTag(tag)
    context = session.sparkContext  # SparkSession.addTag and interruptTag do nothing in classic mode (Spark 4.3)
    context.setInterruptOnCancel(True)
    context.addJobTag(tag)
    return lambda: context.removeJobTag(tag), lambda: context.cancelJobsWithTag(tag)
