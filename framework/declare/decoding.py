"""Bodies become what a handler's annotation says: chosen once, when the handler is declared.

Text, JSON, and whatever pydantic can check: its models, dataclasses, TypedDicts, named tuples, unions and lists of
them. msgspec's structs are decoded by msgspec, which is never imported here: where such a struct is, it is imported.
A body that is not what it should be raises BodyUndecodable with the reason and nothing of the body, maybe a secret.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any, get_args

from framework.errors import BodyUndecodable
from framework.mistakes import ParameterWrong

Decode = Callable[[bytes], object]

REASON_MAX = 300
# A number or a truth value alone is hardly ever a whole message: more likely the annotation is a mistake.
_NEVER = frozenset({int, float, complex, bool, object, type(None), None, bytearray, memoryview, set, tuple})
KINDS = (
    "a handler gets the body (bytes, str, dict, list, a pydantic model, dataclass, TypedDict or msgspec struct), "
    "a Message, a Delivery or the App"
)


def decoder_for(annotation: Any, parameter: str) -> Decoder | None:
    """How a body becomes this; None for `bytes`, which it is. Raises ConfigurationError for what none can be."""
    if annotation is bytes:
        return None
    if annotation is str:
        return Decoder("str", bytes.decode, (UnicodeDecodeError,))
    if annotation is dict or annotation is list:
        return _json_of(annotation)
    if annotation in _NEVER:
        raise ParameterWrong(f"parameter {parameter!r} is annotated {shown(annotation)!r}; {KINDS}")
    return _struct(annotation, parameter) or _checked(annotation, parameter)


def shown(annotation: Any) -> str:
    """The annotation as its author wrote it, nearly."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return str(annotation).replace("typing.", "")


class Decoder:
    """How bodies become one kind of value. Hot paths may do in place what calling it does."""

    __slots__ = ("_name", "_reason", "convert", "errors")

    def __init__(
        self,
        name: str,
        convert: Decode,
        errors: tuple[type[Exception], ...],
        reason: Callable[[Exception], str] = str,
    ) -> None:
        self.convert, self.errors = convert, errors
        """What does it, and what that raises where a body is not what it should be."""
        self._name, self._reason = name, reason

    def __call__(self, body: bytes) -> object:
        try:
            return self.convert(body)
        except self.errors as error:
            raise self.refused(error) from None

    def refused(self, error: Exception) -> BodyUndecodable:
        """What to raise instead of this error."""
        text = " ".join(self._reason(error).split())
        return BodyUndecodable(
            f"not a {self._name}: {text if len(text) <= REASON_MAX else f'{text[: REASON_MAX - 3]}...'}"
        )

    def __repr__(self) -> str:
        return f"<Decoder {self._name}>"


class _Otherwise(ValueError):
    """JSON, and another kind of it."""


def _json_of(kind: type) -> Decoder:
    def convert(body: bytes) -> object:
        value = json.loads(body)
        if not isinstance(value, kind):
            raise _Otherwise(f"the JSON is a {type(value).__name__}")
        return value

    def reason(error: Exception) -> str:
        return str(error) if isinstance(error, _Otherwise) else f"not JSON: {error}"

    return Decoder(kind.__name__, convert, (ValueError, RecursionError), reason)


def _struct(annotation: Any, parameter: str) -> Decoder | None:
    """msgspec's, where a struct of its stands anywhere in the annotation: alone, in a list, in a union."""
    msgspec, pydantic = (sys.modules.get(name) for name in ("msgspec", "pydantic"))
    if msgspec is None or not _holds(annotation, msgspec.Struct):
        return None
    name = shown(annotation)
    if pydantic is not None and _holds(annotation, pydantic.BaseModel):
        raise ParameterWrong(
            f"parameter {parameter!r} is annotated {name!r}, which mixes msgspec structs and pydantic models; "
            "use structs only, or models only"
        )
    try:
        decode = msgspec.json.Decoder(annotation).decode
    except TypeError as error:  # its words name the way out, such as a tag for each struct of a union
        raise ParameterWrong(f"parameter {parameter!r} is annotated {name!r}: {error}") from None
    return Decoder(name, decode, (msgspec.MsgspecError, ValueError, RecursionError))


def _holds(annotation: Any, kind: type) -> bool:
    if isinstance(annotation, type) and not get_args(annotation):
        return issubclass(annotation, kind)
    return any(_holds(each, kind) for each in get_args(annotation))


def _checked(annotation: Any, parameter: str) -> Decoder:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError

    name = shown(annotation)
    try:
        with warnings.catch_warnings():  # it says so and goes on, and then every body fails
            warnings.filterwarnings("error", "Mixing V1 models", UserWarning)
            adapter = TypeAdapter(annotation)
            if not adapter.pydantic_complete:
                adapter.rebuild(raise_errors=True)
    except UserWarning:
        message = f"parameter {parameter!r} is annotated {name!r}: a model of pydantic 1; write pydantic.BaseModel"
        raise ParameterWrong(message) from None
    except PydanticSchemaGenerationError:
        raise ParameterWrong(f"parameter {parameter!r} is annotated {name!r}; {KINDS}") from None
    except PydanticUndefinedAnnotation as error:
        message = f"parameter {parameter!r}: {name} is incomplete: {error.name!r} is not defined yet"
        raise ParameterWrong(f"{message}; define it above the handler") from None
    except PydanticUserError as error:
        # Its own words name the way out, such as typing_extensions.TypedDict where Python is older than 3.12.
        raise ParameterWrong(f"parameter {parameter!r} is annotated {name!r}: {error.message}") from None

    def reason(error: Exception) -> str:
        return _told(error) if isinstance(error, ValidationError) else str(error)

    return Decoder(name, _validator(annotation, adapter).validate_json, (ValidationError, RecursionError), reason)


def _validator(annotation: Any, adapter: Any) -> Any:
    """The adapter's, without its memory for texts: those of bodies hardly ever come twice, and to remember them costs a
    quarter of the decoding. A model that says `cache_strings` itself has its way; so has a plugin of pydantic's, which
    would not see what another validator does.
    """
    from pydantic_core import CoreConfig, SchemaValidator

    chosen = getattr(annotation, "model_config", {}).get("cache_strings")
    if chosen is not None or not isinstance(adapter.validator, SchemaValidator):
        return adapter.validator
    return SchemaValidator(adapter.core_schema, CoreConfig(cache_strings="keys"))


def _told(error: Any) -> str:
    """The first thing that pydantic found, and how many more: where and why, never what stood there."""
    first, *others = error.errors(include_url=False, include_context=False, include_input=False)
    where = ".".join(str(part) for part in first["loc"])
    text = f"{where}: {first['msg']}" if where else str(first["msg"])
    return f"{text} (and {len(others)} more)" if others else text
