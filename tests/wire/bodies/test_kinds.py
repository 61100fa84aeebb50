"""Every field of every body, with values of every kind: what RocketMQ's own classes made of each (`kinds.json`).

`tests/interop/test_bodies.py` asks those classes again.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.wire import fastjson
from framework.wire.bodies.connections import ConsumerConnections
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.bodies.shape import Body, to_json
from framework.wire.fields import Int32, camel
from tests.interop.bodies import REFUSED, key_of, values_of
from tests.wire.bodies.test_bodies import BODIES

TABLE = json.loads((Path(__file__).parent / "kinds.json").read_text(encoding="utf-8"))
FIELDS: dict[str, dict[str, Any]] = TABLE["fields"]
RESULTS: dict[str, dict[str, Any]] = TABLE["results"]

SCALARS: dict[Any, set[str]] = {
    str: {"java.lang.String"},
    bool: {"boolean"},
    int: {"long", "java.util.concurrent.atomic.AtomicLong"},
    Int32: {"int"},
    float: {"double"},
    bytes: {"java.util.BitSet"},
}
FILLED: dict[Any, Any] = {
    str: "f",
    bool: True,
    int: 9,
    Int32: 9,
    bytes: "AQ==",
    MessageQueue: {"topic": "t", "brokerName": "b"},
}


def test_every_body_has_its_fields_in_the_table() -> None:
    assert set(BODIES) - {"Body"} == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_of_the_kind_that_it_has_in_java(name: str) -> None:
    hints = get_type_hints(BODIES[name], include_extras=True)

    for one in fields_of(BODIES[name]):
        wire, hint = wire_name(one), plain(hints[one.name])
        if (name, wire) == ("GroupConfig", "subscriptionDataSet"):
            continue
        kind = FIELDS[name][wire]
        if get_origin(hint) is Annotated and hint not in SCALARS:
            assert kind == list(hint.__metadata__[0]), f"{name}.{wire}"
        elif hint in SCALARS:
            assert kind in SCALARS[hint], f"{name}.{wire}"
        elif get_origin(hint) is tuple:
            assert "List<" in kind or "Set<" in kind or kind.endswith("[]"), f"{name}.{wire}"
        elif get_origin(hint) is Mapping:
            assert "Map<" in kind or "Properties" in kind, f"{name}.{wire}"
        else:
            assert kind.startswith("org.apache.rocketmq"), f"{name}.{wire}"


@pytest.mark.parametrize("name", FIELDS)
def test_every_value_of_every_field_is_read_as_rocketmq_reads_it(name: str) -> None:
    kind = BODIES[name]
    differing = []
    for one in fields_of(kind):
        java = key_of(FIELDS[name][wire_name(one)])
        for value in values_of(java):
            theirs = RESULTS[java].get(value, REFUSED)
            ours, why = read(kind, one, value)
            is_alike = is_same(java, ours, expected(java, one, theirs))
            if not is_alike and not is_explained(java, value, theirs, ours, why):
                differing.append(f"{name}.{wire_name(one)}={value}: RocketMQ {theirs!r}, we {ours!r} {why}")

    assert "" == "\n".join(differing)


def test_the_heartbeat_of_the_client_in_cpp_is_read() -> None:
    heartbeat = Heartbeat.decode(
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g","messageModel":1,'
        b'"subscriptionDataSet":[{"codeSet":["2598919"],"subString":"TagA","subVersion":"1795000000000",'
        b'"tagsSet":["TagA"],"topic":"T"}]}],"producerDataSet":[{"groupName":"p"}]}'
    )
    (consumer,) = heartbeat.consumers
    (wanted,) = consumer.subscriptions

    assert ("CONSUME_FROM_LAST_OFFSET", "CONSUME_PASSIVELY", "CLUSTERING") == (
        consumer.consume_from, consumer.consume_type, consumer.message_model,
    )  # fmt: skip
    assert (1_795_000_000_000, (2_598_919,), ("TagA",)) == (wanted.version, wanted.codes, wanted.tags)


def test_an_unknown_name_of_an_enum_is_as_absent() -> None:
    found = ConsumerConnections.decode(
        b'{"messageModel":"SOMETHING_NEW","connectionSet":[{"clientId":"c","clientAddr":"a","language":"COBOL"}]}'
    )

    assert (None, "OTHER") == (found.message_model, found.connections[0].language)


@pytest.mark.parametrize(
    "value", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "9" * 4000, "0." + "9" * 9000]
)
@pytest.mark.parametrize("name", ["clientID", "heartbeatFingerprint", "withoutSub", "consumerDataSet"])
def test_hostile_values_are_taken_or_refused_with_a_short_line(name: str, value: str) -> None:
    said = ""
    try:
        Heartbeat.decode(f'{{"clientID":"c","{name}":{value}}}'.encode())
    except ProtocolError as error:
        said = str(error)

    assert len(said) < 250


def test_a_double_keeps_the_digits_of_64_bits() -> None:
    assert 9_007_199_254_740_993 == fastjson.integer_of(fastjson.Real("9007199254740993.0"), "x")


def read(kind: type[Body], one: Any, value: str) -> tuple[Any, str]:
    """What the field is, as plain values, or `refused` and why."""
    hints = get_type_hints(kind, include_extras=True)
    needed = {
        wire_name(each): FILLED.get(plain(hints[each.name]))
        for each in fields_of(kind)
        if each is not one and each.default is MISSING and each.default_factory is MISSING
    }
    others = "".join(
        f',"{name}":{_other(name) if filler is None else json.dumps(filler)}' for name, filler in needed.items()
    )
    try:
        body = kind.decode(f'{{"{wire_name(one)}":{value}{others}}}'.encode())
    except ProtocolError as error:
        return REFUSED, str(error)
    return to_json(body).get(wire_name(one)), ""


def _other(name: str) -> str:
    """Needed fields that are no plain values."""
    return {
        "subscriptionData": '{"topic":"t"}', "actions": "[]", "entries": "[]", "policies": "[]",
        "offsetTable": "{}", "mode": '"POP"', "consumeResult": '"CR_LATER"',
    }[name]  # fmt: skip


def is_same(java: str, ours: Any, theirs: Any) -> bool:
    """Of bodies within bodies only how many there are: their own fields have rows of their own."""
    if "rocketmq" in java and ours != REFUSED and theirs != REFUSED and ours is not None and theirs is not None:
        return bool((len(ours) if isinstance(theirs, int) else "object") == theirs or ours == theirs)
    if isinstance(ours, bytes):
        return bool(ours[:-1] == theirs[:-1])  # the last byte of what is no whole base64 differs
    return bool(
        sorted(ours) == sorted(theirs) if isinstance(ours, list) and isinstance(theirs, list) else ours == theirs
    )


def expected(java: str, one: Any, theirs: Any) -> Any:
    """RocketMQ's result as ours would stand in JSON."""
    if theirs is None:
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        default = REFUSED if default is MISSING else default
        return list(default) if isinstance(default, tuple) else default
    if theirs == REFUSED:
        return REFUSED
    if java == "java.util.BitSet":
        return b64decode(theirs)
    if java == "double":
        return float(theirs.replace("Infinity", "inf"))
    if "Map<" in java and isinstance(theirs, list):
        return {key: value for key, value in theirs if value != "(null)"}
    if "Properties" in java:
        return {key: str(value) for key, value in theirs}
    return [each for each in theirs if each is not None] if isinstance(theirs, list) else theirs


