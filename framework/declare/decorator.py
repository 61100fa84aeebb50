"""@consumer: what a function consumes, said at the function.

Owns the frozen ConsumerSpec and everything that can be found wrong with it before anything runs. Decorating has no
other effect: no registry, no thread, no connection; the function stays callable. How it runs is the settings' affair.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar

from framework.declare.arguments import PLAIN, Argument, arguments_of
from framework.declare.publishing import codec_of, topics_of
from framework.declare.resources import Resource
from framework.errors import ConfigurationError, nearest, shorten
from framework.model import sql92
from framework.model.durations import to_ms
from framework.model.message import Message
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.model.retrying import Retry
from framework.model.subscription import EVERYTHING

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = (
    "topic",
    "group",
    "orderly",
    "key",
    "commit",
    "broadcasting",
    "tags",
    "sql",
    "codec",
    "engine",
    "batch",
    "linger",
    "retry",
    "once",
    "ready_when",
    "name",
)
# One message beyond what a queue may hold by default would never come together.
BATCH_MAX = 1_024
LINGER_MAX_MS = 60_000
# Of an engine that says neither: a job costs far more than a call.
ENGINE_BATCH, ENGINE_LINGER_MS = 1_000, 1_000
_EXAMPLE = 'write @consumer(topic="orders", group="billing")'
_SEPARATOR = "||"
_CLASS_FILTERS = frozenset({"class_filter", "class_filter_mode", "filter_class"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """What one decorated function consumes."""

    topic: str
    group: str
    tags: str
    sql: str | None = None
    """A condition on properties instead of tags."""
    orderly: bool
    commit: Literal["auto", "manual"] = "auto"
    """In order: whether a message ends with its handler's success, or with the next `Commit`."""
    by_key: bool = False
    """In order: whether only messages of the same key wait for each other."""
    key: Callable[[Message], object] | None = None
    """Which key a message is of: whose order is kept (by its sharding key where there is no function), or what `once`
    takes for the same message (by its message id)."""
    broadcasting: bool = False
    function: Callable[..., object]
    name: str
    place: str
    """File and line of the function."""
    module: str = ""
    """Where it was declared: the function may be another module's, or none's, such as a `functools.partial`."""
    is_async: bool
    arguments: tuple[Argument, ...] = PLAIN
    """What the function is given of each message."""
    batch: int = 0
    """Messages that it is given at once, at most; 0: it takes one message, not a list."""
    linger_ms: int = 0
    """How long a message may wait for a batch to fill."""
    retry: Retry | None = None
    """What was declared about failures."""
    publishes: tuple[str, ...] = ()
    """Topics that what it returns is sent to."""
    publish_codec: str = ""
    """Which codec of a plugin makes bodies of it; empty: JSON."""
    encode: Callable[[object], bytes] | None = None
    """What does so, once that codec was asked."""
    once_ms: int = 0
    """For how long a message that was handled is not handled again; 0: it is."""
    ready: Resource[..., Any] | None = None
    """What says whether its group may join; a function with what it needs, asked until it answers True."""
    codec: str = ""
    """Which codec of a plugin reads the body; empty: its annotation says it."""
    engine: str = ""
    """Which runner of a plugin calls the function, in its own way; empty: we do."""


class Consumer(Generic[P, R]):
    """A handler with its spec. Call it and the function runs, as if it were not decorated."""

    __slots__ = ("__dict__", "__weakref__", "spec")

    __name__: str

    def __init__(self, spec: ConsumerSpec, function: Callable[P, R]) -> None:
        self.spec = spec
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.spec.function(*args, **kwargs)  # type: ignore[return-value]  # the spec forgets the types

    def __repr__(self) -> str:
        return f"<Consumer {self.spec.name}: topic={self.spec.topic} group={self.spec.group} at {self.spec.place}>"


