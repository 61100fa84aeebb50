"""Bodies by their annotations: each kind of field, both ways, and what is of the wrong kind."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire

QUEUE = MessageQueue("t", "b", 0)


class Inner(Body):
    name: str


class Sample(Body):
    topic: str
    count: Int32 = 0
    big: int = 0
    rate: float = 0.0
    is_on: bool = False
    data: bytes = b""
    note: str | None = None
    names: tuple[str, ...] = ()
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    by_name: Mapping[str, Inner] = wire("byName", default_factory=dict)
    by_number: Mapping[int, str] = wire("byNumber", default_factory=dict)
    by_queue: Mapping[MessageQueue, int] = wire("offsetTable", default_factory=dict)
    queue: MessageQueue | None = None


FULL = Sample(
    topic="T", count=-5, big=2**62, rate=1.5, is_on=True, data=b"\0\xff", note="n", names=("a", "b"),
    inner=Inner(name="i"), inners=(Inner(name="j"),), by_name={"k": Inner(name="l")}, by_number={0: "zero"},
    by_queue={QUEUE: 7}, queue=QUEUE,
)  # fmt: skip


@pytest.mark.parametrize("quote", [True, False])
@pytest.mark.parametrize("sample", [FULL, Sample(topic="T")])
def test_decoding_gives_back_what_was_encoded(sample: Sample, quote: bool) -> None:
    assert sample == Sample.decode(sample.encode(quote_integer_keys=quote))


def test_names_are_written_in_alphabetical_order_and_none_is_left_out() -> None:
    data = Sample(topic="T").encode()

    assert (
        b'{"big":0,"byName":{},"byNumber":{},"count":0,"data":"","inners":[],"isOn":false,"names":[],"offsetTable":{},'
        b'"rate":0.0,"topic":"T"}'
    ) == data


@pytest.mark.parametrize(
    "text",
    [
        '{"topic":"T","count":null,"names":null,"byQueue":null,"inner":null,"isOn":null}',
        '{"topic":"T","unheard":{"of":[1]}}',
        '{"topic":"T","count":"0","big":"0","isOn":"false"}',
        '{"topic":"T","rate":0}',
        '{"topic":["T"],"count":"","big":"null","rate":"false","isOn":0,"names":"","byName":"null","inner":""}',
        '{"topic":"T","names":[null],"inners":[null],"byName":[{}]}',
    ],
)
def test_null_strangers_and_other_kinds_are_read_as_java_reads_them(text: str) -> None:
    assert Sample(topic="T") == Sample.decode(text.encode())


@pytest.mark.parametrize(
    "table",
    [
        '{{"brokerName":"b","queueId":0,"topic":"t"}:7}',
        '[[{"brokerName":"b","queueId":0,"topic":"t"},7]]',
        '[{"brokerName":"b","queueId":0,"topic":"t","offset":7}]',
        '{{"brokerName":"b","queueId":0,"topic":"t"}:"7"}',
    ],
)
def test_a_map_by_queue_is_read_in_each_form_that_serializers_write(table: str) -> None:
    assert {QUEUE: 7} == Sample.decode(f'{{"topic":"T","offsetTable":{table}}}'.encode()).by_queue


def test_null_in_a_map_is_no_entry() -> None:
    assert {1: "x"} == Sample.decode(b'{"topic":"T","byNumber":{"0":null,1:"x"}}').by_number


def test_a_number_stands_for_the_text_that_it_is_as_a_key() -> None:
    assert {"0": Inner(name="x")} == Sample.decode(b'{"topic":"T","byName":{0:{"name":"x"}}}').by_name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", r"Sample=\[\] is not an object"),
        ("{}", "Sample.topic is missing"),
        ('{"topic":null}', "Sample.topic is missing"),
        ('{"topic":"T","count":2147483648}', "Sample.count=2147483648 is outside 32 bits"),
        ('{"topic":"T","count":[]}', r"Sample.count=\[\] is not an integer"),
        ('{"topic":"T","count":"x"}', "Sample.count='x' is not an integer"),
        ('{"topic":"T","big":9223372036854775808}', "Sample.big=9223372036854775808 is outside 64 bits"),
        ('{"topic":"T","rate":"x"}', "Sample.rate='x' is not a finite number"),
        ('{"topic":"T","rate":1e999}', "Sample.rate=inf is not a finite number"),
        ('{"topic":"T","rate":' + "9" * 400 + "}", "Sample.rate=9+.* is not a finite number"),
        ('{"topic":"T","isOn":{}}', "Sample.isOn={} is not a boolean"),
        ('{"topic":"T","isOn":"yes"}', "Sample.isOn='yes' is not a boolean"),
        ('{"topic":"T","data":"?"}', r"Sample.data='\?' is not base64"),
        ('{"topic":"T","data":"é"}', "Sample.data='é' is not base64"),
        ('{"topic":"T","names":1}', "Sample.names=1 is not a list"),
        ('{"topic":"T","inner":[]}', r"Sample.inner=\[\] is not an object"),
        ('{"topic":"T","inners":[{}]}', r"Sample.inners\[\].name is missing"),
        ('{"topic":"T","byName":[]}', r"Sample.byName=\[\] is not an object"),
        ('{"topic":"T","byName":{{"a":1}:{"name":"x"}}}', "Sample.byName key ObjectKey.* is not a text"),
        ('{"topic":"T","byNumber":{"x":"y"}}', "Sample.byNumber key ='x' is not an integer"),
        ('{"topic":"T","offsetTable":{"x":1}}', "Sample.offsetTable='x' is not a queue"),
        (
            '{"topic":"T","offsetTable":{{"topic":"t"}:1}}',
            "Sample.offsetTable: ObjectKey.* is not a queue: it needs topic and brokerName",
        ),
        ('{"topic":"T","offsetTable":[5]}', "Sample.offsetTable: 5 is not a queue and its value"),
        ('{"topic":"T","offsetTable":[[5,6]]}', "Sample.offsetTable=5 is not a queue"),
        ('{"topic":"T","queue":"x"}', "Sample.queue='x' is not a queue"),
    ],
)
def test_the_wrong_kind_is_named_with_the_way_to_it(text: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as caught:
        Sample.decode(text.encode())

    assert len(str(caught.value)) < 250
