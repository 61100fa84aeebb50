"""Values that are no text: what RocketMQ 5.5.0 (fastjson2 2.0.59) made of each, printed by its own classes.

`tests/interop/test_headers.py` asks those classes again, for values that are drawn.
"""

from __future__ import annotations

import json

import pytest

from framework.errors import ProtocolError
from framework.wire import fastjson, header_json

TEXTS = {
    "1": "1",
    "-0": "0",
    "123456789012345678901234567890": "123456789012345678901234567890",
    "1.0": "1.0",
    "1.50": "1.50",
    "-0.0": "0.0",
    "0.0000001": "1E-7",
    "0.000001": "0.000001",
    "1234567890123456789012345.678": "1234567890123456789012345.678",
    "1e3": "1000.0",
    "-1e3": "-1000.0",
    "1E+5": "100000.0",
    "12.5e1": "125.0",
    "1e7": "1.0E7",
    "1e-3": "0.001",
    "1.5e-7": "1.5E-7",
    "1.5e300": "1.5E300",
    "1e400": "Infinity",
    "-1e400": "-Infinity",
    "1e-400": "0.0",
    "-8124e0": "-8124",
    "1.50e0": "1.50",
    "true": "true",
    "false": "false",
    "null": None,
    "[]": "[]",
    "{}": "{}",
    "[1]": "[1]",
    '[1, "a", null, true, 1.0]': '[1,"a",null,true,1.0]',
    '{"b": "x", "a": [1, 2]}': '{"b":"x","a":[1,2]}',
    '{"b":1,"a":null}': '{"b":1}',
    '{"a":[null],"c":{"d":null}}': '{"a":[null],"c":{}}',
    '{"a":1,"a":2}': '{"a":2}',
    "[null]": None,
    "[null,null]": "[null,null]",
    '["x"]': "x",
    '[["x"]]': '[["x"]]',
    "[-0.0,0.0000001,1e7,1e400]": "[0.0,0.0000001,1.0E7,null]",
    r'["\u0000\u0001\b\f\n\r\t\u001f", "\u007f\u2028<>/\\\"é"]': (
        '["\\u0000\\u0001\\b\\f\\n\\r\\t\\u001f","\x7f\u2028<>/\\\\\\"é"]'
    ),
    '"x"': "x",
    '""': "",
}

NUMBERS: dict[str, int | None] = {
    "1": 1,
    "-1": -1,
    "1.0": 1,
    "1.9": 1,
    "-1.9": -1,
    "1e3": 1000,
    "1.5e-7": 0,
    "true": 1,
    "false": 0,
    "null": 0,
    "{}": 0,
    '{"b":1}': 0,
    '"11"': 11,
    '"+7"': 7,
    '"00012"': 12,
    '"1."': 1,
    '".5"': 0,
    '"1.0"': 1,
    '"1e3"': 1000,
    '""': 0,
    '"null"': 0,
    '"true"': 1,
    '"false"': 0,
    "[1]": 1,
    '["1"]': 1,
    "[2.7]": 2,
    "2147483647.9": 2147483647,
    "-2147483648.9": -2147483648,
    # Refused:
    "2147483648": None,
    "[]": None,
    "[1,2]": None,
    "[null]": None,
    "[true]": None,
    '["null"]': None,
    '["1e3"]': None,
    "[[1]]": None,
    '"x"': None,
    '" 11 "': None,
    '"1 "': None,
    '"0x10"': None,
    '"TRUE"': None,
    '"NaN"': None,
    '"9999999999"': None,
    '"\\u0661"': None,
}


@pytest.mark.parametrize("value", TEXTS)
def test_any_value_of_a_field_is_taken_for_its_text(value: str) -> None:
    expected = TEXTS[value]

    command = header_json.decode(f'{{"code":1,"extFields":{{"a":{value}}},"remark":{value}}}'.encode(), b"")
    assert ({} if expected is None else {"a": expected}, expected) == (command.fields, command.remark)


@pytest.mark.parametrize("key", ["code", "opaque", "flag", "version"])
@pytest.mark.parametrize("value", NUMBERS)
def test_any_value_of_a_number_is_taken_as_there(value: str, key: str) -> None:
    header, expected = f'{{"code":1,"{key}":{value}}}'.encode(), NUMBERS[value]

    if expected is None:
        with pytest.raises(ProtocolError, match=f"JSON header: {key}="):
            header_json.decode(header, b"")
    else:
        command = header_json.decode(header, b"")
        read = {"code": command.code, "opaque": command.number, "flag": command.flag, "version": command.version}
        assert expected == read[key]


@pytest.mark.parametrize("text", ["9" * 39, "1" + "0" * 60_000, "nan", "inf", "-Infinity", "1_0", "\n1"])
def test_a_text_that_is_no_number_of_32_bits_is_refused_at_once(text: str) -> None:
    with pytest.raises(ProtocolError, match=r"is not an integer|is outside 32 bits") as caught:
        fastjson.int32_of("code", text)

    assert len(str(caught.value)) < 250


def test_what_is_written_of_a_value_is_json_again() -> None:
    value = '{"a":[1,{"b":null,"c":[true,"\\u0001"]}],"d":{}}'

    assert {"a": [1, {"c": [True, "\x01"]}], "d": {}} == json.loads(fastjson.text_of(json.loads(value)) or "")


@pytest.mark.parametrize(
    "text", ["0e999999999999999999999999", "-0e99999999999999999999", "1e-999999999999999999999", "-0.9"]
)
def test_what_is_smaller_than_one_is_0_whatever_its_exponent(text: str) -> None:
    """One that Decimal does not take ended the connection with an error of ours."""
    for value in (fastjson.Real(text), text):
        assert 0 == fastjson.integer_of(value, "it", 32)
