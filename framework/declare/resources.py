"""@resource: what handlers need beside the message, with its setup and its teardown, said at a function.

A handler asks for one by the name of a parameter, or by `Annotated[Session, session]`. There is no registry: the
resource must be known where the handler stands, as its models must. Decorating runs nothing; who opens resources, and
when, is `services/call/resources.py`'s.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, ParamSpec, TypeVar, get_args, get_origin

from framework.declare.annotations import resolved
from framework.declare.gathering import Mistaken, placeholder
from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, nearest, shorten
from framework.mistakes import ResourceWrong
from framework.model.delivery import Delivery
from framework.model.message import Message

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = ("scope",)
_SCOPES = ("app", "message")
_YIELDING = (AsyncGenerator, AsyncIterator, Generator, Iterator)
_EXAMPLE = 'write @resource, or @resource(scope="message"), above a function that returns or yields it'


class Resource(Generic[P, R]):
    """A provider with what it needs. Call it and the function runs, as if it were not decorated."""

    __slots__ = ("__dict__", "__weakref__", "function", "is_async", "name", "needs", "place", "provides", "scope",
                 "yields")  # fmt: skip

    def __init__(
        self, function: Callable[P, R], scope: Literal["app", "message"], names: Mapping[str, Any], place: str
    ) -> None:
        self.function, self.scope, self.place = function, scope, place
        self.name: str = function.__name__
        self.yields = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        self.needs: dict[str, type[Message | Delivery] | Resource[..., Any]] = {}
        """Parameter -> what it is given: another resource, the message or the delivery."""
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is parameter.empty:
                self.needs[parameter.name] = self._need(parameter, names)
        self.provides = _provided(function, names, yields=self.yields)
        """The class of what it gives, where that is written down; else None."""
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def _need(
        self, parameter: inspect.Parameter, names: Mapping[str, Any]
    ) -> type[Message | Delivery] | Resource[..., Any]:
        asked = find(parameter, self.function, names)
        if asked is None:
            annotation = parameter.annotation
            if isinstance(annotation, str):
                annotation = resolved(annotation, self.function, names, parameter.name)
            if annotation is not Message and annotation is not Delivery:
                hint = near(parameter.name, self.function, names)
                raise ResourceWrong(
                    f"parameter {parameter.name!r} is no known resource{hint}; a resource gets other resources "
                    "by their names, the Message and the Delivery"
                )
            if self.scope == "app":
                raise ResourceWrong(
                    f"parameter {parameter.name!r} belongs to one message, but the resource to the application; "
                    'write @resource(scope="message")'
                )
            return Message if annotation is Message else Delivery
        if asked.scope == "message" and self.scope == "app":
            raise ResourceWrong(
                f"parameter {parameter.name!r}: this resource is the application's, but {asked.name!r} is opened per "
                'message; write @resource(scope="message")'
            )
        return asked

    def __repr__(self) -> str:
        return f"<Resource {self.name}: scope={self.scope} at {self.place}>"


if TYPE_CHECKING:
    from typing import overload

    @overload
    def resource(function: Callable[P, R], /) -> Resource[P, R]: ...
    @overload
    def resource(*, scope: Literal["app", "message"] = "app") -> Callable[[Callable[P, R]], Resource[P, R]]: ...
    def resource(*_: Any, **__: Any) -> Any:
        """Give handlers what this function returns or yields, by its name or by `Annotated[X, resource]`.

        The code after `yield` is the teardown. With `scope="app"` a resource is opened before the groups join and
        closed after they have left. With `scope="message"` it is opened around each call of a handler that asks for
        it. If the handler raises, the exception is raised at the `yield`; an exception in the teardown fails the
        message.
        """
        ...

else:

    def resource(*positional: object, **options: object) -> Any:
        if len(positional) == 1 and not options and callable(positional[0]):
            return _declared(positional[0], "app")
        if positional:
            raise ResourceWrong(f"@resource({shorten(positional[0])}): {_EXAMPLE}")
        return lambda function: _declared(function, options.get("scope", "app"), options)


def _declared(function: Any, scope: object, options: Iterable[str] = ()) -> Resource[..., Any]:
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "unknown place"
    frame = inspect.currentframe()
    for _ in range(2):  # this function's own, and that of `resource` or of what it returned
        frame = frame.f_back if frame is not None else None
    names = {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)
    try:
        for option in options:
            if option not in _OPTIONS:
                raise ResourceWrong(f"unknown option {option!r}{nearest(option, _OPTIONS) or f'; {_EXAMPLE}'}")
        if not inspect.isfunction(function):
            raise ResourceWrong(f"{shorten(function)} is not a function; {_EXAMPLE}")
        if scope not in _SCOPES:
            raise ResourceWrong(f'scope={shorten(scope)}: write "app" or "message"')
        return Resource(function, scope, names, place)  # type: ignore[arg-type]  # it was looked at just now
    except ConfigurationError as error:
        name = getattr(function, "__name__", repr(function))
        findings = Findings()
        findings.note(error)
        return placeholder(function, findings, place, f"resource {name!r}: ")  # type: ignore[return-value]  # when gathered


# Who asks for which


def find(
    parameter: inspect.Parameter, function: Callable[..., object], names: Mapping[str, Any]
) -> Resource[..., Any] | None:
    """The resource that this parameter asks for, by its annotation or its name; None where it asks for none."""
    annotation: Any = parameter.annotation
    known = _known(function, names)
    named = known.get(parameter.name)
    if isinstance(named, Mistaken):
        raise ConfigurationMistakes(
            named.findings.mistakes
        )  # which are said anyway; what asks for it is said nothing of
    if isinstance(annotation, str):
        try:
            annotation = resolved(annotation, inspect.unwrap(function), names, parameter.name)
        except ConfigurationError:
            return named  # what it gives may be known to type checkers only
    if getattr(annotation, "IS_APPLICATION", False) is True:
        return APPLICATION
    if getattr(annotation, "IS_PUBLISHER", False) is True:
        return PUBLISHER
    if get_origin(annotation) is Annotated:
        for each in get_args(annotation)[1:]:
            if isinstance(each, Resource):
                return each
            if isinstance(each, Mistaken):
                raise ConfigurationMistakes(each.findings.mistakes)
    if named is None or annotation is Message or annotation is Delivery:
        return None
    given = named.provides
    is_said = isinstance(annotation, type) and annotation is not parameter.empty
    if is_said and given is not None and not issubclass(given, annotation):
        raise ResourceWrong(
            f"parameter {parameter.name!r} is annotated {annotation.__name__!r}, but the resource of that name is "
            f"a {given.__name__}; rename one of them"
        )
    return named


def near(name: str, function: Callable[..., object], names: Mapping[str, Any]) -> str:
    """A hint at the known resource whose name is nearly this one."""
    return nearest(name, _known(function, names))


def check(resources: Iterable[Resource[..., Any]], *, is_async: bool, is_batch: bool) -> None:
    """Whether a handler of this kind can be given these. Raises ConfigurationError."""
    for each in in_order(resources):
        if each.scope == "app":
            continue
        if each.is_async and not is_async:
            raise ResourceWrong(
                f"resource {each.name!r} ({each.place}) is async and opened for each message, but the handler is a "
                "plain function on a thread; write async def, or make the resource plain"
            )
        single = [kind for kind in each.needs.values() if not isinstance(kind, Resource)]
        if is_batch and single:
            raise ResourceWrong(
                f"resource {each.name!r} ({each.place}) takes the {single[0].__name__}, but it is opened once per "
                "batch, which has several messages; take neither there, or leave batch out"
            )


def in_order(resources: Iterable[Resource[..., Any]]) -> list[Resource[..., Any]]:
    """These and all that they need, each once, behind what it needs."""
    ordered: dict[Resource[..., Any], None] = {}

    def add(each: Resource[..., Any]) -> None:
        for need in each.needs.values():
            if isinstance(need, Resource):
                add(need)
        ordered[each] = None

    for each in resources:
        add(each)
    return list(ordered)


def _known(function: Callable[..., object], names: Mapping[str, Any]) -> dict[str, Resource[..., Any] | Mistaken]:
    everything = {**getattr(inspect.unwrap(function), "__globals__", {}), **names}
    return {name: each for name, each in everything.items() if isinstance(each, Resource | Mistaken)}


def _provided(function: Callable[..., object], names: Mapping[str, Any], *, yields: bool) -> type | None:
    annotation: Any = inspect.signature(function).return_annotation
    if isinstance(annotation, str):
        try:
            annotation = resolved(annotation, function, names, "return")
        except ConfigurationError:
            return None
    if yields:
        inside = get_args(annotation)
        annotation = inside[0] if inside and get_origin(annotation) in _YIELDING else None
    return annotation if isinstance(annotation, type) and annotation is not inspect.Parameter.empty else None


def _of_the_application() -> object:
    raise AssertionError("an application and its publisher are given to handlers, and never opened by them")


APPLICATION: Resource[..., Any] = Resource(_of_the_application, "app", {}, "framework")
"""What a parameter annotated `App` is given: the application that runs the handler."""
PUBLISHER: Resource[..., Any] = Resource(_of_the_application, "app", {}, "framework")
"""What a parameter annotated `Publisher` is given: that application's."""
GIVEN = (APPLICATION, PUBLISHER)
