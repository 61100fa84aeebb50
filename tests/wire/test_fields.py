"""Typed headers: names, types, ranges."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.wire.fields import Int32, RequestHeader, command_for, from_fields, int_of, to_fields, wire


class Sample(RequestHeader, code=11):
    queue_id: Int32
    sub_version: int
    topic: str
    is_force: bool = False
    broker_name: str | None = wire("bname", default=None)
    max_bytes: Int32 | None = None


FIELDS = {"queueId": "3", "subVersion": "1700000000000", "topic": "T"}


def test_names_become_camel_case_and_none_is_left_out() -> None:
    sample = Sample(queue_id=3, sub_version=1_700_000_000_000, topic="T", broker_name="b", is_force=True)

    assert {**FIELDS, "isForce": "true", "bname": "b"} == to_fields(sample)


def test_reading_gives_back_what_was_written() -> None:
    sample = Sample(queue_id=-3, sub_version=-(2**63), topic="", max_bytes=2**31 - 1)

    assert sample == from_fields(Sample, to_fields(sample))


def test_absent_fields_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    sample = from_fields(Sample, {**FIELDS, "ns": "x", "lo": "true"})

    assert Sample(queue_id=3, sub_version=1_700_000_000_000, topic="T") == sample


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_booleans_are_read_as_java_reads_them(text: str, value: bool) -> None:
    assert value is from_fields(Sample, {**FIELDS, "isForce": text}).is_force


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"queueId": None}, "Sample: field queueId is missing"),
        ({"topic": None}, "Sample: field topic is missing"),
        ({"queueId": "x"}, "Sample: field queueId='x' is not an integer"),
        ({"queueId": ""}, "queueId='' is not an integer"),
        ({"queueId": "-"}, "is not an integer"),
        ({"queueId": " 3"}, "is not an integer"),
        ({"queueId": "1_0"}, "is not an integer"),
        ({"queueId": "3.0"}, "is not an integer"),
        ({"queueId": "٣"}, "is not an integer"),
        ({"queueId": "9" * 5000}, "is not an integer"),
        ({"queueId": "2147483648"}, "queueId='2147483648' is outside 32 bits"),
        ({"maxBytes": "-2147483649"}, "is outside 32 bits"),
        ({"subVersion": "9223372036854775808"}, "is outside 64 bits"),
    ],
)
def test_an_ill_typed_field_is_named_with_its_header(fields: dict[str, str | None], reason: str) -> None:
    given = {name: text for name, text in {**FIELDS, **fields}.items() if text is not None}

    with pytest.raises(ProtocolError, match=reason) as caught:
        from_fields(Sample, given)

    assert len(str(caught.value)) < 200


def test_a_header_makes_a_request_of_its_code() -> None:
    sample = Sample(queue_id=3, sub_version=5, topic="T")

    command = command_for(sample, b"body")

    assert (11, b"body", to_fields(sample)) == (command.code, command.body, command.fields)
    assert 361 == command_for(sample, code=361).code


@pytest.mark.parametrize(("text", "value"), [("+5", 5), ("-0", 0), ("007", 7)])
def test_numbers_are_read_as_javas_parsers_read_them(text: str, value: int) -> None:
    assert value == int_of(text, 64)
