"""Sessions of Spark for handlers: with frames that are Arrow tables, without a JVM; and one that somebody else made."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from framework_spark.sessions import PAUSE_S, SessionsOfThisProcess
from framework_spark.settings import SparkSettings

from framework import Message
from framework.model.queue import MessageQueue


class Given(SessionsOfThisProcess):
    """The one session, made by somebody else."""

    def __init__(self, session: Any, *, pause_s: float = PAUSE_S) -> None:
        super().__init__(SparkSettings(), pause_s=pause_s)
        self._given_one = session

    def check(self) -> None:
        """It is there."""

    def make(self) -> Any:
        return self._given_one


class Unbranched(Given):
    """One that is no session of Spark's; `is_dead` when it is said so."""

    is_dead = False

    def branch(self, session: Any) -> Any:
        return session

    def lives(self, session: Any) -> bool:
        return not self.is_dead


class Tables(SessionsOfThisProcess):
    """Sessions whose frames are Arrow tables; the first `failures` cannot be made."""

    def __init__(self, failures: int = 0, *, pause_s: float = PAUSE_S) -> None:
        super().__init__(SparkSettings(), pause_s=pause_s)
        self.failures, self.made, self.dead = failures, 0, set[int]()

    def check(self) -> None:
        """Nothing is needed."""

    def make(self) -> Tables.Session:
        if self.failures:
            self.failures -= 1
            raise OSError("no cluster")
        self.made += 1
        return Tables.Session(self.made)

    def branch(self, session: Tables.Session) -> Tables.Session:
        return session.newSession()

    def lives(self, session: Tables.Session) -> bool:
        return session.number not in self.dead

    class Session:
        def __init__(self, number: int) -> None:
            self.number = number

        def newSession(self) -> Tables.Session:  # noqa: N802  # Spark's names
            return self

        def createDataFrame(self, table: pa.Table) -> pa.Table:  # noqa: N802
            return table


def messages(count: int, topic: str = "clicks") -> list[Message]:
    queue = MessageQueue(topic, "broker-a", 3)
    return [Message("clicks", f"m{n}", queue=queue, queue_offset=n, keys=["k"]) for n in range(count)]
