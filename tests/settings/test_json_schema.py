"""The JSON Schema: what an editor is told is what the loader takes, key by key."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from framework.hooks.host import PluginHost
from framework.settings import document
from framework.settings.json_schema import json_schema
from framework.settings.schema import AppSettings

ROOT = Path(__file__).parents[2]
SCHEMA = json_schema(PluginHost().models)
OWN = set(json_schema()["$defs"])
KINDS = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def fits(value: Any, shape: dict[str, Any]) -> bool:
    """As much of JSON Schema as ours uses; a word that is not known here fails the test that meets it."""
    if "$ref" in shape:
        return fits(value, SCHEMA["$defs"][shape["$ref"].rpartition("/")[2]])
    if "anyOf" in shape:
        return any(fits(value, branch) for branch in shape["anyOf"])
    unknown = set(shape) - {
        "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minProperties", "maxProperties",
        "items", "properties", "additionalProperties", "description", "default", "title", "$defs", "$schema",
    }  # fmt: skip
    assert set() == unknown, shape
    if "enum" in shape and value not in shape["enum"]:
        return False
    kind = KINDS[shape["type"]] if "type" in shape else object
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    if isinstance(value, str):
        return re.search(shape.get("pattern", ""), value) is not None and len(value) >= shape.get("minLength", 0)
    if isinstance(value, list):
        return all(fits(each, shape.get("items", {})) for each in value)
    if isinstance(value, int):
        return bool(shape.get("minimum", value) <= value <= shape.get("maximum", value))
    return not isinstance(value, dict) or fits_keys(value, shape)


def fits_keys(value: dict[str, Any], shape: dict[str, Any]) -> bool:
    others = shape.get("additionalProperties", True)
    known = shape.get("properties", {})
    return shape.get("minProperties", 0) <= len(value) <= shape.get("maxProperties", len(value)) and all(
        fits(each, known[key]) if key in known else fits(each, others) if isinstance(others, dict) else bool(others)
        for key, each in value.items()
    )


def as_json(value: Any) -> Any:
    """Scalars are texts until the settings are made; an editor sees what YAML makes of them."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if value in {"true", "false"}:
        return value == "true"
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def properties() -> list[tuple[str, dict[str, Any]]]:
    parts = [("", SCHEMA), *((f"{name}.", part) for name, part in SCHEMA["$defs"].items() if name in OWN)]
    return [(f"{at}{name}", shape) for at, part in parts for name, shape in part["properties"].items()]


def test_default_yaml_is_what_it_describes() -> None:
    values = document.parsed((ROOT / "config" / "default.yaml").read_text(), "default.yaml").values

    assert fits(as_json(values), SCHEMA)
    assert set(values) == set(SCHEMA["properties"])
    for part, entries in values.items():
        if part != "consumers":
            reference = SCHEMA["properties"][part]["anyOf"][0]["$ref"].rpartition("/")[2]
            assert set(entries) == set(SCHEMA["$defs"][reference]["properties"]), part
    assert set(values["consumers"]["example"]) == set(SCHEMA["$defs"]["ConsumerSettings"]["properties"])


@pytest.mark.parametrize(("name", "shape"), properties())
def test_each_key_says_what_it_means_and_has_a_default_of_its_own_form(name: str, shape: dict[str, Any]) -> None:
    assert len(shape["description"]) > 10
    assert "\n" not in shape["description"]
    assert "default" in shape or "$ref" in shape["anyOf"][0]
    assert fits(shape.get("default"), shape)