if TYPE_CHECKING:

    def consumer(
        topic: str,
        group: str,
        *,
        orderly: bool | Literal["key"] = False,
        key: Callable[[Message], object] | None = None,
        commit: Literal["auto", "manual"] = "auto",
        broadcasting: bool = False,
        tags: str = EVERYTHING,
        sql: str | None = None,
        codec: str = "",
        engine: str = "",
        batch: int = 0,
        linger: str | float = 0,
        retry: Retry | None = None,
        once: str | float | None = None,
        ready_when: Callable[..., Awaitable[object] | object] | None = None,
        name: str | None = None,
    ) -> Callable[[Callable[P, R]], Consumer[P, R]]:
        """Consume `topic` as a member of `group`.

        The function is given what its parameters are annotated: the `framework.Message`, the `framework.Delivery`, or
        the body as bytes, str, dict, list, a pydantic model, dataclass, TypedDict or msgspec struct. Returning is
        success; raising means "again, later"; an outcome such as `RetryLater` says more. An async function runs on the
        event loop, a plain one on a worker thread.

        With `batch=32` it takes lists of so many messages at most, such as `list[Order]`; with `linger="50ms"` a
        message waits so long for others. It answers None, a list of outcomes, or the index up to which all is well;
        where it raises, the whole batch is tried again, or the tail that `BatchFailed(at=index)` names.

        `codec` names a plugin's way to read the body, such as `codec="avro"`; what is annotated is its affair then.

        `engine` names a plugin's way to run handlers of batches: with `engine="spark"` the function takes a DataFrame.

        `retry` says which failures are tried again, how often, after which delays, and what then: see `Retry`.

        With `once="30m"` what was handled less than 30 minutes ago is dropped: the same message id, or the same `key`
        where a function names it. A retry is no repeat. `consumers.GROUP.once_store` says where that is remembered.

        With `ready_when` its group joins when that function answers True: it is asked each second, is given resources
        by their names, and any other answer says why not.

        With `orderly`, each queue's messages are handled one after the other, in the order in which they were stored,
        by one member of the group at a time. A message that fails is tried again where it is, and holds its queue.
        With `commit="manual"`, too, offsets move when the handler returns `framework.Commit()`, and
        `framework.Rollback()` has everything since then delivered again, in order.

        With `orderly="key"` only messages of the same key wait for each other: `key` names it (called on the event
        loop, so it should be quick), the sharding key does otherwise. Messages without a key are in line together.

        With `broadcasting`, every process of the group is given every message, and remembers on its own disk how far it
        has come. What fails is dropped (after `max_retries` tries in place, none by default), and said so.

        Tags are joined by `||`. `sql` is an SQL92 condition on properties instead, such as
        `price > 10 AND region = 'eu'`; brokers check it (stock ones with enablePropertyFilter=true). `name` is what
        logs call it; the function's own name otherwise.
        """
        ...

else:
    # At run time any keyword is taken, so that a wrong one fails with its place and the nearest right name.

    def consumer(*positional: object, **options: object) -> Callable[[Callable[P, R]], Consumer[P, R]]:
        if positional and callable(positional[0]):
            raise ConfigurationError(f"@consumer without topic and group; {_EXAMPLE}", place=_place(positional[0]))
        return lambda function: _declared(function, positional, options)


def _declared(function: Callable[P, R], positional: tuple[object, ...], options: dict[str, object]) -> Consumer[P, R]:
    place = _place(function)
    try:
        frame = _frame_around()
        spec = _spec(function, positional, options, place, _names_in(frame))
        module = frame.f_globals.get("__name__", "") if frame is not None else ""
        return Consumer(replace(spec, module=module), function)
    except ConfigurationError as error:
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(f"consumer {name!r}: {error}", place=place) from None


def _frame_around() -> FrameType | None:
    """Where `@consumer` stands."""
    frame = inspect.currentframe()
    for _ in range(3):  # this function's own, `_declared`'s, and that of what `consumer` returned
        frame = frame.f_back if frame is not None else None
    return frame


