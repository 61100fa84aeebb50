"""Runs handlers with `engine="spark"` in `mode: driver`: a batch becomes a DataFrame, the answer becomes outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog

from framework.model.contracts import Taken, Taking
from framework.model.message import Message
from framework_spark.causes import DEATHS_MAX, Fault, cause_of, fault_of
from framework_spark.connection import told
from framework_spark.functions import takes_a_frame
from framework_spark.limit import JobOverLimit, limited
from framework_spark.mistakes import HeldUp, SessionDied, Stopping
from framework_spark.sessions import PAUSE_MAX_S, SessionsOfThisProcess
from framework_spark.settings import GroupSettings
from framework_spark.splitting import blamed, runs_of
from framework_spark.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa

    from framework.settings.schema import ClusterSettings

_log = structlog.get_logger(__name__)


class SparkRunner:
    """One an application; `groups` are those that the settings say something about."""

    def __init__(self, sessions: SessionsOfThisProcess, groups: Mapping[str, GroupSettings] | None = None) -> None:
        self._sessions = sessions
        self._groups = groups or {}
        self._tallies: dict[str, Tally] = {}
        """By group, and kept: handlers are prepared anew when settings are read again."""

    def reaches(self, cluster: ClusterSettings) -> None:
        """Have the handlers' sessions know the application's cluster."""
        self._sessions.cluster = told(cluster)

    @property
    def named(self) -> Mapping[str, tuple[str, ...]]:
        """The groups that the settings say something about."""
        return {group: ("plugins", "settings", "spark", "groups", group) for group in self._groups}

    # Batches that the framework hands over

    def prepared(self, function: Callable[..., object], name: str, group: str) -> Callable[[list[Message]], object]:
        takes_a_frame(function)
        self._sessions.check()
        settings = self._groups.get(group, GroupSettings())
        return _Handler(function, name, settings, self._sessions, self._tally(group))

    def _tally(self, group: str) -> Tally:
        return self._tallies.setdefault(group, Tally())

    def figures(self, group: str) -> Mapping[str, float]:
        """For metrics: batches, their rows and time; in `mode: source` the lag, too, which else the framework has."""
        found = self._tallies.get(group)
        return found.figures if found is not None else {}

    # Groups that a query reads

    def takes(self, group: str) -> bool:
        found = self._groups.get(group)
        return found is not None and found.mode == "source"

    def taken(self, taking: Taking) -> Taken:
        from framework.model.namespaces import unwrap
        from framework_spark.managed import ManagedQuery

        takes_a_frame(taking.function)
        self._sessions.check()
        group = unwrap(taking.cluster.namespace, taking.group)
        return ManagedQuery(taking, self._groups[group], self._sessions, tally=self._tally(group))

    def stop(self) -> None:
        """Let nobody wait for a session any more."""
        self._sessions.stop()


class _Handler:
    """One handler's function; called on worker threads, several at once."""

    def __init__(
        self,
        function: Callable[..., object],
        name: str,
        settings: GroupSettings,
        sessions: SessionsOfThisProcess,
        tally: Tally,
    ) -> None:
        self._function, self._name, self._settings, self._sessions = function, name, settings, sessions
        self._tally = tally
        self._own: tuple[int, Any] | None = None
        """The handler's session, and of the how manieth shared one it is a branch."""

    def __call__(self, messages: list[Message]) -> object:
        with self._tally.batch(len(messages)):
            return self._run(messages)

    def _run(self, messages: list[Message]) -> object:
        parts = list(_parts(messages, self._settings.batch_bytes))
        if len(parts) == 1:
            return self._settled(messages)
        results: list[Any] = []
        for part in parts:
            try:
                answer = self._settled(part)
            except Stopping:
                raise
            except Exception as error:  # noqa: BLE001 - border: the handler's; the other parts have their own end
                answer = [error] * len(part)
            results += answer if isinstance(answer, list) else [answer] * len(part)
        return results

    def _settled(self, messages: list[Message]) -> object:
        deaths = 0
        while True:
            generation, shared = self._sessions.get()
            own = self._own
            if own is None or own[0] != generation:
                own = self._own = (generation, self._sessions.branch(shared))
            try:
                return self._outcomes(shared, own[1], messages, may_be_blamed=deaths + 1 >= DEATHS_MAX)
            except SessionDied as error:
                # Not the handler's fault: the batch runs again when there is a session, and no attempt is counted.
                _log.warning("spark session died", handler=self._name, reason=cause_of(error.__cause__ or error))
            except HeldUp as error:
                pause_s = min(self._sessions.pause_s * 2**deaths, PAUSE_MAX_S)
                deaths += 1
                _log.warning("batch held up", handler=self._name, retry_ms=round(pause_s * 1000), reason=str(error))
                self._sessions.pause(pause_s)

    def _outcomes(self, shared: Any, session: Any, messages: list[Message], *, may_be_blamed: bool) -> object:
        """`may_be_blamed`: also for what may be Spark's."""
        from framework_spark.frames import table_of  # pyarrow: only for applications with such a handler

        table = table_of(messages)

        def part(begin: int, end: int) -> list[Any]:
            some = table.slice(begin, end - begin)
            answer = self._answer(shared, session, some, messages[begin:end], may_be_blamed=True)
            return answer if isinstance(answer, list) else [answer] * (end - begin)

        try:
            return self._answer(shared, session, table, messages, may_be_blamed=may_be_blamed)
        except Exception as error:
            runs = runs_of(self._function)
            if not runs or isinstance(error, HeldUp | SessionDied | JobOverLimit):
                raise
            results, used = blamed(len(messages), error, runs, part)
            bad = sum(isinstance(each, Exception) for each in results)
            _log.warning("batch split", handler=self._name, messages=len(messages), failed=bad, runs=used)
            return results

    def _answer(
        self, shared: Any, session: Any, table: pa.Table, messages: Sequence[Message], *, may_be_blamed: bool
    ) -> object:
        is_begun = False
        try:
            frame = session.createDataFrame(table)
            is_begun = True
            with limited(session, self._settings.job_timeout, self._name):
                return _answered(self._function(frame), messages, self._name)
        except Exception as error:
            if not self._sessions.is_alive(shared):
                raise SessionDied(self._name) from error
            fault, shown = fault_of(error)
            if not may_be_blamed and (not is_begun or fault is Fault.SPARK):
                raise HeldUp(cause_of(shown)) from error
            raise


def _parts(messages: list[Message], most: int | None) -> Iterator[list[Message]]:
    """The messages in their order, in parts whose bodies are not more than so many bytes; a larger one is alone."""
    if most is None:
        yield messages
        return
    part: list[Message] = []
    size = 0
    for message in messages:
        size += len(message.body)
        if part and size > most:
            yield part
            part, size = [], len(message.body)
        part.append(message)
    yield part


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
