"""@consumer: what a function consumes, said at the function.

Owns the frozen ConsumerSpec and everything that can be found wrong with it before anything runs. Decorating has no
other effect: no registry, no thread, no connection; the function stays callable. How it runs is the settings' affair.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from types import FrameType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from framework.declare.annotations import resolved
from framework.declare.arguments import PLAIN, Argument, arguments_of
from framework.declare.gathering import found_so_far, placeholder
from framework.declare.options import (
    EXAMPLE,
    check_key,
    codec_of,
    manner_of,
    not_commit,
    once_of,
    options_in,
    publishes_of,
    sql_of,
    tags_of,
)
from framework.declare.publishing import codec_of as publish_codec_of
from framework.declare.publishing import is_replying
from framework.declare.publishing import order_key_of as publish_order_key_of
from framework.declare.resources import Resource
from framework.errors import ConfigurationError, Findings, shorten
from framework.mistakes import OptionWrong, ReturnWrong
from framework.model.answers import way_out
from framework.model.message import Message
from framework.model.outcome import OUTCOMES
from framework.model.reserved import GROUP_LENGTH_MAX, check_name, check_topic
from framework.model.retrying import Retry
from framework.model.subscription import EVERYTHING

P = ParamSpec("P")
R = TypeVar("R")


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
    """What the function gets of each message."""
    batch: int = 0
    """Messages per call, at most; 0: it takes one message, not a list."""
    linger_ms: int = 0
    """How long a message may wait for a batch to fill."""
    retry: Retry | None = None
    """What was declared about failures."""
    publishes: tuple[str, ...] = ()
    """Topics that what it returns is sent to."""
    publish_codec: str = ""
    """Which codec of a plugin makes bodies of it; empty: JSON."""
    publish_order_key: Callable[[Any], str | None] | None = None
    """Says which order key what it returns has."""
    encode: Callable[[object], bytes] | None = None
    """That codec's function, once there is an application."""
    replies: bool = False
    """Whether what it returns is the reply to a request."""
    once_ms: int = 0
    """For how long a message that was handled is not handled again; 0: it is."""
    ready: Resource[..., Any] | None = None
    """Says whether its group may join: a function with what it needs, called until it returns True."""
    codec: str = ""
    """Which codec of a plugin reads the body; empty: its annotation says it."""
    engine: str = ""
    """Which runner of a plugin calls the function, in its own way; empty: we do."""

    @property
    def gives_on(self) -> bool:
        """Whether what it returns is sent to somebody."""
        return bool(self.publishes) or self.replies


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

        Each parameter gets what its annotation names: the `framework.Message`, the `framework.Delivery`, or the body
        as bytes, str, dict, list, a pydantic model, dataclass, TypedDict or msgspec struct. Returning is success,
        raising retries, and a result such as `RetryLater` says more. An async function runs on the event loop, a plain
        one on a worker thread.

        `batch=32`: the function takes lists of up to 32 messages, such as `list[Order]`; with `linger="50ms"` a message
        waits up to 50 ms for others. It returns None, a list of results, or the index up to which all messages are
        done. If it raises, the whole batch is retried, or the part from `at` on after `BatchFailed(at=index)`.

        `codec="avro"`: a plugin's codec decodes the body, and interprets the annotation.

        `engine="spark"`: a plugin runs the batch handler; here the function takes a DataFrame.

        `retry`: which failures are retried, how often, after which delays, and what happens then; see `Retry`.

        `once="30m"`: drop a message that was handled in the last 30 minutes. The same message has the same message id,
        or the same `key` if there is such a function. Retries are not duplicates. `consumers.GROUP.once_store` says
        where keys are kept.

        `ready_when`: the group joins when this function returns True. It is called every second and gets resources by
        their names; any other result is the reason why not.

        `orderly=True`: one member of the group at a time handles a queue's messages one by one, in the order in which
        they were stored. A failed message is retried in place and blocks its queue. With `commit="manual"` the offset
        moves when the handler returns `framework.Commit()`; `framework.Rollback()` delivers everything since then
        again, in order.

        `orderly="key"`: only messages of the same key wait for each other. `key` returns it (on the event loop, so it
        should be quick); without it the sharding key is used. Messages without a key share one line.

        `broadcasting=True`: every process of the group gets every message and keeps its offsets on its own disk. A
        failed message is dropped and logged, after `max_retries` retries in place (0 by default).

        `tags` are joined by `||`. `sql` is an SQL92 condition on properties instead, such as
        `price > 10 AND region = 'eu'`; brokers check it (RocketMQ's with enablePropertyFilter=true). `name` is shown in
        logs, by default the function's name.
        """
        ...

else:
    # At run time any keyword is taken, so that a wrong one fails with its place and the nearest right name.

    def consumer(*positional: object, **options: object) -> Callable[[Callable[P, R]], Consumer[P, R]]:
        if positional and callable(positional[0]):
            findings = Findings()
            findings.note(OptionWrong(f"@consumer without topic and group; {EXAMPLE}"))
            return placeholder(positional[0], findings, _place(positional[0]), group=None)
        return lambda function: _declared(function, positional, options)


def _declared(function: Callable[P, R], positional: tuple[object, ...], options: dict[str, object]) -> Consumer[P, R]:
    function, findings = found_so_far(function)
    place = _place(function)
    frame = _frame_around()
    spec = _spec(function, positional, options, place, _names_in(frame), findings)
    if spec is None or findings:
        name = getattr(function, "__name__", repr(function))
        group = options.get("group", positional[1] if len(positional) > 1 else None)
        return placeholder(function, findings, place, f"consumer {name!r}: ", group)  # type: ignore[return-value]  # when gathered
    module = frame.f_globals.get("__name__", "") if frame is not None else ""
    return Consumer(replace(spec, module=module), function)


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
    names: Mapping[str, Any], findings: Findings,
) -> ConsumerSpec | None:  # fmt: skip
    """None where it cannot be said for what is wrong, which is noted. Each option is looked at, whatever others are."""
    tried = findings.tried
    chosen = tried(lambda: options_in(positional, options, findings))
    if chosen is None or not tried(lambda: _is_function(function)):
        return None
    orderly = tried(lambda: _orderly(chosen.get("orderly", False)))
    key, once_ms = chosen.get("key"), tried(lambda: once_of(chosen))
    if key is not None and orderly is not None and once_ms is not None:
        tried(lambda: check_key(key, orderly, once_ms))
    commit = chosen.get("commit", "auto")
    if commit != "auto" and (commit != "manual" or orderly is False or orderly == "key"):
        findings.note(OptionWrong(not_commit(commit)))
    manner = tried(lambda: manner_of(chosen, function))
    engine, batch, linger_ms = manner or ("", 0, 0)
    codec = tried(lambda: codec_of(chosen.get("codec", ""), engine))
    # What a parameter may be depends on these two.
    knows_how = manner is not None and codec is not None and not engine
    arguments: tuple[Argument, ...] = PLAIN
    if knows_how:
        arguments = tried(lambda: arguments_of(function, names, is_batch=bool(batch), has_codec=bool(codec))) or PLAIN
    publishes = tried(lambda: publishes_of(function, commit, batch)) or ()
    replies = bool(tried(lambda: is_replying(function, commit, batch)))
    tried(lambda: check_return(function, names, is_used=bool(publishes) or replies, is_batch=bool(batch)))
    spec = ConsumerSpec(
        topic=tried(lambda: _named("topic", chosen, findings)) or "",
        group=tried(lambda: _named("group", chosen, findings)) or "",
        tags=tried(lambda: tags_of(chosen.get("tags", EVERYTHING))) or EVERYTHING,
        sql=tried(lambda: sql_of(chosen.get("sql"), chosen)),
        orderly=bool(orderly),
        by_key=orderly == "key",
        key=key,  # type: ignore[arg-type]  # what it takes is seen when it is called
        commit="auto" if commit == "auto" else "manual",
        broadcasting=bool(tried(lambda: _broadcasting(chosen.get("broadcasting", False)))),
        function=function,
        name=tried(lambda: _name(chosen.get("name") or getattr(function, "__name__", "handler"))) or "",
        place=place,
        is_async=inspect.iscoroutinefunction(function),
        arguments=arguments,
        batch=batch,
        linger_ms=linger_ms,
        retry=tried(lambda: _retry(chosen.get("retry"))),
        publishes=publishes,
        replies=replies,
        publish_codec=publish_codec_of(function),
        publish_order_key=publish_order_key_of(function),
        codec=codec or "",
        engine=engine,
        once_ms=once_ms or 0,
        ready=tried(lambda: _ready(chosen.get("ready_when"), names, place)),
    )
    return None if findings else spec


def _named(option: str, chosen: Mapping[str, object], findings: Findings) -> str:
    value = chosen.get(option)
    if value is None and any(f"did you mean {option!r}?" in str(each) for each in findings.mistakes):
        return ""  # it is there, misspelled, and that was said
    if not isinstance(value, str):
        raise OptionWrong(f"{option} is {'missing' if value is None else shorten(value)}; {EXAMPLE}")
    return check_topic(value) if option == "topic" else check_name("group", value, GROUP_LENGTH_MAX)


def _orderly(value: object) -> object:
    if not isinstance(value, bool) and value != "key":
        raise OptionWrong(f'orderly={shorten(value)}: write True, False or "key"')
    return value


def _broadcasting(value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionWrong(f"broadcasting={shorten(value)}: write True or False")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise OptionWrong(f"name={shorten(value)}: write a text")
    return value


def _retry(value: object) -> Retry | None:
    if value is not None and not isinstance(value, Retry):
        raise OptionWrong(f"retry={shorten(value)}: write retry=Retry(max=5, ...), from framework")
    return value


def _ready(value: object, names: Mapping[str, Any], place: str) -> Resource[..., Any] | None:
    if value is None:
        return None
    if not inspect.isfunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise OptionWrong(f"ready_when={shorten(value)}: write a function that returns whether the group may start")
    try:
        return Resource(value, "app", names, place)
    except ConfigurationError as error:
        raise OptionWrong(f"ready_when: {error}") from None


def _is_function(function: Callable[..., object]) -> bool:
    if not callable(function) or isinstance(function, Consumer | type):
        what = "is a consumer already" if isinstance(function, Consumer) else "is not a function"
        raise OptionWrong(f"{shorten(function)} {what}; {EXAMPLE} above a function")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise OptionWrong("handlers must not be generators; use return")
    return True


def _place(function: object) -> str:
    while isinstance(function, partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        return f"{inspect.getsourcefile(function)}:{inspect.getsourcelines(function)[1]}"  # type: ignore[arg-type]  # tried
    except (TypeError, OSError):
        return "unknown place"


def check_return(function: Callable[..., object], names: Mapping[str, Any], *, is_used: bool, is_batch: bool) -> None:
    """Refuse a handler that returns what fails when it runs, or `bool` which is not sent on. What only type checkers
    know is let be.

    Any value that is no result counts as success, which is right for what a function returns by the way. A `bool` is
    not that: who writes it expects `False` to be heard, and the message would be lost. What `model/answers.py` refuses
    of a handler that runs, an annotation may show before.
    """
    annotation: Any = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
    if isinstance(annotation, str):
        try:
            annotation = resolved(annotation, function, names, "return")
        except ConfigurationError:
            return
    for kind in _kinds(annotation):
        if kind is bool and not is_used and not is_batch:
            raise ReturnWrong(
                'returns bool, but False would count as handled; raise or return RetryLater("30s") to retry, and '
                "annotate -> RetryLater | None"
            )
        is_list = is_batch and issubclass(_class_of(kind), Sequence)
        items = [item for each in get_args(kind) for item in _kinds(each)] if is_list else []
        for each in (kind, *items):
            if fault := _fault(each, is_batch=is_batch):
                raise ReturnWrong(f"returns {fault}")


def _fault(kind: Any, *, is_batch: bool) -> str:
    """With what the handler would fail, and what to write instead; empty where it would not."""
    if get_origin(kind) is type:
        ways = [(each, way_out(_class_of(each))) for each in _kinds(get_args(kind)[0])]
        return next((f"the class {each.__name__}, which fails; {way}" for each, way in ways if way), "")
    made = _class_of(kind)
    if issubclass(made, Awaitable | Generator):
        way = "return what it makes" if issubclass(made, Generator) else "await it in an async handler"
        return f"{made.__name__}, of which nothing would have run; {way}"
    if is_batch and made is bool:
        return "bool, which fails; a batch handler returns None, an outcome, a list of them or an index"
    may_be = (*OUTCOMES, Exception) if is_batch else OUTCOMES  # a batch's list may hold each message's own
    way = "" if issubclass(made, may_be) else way_out(made)
    return f"{made.__name__}, which fails; {way}" if way else ""


def _class_of(kind: Any) -> type:
    """Of `list[int]` the list; object for what is no class, such as a Literal."""
    found = get_origin(kind) or kind
    return found if isinstance(found, type) else object


def _kinds(annotation: Any) -> Iterator[Any]:
    """The kinds of value that it allows, one after the other."""
    origin = get_origin(annotation)
    if hasattr(annotation, "__value__"):  # `type Answer = ...`
        yield from _kinds(annotation.__value__)
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for each in get_args(annotation):
            yield from _kinds(each)
    else:
        yield annotation
