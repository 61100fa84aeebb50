"""The settings as JSON Schema, so that an editor completes and checks a settings file while it is written.

It describes values as a file writes them: `30s`, not 30000. Owns no key, default or meaning: they come from `schema.py`
and the plugins' models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo

from framework.model.allocation import Allocation
from framework.model.subscription import Start
from framework.settings.explain import spelled
from framework.settings.models import models_below, one_line
from framework.settings.schema import AppSettings
from framework.settings.secret import Secret

Json = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""What editors understand best; nothing here needs a later one."""
REFERENCE: Json = {"type": "string", "pattern": r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}"}
"""Any value may come from the environment."""
_NOTHING: Json = {"type": "null"}
_LEFT_OUT = frozenset({"title", "default", "description", "ge", "format", "writeOnly"})


def json_schema(plugins: Mapping[str, type[BaseModel]] | None = None) -> Json:
    """The whole, as `framework-app config schema` prints it; `plugins` are the models of those that have settings."""
    generated = _described(AppSettings)
    definitions = generated["$defs"]
    of_plugins = definitions["PluginsSettings"]["properties"]["settings"]
    for name, model in sorted((plugins or {}).items()):
        found = _described_plugin(name, model)
        definitions |= found.pop("$defs", {})
        definitions[name] = found
        of_plugins.setdefault("properties", {})[name] = {
            **_or({"$ref": f"#/$defs/{name}"}, _NOTHING),
            "description": f"Settings of the plugin {name!r}.",
        }
    return {"$schema": DIALECT, "title": "framework-app.yaml", **generated}


def _described(model: type[BaseModel], template: str = "#/$defs/{model}") -> Json:
    generated = model.model_json_schema(ref_template=template)
    for each in models_below(model):
        part = generated if each is model else generated.get("$defs", {}).get(each.__name__, {})
        part.pop("title", None)
        for name, field in each.model_fields.items():
            key = field.validation_alias if isinstance(field.validation_alias, str) else name
            if key in part.get("properties", {}):
                part["properties"][key] = _property(part["properties"][key], field)
    return generated


def _described_plugin(name: str, model: type[BaseModel]) -> Json:
    """Its models are called as they like: two plugins may have a `Group` each."""
    try:
        found = _described(model, f"#/$defs/{name}.{{model}}")
    except PydanticInvalidForJsonSchema:  # a value that only its own code can read
        return {"type": "object", "properties": {key: {} for key in model.model_fields}}
    inner = found.pop("$defs", {})
    return {**found, "$defs": {f"{name}.{each}": part for each, part in inner.items()}}


def _property(found: Json, field: FieldInfo) -> Json:
    entries = found.get("additionalProperties")
    if isinstance(entries, dict) and "$ref" in entries:
        found["additionalProperties"] = _or(entries, _NOTHING)  # `billing:` with nothing behind it has the defaults
    described = {"description": one_line(field.description)} if field.description else {}
    if "$ref" in found:
        return {**_or({"$ref": found["$ref"]}, _NOTHING), **described}
    shape = {key: value for key, value in found.items() if key not in _LEFT_OUT}
    for branch in shape.get("anyOf", ()):
        branch.pop("ge", None)
    if not _takes_any_text(shape):
        shape = _or(shape, REFERENCE)
    return {**shape, **described, **({} if field.is_required() else {"default": _default(field)})}


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
        case tuple() | list() | set() | frozenset():
            return [str(each) for each in value]
        case None | str() | float() | Mapping():
            return value
        case BaseModel():
            return {}
        case SecretStr() | SecretBytes():
            return ""
        case _:
            return str(value)
