"""The settings as JSON Schema, so that an editor completes and checks a settings file while it is written.

Says how a file spells values, which is not how they are held: `30s`, not 30000. Owns no key, default or meaning: they
are read from `schema.py`, the meanings from its source, which only this does and no start.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from framework.model.allocation import Allocation
from framework.settings import schema
from framework.settings.explain import spelled
from framework.settings.schema import AppSettings, Start
from framework.settings.secret import Secret

Json = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What editors understand best; nothing here needs a later one."""
REFERENCE: Json = {"type": "string", "pattern": r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}"}
"""Any value may come from the environment."""
_NOTHING: Json = {"type": "null"}


def json_schema() -> Json:
    """The whole, as `framework-app config schema` prints it."""
    generated = AppSettings.model_json_schema()
    said = _meanings()
    for model in _models(AppSettings):
        part = generated if model is AppSettings else generated["$defs"][model.__name__]
        part.pop("title", None)
        for name, field in model.model_fields.items():
            part["properties"][name] = _property(part["properties"][name], field, said[model.__name__][name])
    return {"$schema": DIALECT, "title": "framework-app.yaml", **generated}


def _property(found: Json, field: FieldInfo, meaning: str) -> Json:
    entries = found.get("additionalProperties")
    if isinstance(entries, dict) and "$ref" in entries:
        found["additionalProperties"] = _or(entries, _NOTHING)  # `billing:` with nothing behind it has the defaults
    described = {"description": " ".join(meaning.split())}
    if "$ref" in found:
        return {**_or({"$ref": found["$ref"]}, _NOTHING), **described}
    shape = {key: value for key, value in found.items() if key not in {"title", "default", "description", "ge"}}
    for branch in shape.get("anyOf", ()):
        branch.pop("ge", None)
    if not _takes_any_text(shape):
        shape = _or(shape, REFERENCE)
    return {**shape, **described, "default": _default(field)}


def _or(shape: Json, other: Json) -> Json:
    branches = shape["anyOf"] if set(shape) == {"anyOf"} else [shape]
    return {"anyOf": [*branches, other]}


def _takes_any_text(shape: Json) -> bool:
    """Whether a reference is allowed already, or means nothing here: keys and values are written, not referred to."""
    branches = shape.get("anyOf", [shape])
    return any(
        branch.get("type") == "object" or (branch.get("type") == "string" and not {"pattern", "enum"} & set(branch))
        for branch in branches
    )


def _default(field: FieldInfo) -> Any:
    """As a file would write it."""
    value = field.get_default(call_default_factory=True)
    match value:
        case Secret():
            return ""
        case Start() | Allocation():
            return spelled(value, ("",), field)
        case bool():
            return value
        case int():
            text = spelled(value, ("",), field)
            return value if text == str(value) else text
        case tuple():
            return list(value)
        case _:
            return value


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _models(kind)


def _meanings() -> dict[str, dict[str, str]]:
    """Model -> key -> the text below it in `schema.py`."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(schema)).body:
        if isinstance(node, ast.ClassDef):
            for field, text in pairwise(node.body):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    value = text.value if isinstance(text, ast.Expr) else None
                    says = value.value if isinstance(value, ast.Constant) else ""
                    found.setdefault(node.name, {})[field.target.id] = str(says)
    return found
