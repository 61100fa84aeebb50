"""A body that a handler takes, for the command that `dev` shows: from its annotation, tried with its decoder."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from framework.declare.arguments import Argument
    from framework.declare.decorator import ConsumerSpec

TEXT, ANY = "hello", '{"id": 1}'
_EMPTY = ("{}", "[]")
DEPTH_MAX = 5
_TEXTS = {
    "date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1S",
    "uuid": "00000000-0000-4000-8000-000000000001", "uri": "https://example.org/", "email": "a@example.org",
}  # fmt: skip


def sample(spec: ConsumerSpec) -> str | None:
    """Such a body; None where none was found, or where a codec or an engine reads it."""
    if spec.codec or spec.engine:
        return None
    bodies = [argument for argument in spec.arguments if argument.wants == "body"]
    if not bodies:
        return TEXT
    made = _made(spec, bodies[0])
    candidates = (TEXT, _read(spec, bodies[0]) if made in _EMPTY else made, ANY, *_EMPTY)
    return next((text for text in candidates if text is not None and _fits(text, bodies)), None)


def _fits(text: str, bodies: list[Argument]) -> bool:
    try:
        for argument in bodies:
            if argument.decode is not None:
                argument.decode(text.encode())
    except Exception:  # noqa: BLE001 - border: a validator of the user's
        return False
    return True


def _read(spec: ConsumerSpec, argument: Argument) -> str | None:
    """Of a dict, with the keys that the handler's own code reads: 1 is a number, and true."""
    try:
        code = ast.parse(textwrap.dedent(inspect.getsource(spec.function)))
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    keys = [
        node.slice.value
        for node in ast.walk(code)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
        if isinstance(node.value, ast.Name) and node.value.id == argument.name
    ]
    named = {key: 1 for key in sorted(keys, key=str) if isinstance(key, str)}
    return json.dumps(named, ensure_ascii=False) if named else None


def _made(spec: ConsumerSpec, argument: Argument) -> str | None:
    """From the JSON Schema of the annotation, where pydantic knows one."""
    from pydantic import TypeAdapter

    try:
        annotation = get_type_hints(spec.function, include_extras=True)[argument.name]
        if argument.many is not None and get_origin(annotation) is not None:
            (annotation,) = get_args(annotation)[:1]
        schema = TypeAdapter(annotation).json_schema()
        return json.dumps(_value(schema, schema.get("$defs", {}), DEPTH_MAX), ensure_ascii=False)
    except Exception:  # noqa: BLE001 - border: an annotation of the user's that has no schema
        return None


def _value(schema: Mapping[str, Any], known: Mapping[str, Any], depth: int) -> Any:
    """The plainest value that the schema allows."""
    if not depth:
        return None
    if "$ref" in schema:
        return _value(known[schema["$ref"].rpartition("/")[2]], known, depth - 1)
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _value(schema[name][0], known, depth - 1)
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        return {name: _value(fields[name], known, depth - 1) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        return [_value(schema["items"], known, depth - 1)] * schema.get("minItems", 0)
    return _plain(schema)


def _plain(schema: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "integer" | "number":
            return max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return True
        case "string":
            return _TEXTS.get(schema.get("format", "")) or "a" * max(schema.get("minLength", 1), 1)
        case _:
            return None
