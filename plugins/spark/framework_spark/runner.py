"""How handlers with `engine="spark"` are run in `mode: driver`: each batch becomes a DataFrame, the answer outcomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from framework.model.contracts import Taken, Taking
from framework.model.message import Message
from framework_spark.session import PAUSE_S, Sessions, SharedSession, Stopping

if TYPE_CHECKING:
    from framework_spark.settings import GroupSettings

__all__ = ["SparkRunner", "Stopping"]

_log = structlog.get_logger(__name__)


class SparkRunner:
    """One an application; `groups` are those that the settings say something about."""

    def __init__(
        self, sessions: Sessions, groups: Mapping[str, GroupSettings] | None = None, *, pause_s: float = PAUSE_S
    ) -> None:
        self._shared = SharedSession(sessions, pause_s=pause_s)
        self._groups = groups or {}

    # Batches that the framework hands over

    def prepared(self, function: Callable[..., object], name: str) -> Callable[[list[Message]], object]:
        from framework_spark.frames import table_of  # pyarrow: only for applications with such a handler

        own: list[tuple[int, Any]] = []

        def run(messages: list[Message]) -> object:
            while True:
                generation, shared = self._shared.get()
                if not own or own[0][0] != generation:
                    own[:] = [(generation, shared.newSession())]  # views and settings of a handler are its own
                try:
                    return _answered(function(own[0][1].createDataFrame(table_of(messages))), messages, name)
                except Exception as error:
                    if self._shared.is_alive(shared):
                        raise
                    # Not the handler's fault: the batch runs again when there is a session, and no attempt is counted.
                    _log.warning("spark session died", handler=name, cause=f"{type(error).__name__}: {error}"[:500])

        return run

    # Groups that a query reads

    def takes(self, group: str) -> bool:
        found = self._groups.get(group)
        return found is not None and found.mode == "source"

    def taken(self, taking: Taking) -> Taken:
        from framework.model.namespaces import unwrap
        from framework_spark.managed import ManagedQuery

        group = self._groups[unwrap(taking.cluster.namespace, taking.group)]
        return ManagedQuery(taking, group, self._shared)

    def stop(self) -> None:
        """Let nobody wait for a session any more."""
        self._shared.stop()


def _answered(answer: object, messages: Sequence[Message], name: str) -> object:
    import pyarrow as pa

    from framework_spark.frames import outcomes_of

    table = verdicts_in(answer, name)
    return outcomes_of(table, messages) if isinstance(table, pa.Table) else table


def verdicts_in(answer: object, name: str) -> object:
    """What a handler returned, a frame as the Arrow table of its rows."""
    if not hasattr(answer, "toArrow"):
        return answer
    if getattr(answer, "isStreaming", False):
        raise ValueError(f"handler {name} returned a streaming frame; return a batch one, or nothing")
    return answer.toArrow()