@pytest.mark.parametrize(
    "values",
    [
        {"consumers": {"g": None}, "cluster": {"tls": None}},
        {"consumers": {"g": {"start": "first", "concurrency": "${env:N}", "timeout": None}}},
        {"consumers": {"g": {"start": "30m", "allocation": {"consistent_hash": {"virtual_nodes": 100}}}}},
        {"consumers": {"g": {"start": "2026-11-21T09:30:00+08:00", "timeout": "1h30m", "cache_bytes": "1.5MiB"}}},
        {"cluster": {"name_servers": "a:1, b:2", "credentials": {"secret_key": "${env:KEY}"}}},
        {"plugins": {"settings": {"audit": {"file": "x"}}, "only": ["audit"]}},
        {
            "plugins": {
                "settings": {"outbox": {"keep": "2h", "batch": 7, "database": "${env:DSN}"}, "stranger": {"a": 1}}
            }
        },
        {
            "plugins": {
                "settings": {"spark": {"groups": {"g": {"mode": "driver", "batch_bytes": "1MiB"}}}, "audit": None}
            }
        },
    ],
)
def test_what_the_loader_takes_an_editor_takes(values: dict[str, Any]) -> None:
    assert fits(values, SCHEMA)
    if "${" not in json.dumps(values):
        assert isinstance(AppSettings.parsed(values, {}), AppSettings)


@pytest.mark.parametrize(
    "values",
    [
        {"ap": {}},
        {"app": {"drain": 30}},
        {"app": {"drain": "30"}},
        {"app": {"budget": "64MB"}},
        {"consumers": {"g": {"start": "2026-11-21T09:30:00"}}},
        {"consumers": {"g": {"concurrency": 0}}},
        {"consumers": {"g": {"concurency": 4}}},
        {"consumers": {"g": {"undecodable": "ignore"}}},
        {"cluster": {"tls": {"enabled": "perhaps"}}},
    ],
)
def test_what_the_loader_refuses_an_editor_marks(values: dict[str, Any]) -> None:
    texts = json.loads(json.dumps(values), parse_int=str)  # as the file's reader hands it on

    assert not fits(values, SCHEMA)
    assert isinstance(AppSettings.parsed(texts, {}), list)


@pytest.mark.parametrize(
    "settings",
    [
        {"audit": {"flush_lines": 0}},
        {"audit": {"flush_after": "soon"}},
        {"audit": {"fiel": "x"}},
        {"outbox": {"relay": "perhaps"}},
        {"spark": {"groups": {"g": {"mode": "both"}}}},
    ],
)
def test_what_a_plugin_refuses_an_editor_marks(settings: dict[str, Any]) -> None:
    assert not fits({"plugins": {"settings": settings}}, SCHEMA)
    ((name, values),) = settings.items()
    with pytest.raises(ValidationError):
        PluginHost().models[name].model_validate(json.loads(json.dumps(values), parse_int=str))


def _of_first_party() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{part}.{key}", shape)
        for part in SCHEMA["$defs"]
        if part.partition(".")[0] in {"audit", "outbox", "spark"}
        for key, shape in SCHEMA["$defs"][part]["properties"].items()
    ]


@pytest.mark.parametrize(("name", "shape"), _of_first_party())
def test_each_key_of_our_own_plugins_says_what_it_means_and_has_a_default(name: str, shape: dict[str, Any]) -> None:
    assert len(shape["description"]) > 10
    assert fits(shape["default"], shape)


class Queue(BaseModel):
    depth: int = 3


class Strange(BaseModel):
    """Whatever a stranger's model may have."""

    where: Path = Path("here")
    key: SecretStr = SecretStr("hush")
    when: datetime | None = None
    tags: frozenset[str] = frozenset({"a"})
    queue: Queue = Queue()
    queues: dict[str, Queue] = Field(default_factory=dict, description="Each has a depth.")
    must: int


class Opaque(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    when: slice = slice(1)


def test_a_stranger_s_models_are_described_as_far_as_they_can_be() -> None:
    schema = json_schema({"strange": Strange, "opaque": Opaque})
    strange = schema["$defs"]["strange"]["properties"]

    json.dumps(schema)
    assert ("here", "", ["a"]) == tuple(strange[name]["default"] for name in ("where", "key", "tags"))
    assert "default" not in strange["must"]
    assert ["must"] == schema["$defs"]["strange"]["required"]
    assert "Each has a depth." == strange["queues"]["description"]
    assert 3 == schema["$defs"]["strange.Queue"]["properties"]["depth"]["default"]
    assert ["when"] == list(schema["$defs"]["opaque"]["properties"])