def _names_in(frame: FrameType | None) -> Mapping[str, Any]:
    """The names known there: a model may be defined beside its handler, in a function."""
    return {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _spec(
    function: Callable[..., object], positional: tuple[object, ...], options: dict[str, object], place: str,
    names: Mapping[str, Any],
) -> ConsumerSpec:  # fmt: skip
    given = _given(positional, options)
    topic, group = given.get("topic"), given.get("group")
    for option, value in (("topic", topic), ("group", group)):
        if not isinstance(value, str):
            raise ConfigurationError(f"{option} is {'missing' if value is None else shorten(value)}; {_EXAMPLE}")
    orderly = given.get("orderly", False)
    if not isinstance(orderly, bool) and orderly != "key":
        raise ConfigurationError(f'orderly={shorten(orderly)}: write True, False or "key"')
    key = given.get("key")
    once_ms = _once(given)
    if key is not None:
        _check_key(key, orderly, once_ms)
    commit = given.get("commit", "auto")
    if commit != "auto" and (commit != "manual" or orderly is not True):
        raise ConfigurationError(_not_commit(commit))
    broadcasting = given.get("broadcasting", False)
    if not isinstance(broadcasting, bool):
        raise ConfigurationError(f"broadcasting={shorten(broadcasting)}: write True or False")
    sql = _sql(given.get("sql"), given)
    name = given.get("name") or getattr(function, "__name__", "handler")
    if not isinstance(name, str):
        raise ConfigurationError(f"name={shorten(name)}: write a text")
    _check_function(function)
    engine, batch, linger_ms = _manner(given, function)
    codec = _codec(given.get("codec", ""), engine)
    ready = _ready(given.get("ready_when"), names, place)
    retry = given.get("retry")
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(f"retry={shorten(retry)}: write retry=Retry(max=5, ...), from framework")
    return ConsumerSpec(
        topic=check_topic(str(topic)),
        group=check_name("group", str(group), GROUP_LENGTH_MAX),
        tags=_tags(given.get("tags", EVERYTHING)),
        sql=sql,
        orderly=bool(orderly),
        by_key=orderly == "key",
        key=key,  # type: ignore[arg-type]  # what it takes is seen when it is called
        commit="auto" if commit == "auto" else "manual",
        broadcasting=broadcasting,
        function=function,
        name=name,
        place=place,
        is_async=inspect.iscoroutinefunction(function),
        arguments=PLAIN if engine else arguments_of(function, names, is_batch=bool(batch), has_codec=bool(codec)),
        batch=batch,
        linger_ms=linger_ms,
        retry=retry,
        publishes=_publishes(function, commit, batch),
        publish_codec=codec_of(function),
        codec=codec,
        engine=engine,
        once_ms=once_ms,
        ready=ready,
    )


def _ready(value: object, names: Mapping[str, Any], place: str) -> Resource[..., Any] | None:
    if value is None:
        return None
    if not inspect.isfunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise ConfigurationError(f"ready_when={shorten(value)}: write a function that answers whether it may start")
    try:
        return Resource(value, "app", names, place)
    except ConfigurationError as error:
        raise ConfigurationError(f"ready_when: {error}") from None


def _once(given: dict[str, object]) -> int:
    """For how long repeats are dropped."""
    once = given.get("once")
    if once is None:
        return 0
    once_ms = 0
    if isinstance(once, str | int | float) and not isinstance(once, bool):
        try:
            once_ms = to_ms(once)
        except ValueError as error:
            raise ConfigurationError(f"once: {error}") from None
    if not once_ms:
        raise ConfigurationError(f'once={shorten(once)}: write for how long repeats are dropped, such as "30m"')
    for option, why in (
        ("engine", "what an engine is given ends as a whole"),
        ("batch", "what a batch is given ends as a whole"),
    ):
        if given.get(option):
            raise ConfigurationError(f"once and {option}={shorten(given[option])}: {why}; remove one of them")
    if given.get("commit") == "manual":
        raise ConfigurationError(
            'once and commit="manual": a message that is rolled back would be a repeat; remove one of them'
        )
    return once_ms


def _publishes(function: Callable[..., object], commit: object, batch: int) -> tuple[str, ...]:
    topics = topics_of(function)
    if topics and (commit == "manual" or batch):
        which = 'commit="manual"' if commit == "manual" else f"batch={batch}"
        raise ConfigurationError(
            f"@publishes and {which}: what it returns would be both; remove one, or use a Producer"
        )
    return topics


def _check_key(key: object, orderly: object, once_ms: int) -> None:
    if orderly == "key" and once_ms:
        raise ConfigurationError(
            f'key={shorten(key)} with once and orderly="key": would it be whose order is kept, or what is a repeat? '
            "remove key (then the sharding key is the one, and the message id the other), or once"
        )
    if orderly != "key" and not once_ms:
        raise ConfigurationError(
            f'key={shorten(key)} says whose order is kept, or what is a repeat: add orderly="key" or once="30m", or '
            "remove it"
        )
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise ConfigurationError(f"key={shorten(key)}: write a plain function that takes a message and returns its key")


def _not_commit(value: object) -> str:
    if value == "manual":
        return 'commit="manual" is for the order of queues, where all is one line: write orderly=True, or remove it'
    return f'commit={shorten(value)}: write "auto" or "manual"'


def _given(positional: tuple[object, ...], options: dict[str, object]) -> dict[str, object]:
    if len(positional) > 2:
        raise ConfigurationError(f"only topic and group go without their names, not {len(positional)}; {_EXAMPLE}")
    for option in options:
        if option in _CLASS_FILTERS:
            raise ConfigurationError(f"{option}: no broker since 5.0 runs filter classes; write sql=, or tags=")
        if option not in _OPTIONS:
            known = nearest(option, _OPTIONS) or f"; known: {', '.join(_OPTIONS)}"
            raise ConfigurationError(f"unknown option {option!r}{known}; how it runs is said in the settings file")
    given = dict(zip(("topic", "group"), positional, strict=False))
    twice = [option for option in given if option in options]
    if twice:
        raise ConfigurationError(f"{twice[0]} is given twice; {_EXAMPLE}")
    return given | options


def _manner(given: dict[str, object], function: Callable[..., object]) -> tuple[str, int, int]:
    """Who calls the function, with how many messages at most, and how long those wait for each other."""
    engine = given.get("engine", "")
    if not isinstance(engine, str):
        raise ConfigurationError(f'engine={shorten(engine)}: write the name that a plugin gives it, such as "spark"')
    batch = _batch(given.get("batch", ENGINE_BATCH if engine else 0))
    linger_ms = _linger(given.get("linger", ENGINE_LINGER_MS / 1000 if engine else 0))
    if engine and not batch:
        raise ConfigurationError(f"batch=0: the engine {engine!r} takes batches; write how many messages at most")
    if engine and inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"the engine {engine!r} calls plain functions: write def, not async def")
    if linger_ms and not batch:
        raise ConfigurationError("linger without batch: a single message waits for nobody; write batch=32, too")
    if engine and given.get("orderly", False) is not False:
        raise ConfigurationError(
            f"the engine {engine!r} is for concurrent groups in this version: remove it, or orderly"
        )
    return engine, batch, linger_ms