# What fastjson does by accident, and we refuse: dates and groups of digits as numbers, and numbers that are too large.
ACCIDENTS = ('"1,000"', '"1_0"', '"2020-01-01 00:00:00"', "1e400", '"\\u0661"', '"1L"', '"NaN"', '"Infinity"', '"-0"')


def is_explained(java: str, value: str, theirs: Any, ours: Any, why: str) -> bool:
    """What we do otherwise on purpose, and where the reader of RocketMQ treats two alike kinds differently."""
    if "is missing" in why or "it needs" in why:
        return True  # an object without what it cannot be without
    if any(each in value for each in ACCIDENTS):
        return True
    if ours == REFUSED:
        # To a list of objects a number is nothing, or an object with nothing in it; to a set of them it is refused.
        return java.startswith("java.util.List<") and theirs in (None, 1)
    if "null" in value or value == '[""]':
        return True  # in a list, null is no item
    if java == "double":
        return len(value) == 30  # a number of thirty digits is one
    if java.startswith("java.util.List<java"):
        return theirs is None  # an object is one of them, as it is in a set
    if java == "java.util.BitSet":
        return value == '""'  # no bits, as we write none
    if java == "java.util.Set<java.lang.Integer>":
        return theirs == REFUSED and value[0] == '"'  # a text stands for a list of it, whatever number it holds
    return value in {"[]", "[{}]"} and ("Map<" in java or "Properties" in java)  # maps come as lists, too


def fields_of(kind: Any) -> tuple[Any, ...]:
    return fields(kind)


def wire_name(one: Any) -> str:
    return str(one.metadata.get("wire") or camel(one.name))


def plain(hint: Any) -> Any:
    if type(None) in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return hint