def _codec(value: object, engine: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f'codec={shorten(value)}: write the name that a plugin gives it, such as "json"')
    if value and engine:
        raise ConfigurationError(
            f"codec={value!r} and engine={engine!r}: the engine reads bodies itself; remove one of them"
        )
    return value


def _sql(value: object, given: dict[str, object]) -> str | None:
    """The condition, understood before anything runs: a broker would tell it by codes, and a stock one not at all."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError(f"sql={shorten(value)}: write a condition such as \"price > 10 AND region = 'eu'\"")
    if "tags" in given:
        raise ConfigurationError("tags and sql together: a broker filters by one of them; write TAGS = 'paid' in sql")
    sql92.parse(value)
    return value


def _tags(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"tags={shorten(value)}: write a text such as 'created || paid'")
    parts = [part.strip() for part in value.split(_SEPARATOR)]
    if not all(parts) or any("|" in part or any(sign.isspace() for sign in part) for part in parts):
        raise ConfigurationError(f"tags={shorten(value)}: write words joined by ||, or * for all")
    return value.strip()


def _batch(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= BATCH_MAX:
        raise ConfigurationError(f"batch={shorten(value)}: write how many messages at most, 1 to {BATCH_MAX}")
    return value


def _linger(value: object) -> int:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            linger_ms = to_ms(value)
        except ValueError as error:
            raise ConfigurationError(f"linger: {error}") from None
        if linger_ms <= LINGER_MAX_MS:
            return linger_ms
    raise ConfigurationError(
        f'linger={shorten(value)}: write a duration up to {LINGER_MAX_MS // 1000}s, such as "50ms"'
    )


def _check_function(function: Callable[..., object]) -> None:
    if not callable(function) or isinstance(function, Consumer | type):
        what = "is a consumer already" if isinstance(function, Consumer) else "is not a function"
        raise ConfigurationError(f"{shorten(function)} {what}; {_EXAMPLE} above a function")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError("a handler that yields never ends by itself; return instead")


def _place(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown place"
