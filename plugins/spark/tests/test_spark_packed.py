"""Whole fields at a time: the same rows as record by record, of every kind of record and however they were pulled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from framework_spark.frames import SHAPE
from framework_spark.packed import Packed
from framework_spark.rows import ERROR, Rows
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.reading import Columns
from framework.wire.stored import INNER_BATCH, Record, encode_record
from tests.wire.batches import BatchedMessage
from tests.wire.batches import encode as encode_batch

QUEUE = MessageQueue("orders", "broker-a", 3)
PLAIN = Record(
    topic="orders", body=b"hello", properties={"UNIQ_KEY": "k", "TAGS": "red"}, queue_id=3, queue_offset=7,
    commit_log_offset=99, born_ms=1_700_000_000_001, stored_ms=1_700_000_000_002, store_host=b"\x7f\0\0\1\0\0\x2a\x9f",
    reconsume_times=2,
)  # fmt: skip
KEPT = SHAPE.append(pa.field(ERROR, pa.string()))
V6 = bytes(15) + b"\x01" + (10911).to_bytes(4)

plain = st.builds(
    replace,
    st.just(PLAIN),
    body=st.binary(min_size=1, max_size=60),
    properties=st.dictionaries(
        st.sampled_from(["UNIQ_KEY", "TAGS", "KEYS", "a"]), st.text("xyz é", min_size=1, max_size=8), min_size=1
    ),
    reconsume_times=st.integers(0, 9),
)
odd = st.one_of(
    st.builds(replace, plain, properties=st.just({})),
    st.builds(replace, plain, topic=st.just("t" * 128)),
    st.builds(replace, plain, store_host=st.just(V6)),
)
alike = st.integers(1, 5).map(
    lambda count: [
        replace(PLAIN, body=b"%05d" % n, properties={"KEYS": f"k{n}", "TAGS": "x", "UNIQ_KEY": f"u{n % 2}"})
        for n in range(count)
    ]
)
pulls = (
    st.lists(alike, max_size=4)
    | st.lists(st.lists(plain, max_size=5), max_size=4)
    | st.lists(st.lists(plain | odd, max_size=5), max_size=4)
)


def numbered(pulled: Sequence[Sequence[Record]]) -> list[bytes]:
    offset, found = 0, []
    for records in pulled:
        data = b""
        for record in records:
            data += encode_record(replace(record, queue_offset=offset, commit_log_offset=1000 * offset))
            offset += 1
        found.append(data)
    return found


def both(pulled: Sequence[bytes], end: int = 1 << 40, **options: object) -> tuple[pa.Table, pa.Table]:
    """By whole fields, and record by record."""
    packed, lists = Packed(QUEUE), Columns(QUEUE)
    for data in pulled:
        for columns in (packed, lists):
            columns.add(data, end, **options)  # type: ignore[arg-type]  # the tests' own options
    rows = [Rows(lists).batch(SHAPE)] if len(lists) else []
    return pa.Table.from_batches(packed.batches(SHAPE), SHAPE), pa.Table.from_batches(rows, SHAPE)


@settings(max_examples=30)
@given(pulls, st.integers(0, 20), st.booleans())
def test_rows_are_those_that_the_general_way_reads(given: list[list[Record]], end: int, with_bodies: bool) -> None:
    packed, lists = both(numbered(given), end, with_bodies=with_bodies)

    assert packed.to_pylist() == lists.to_pylist()
    assert packed.schema == lists.schema


@settings(max_examples=30)
@given(pulls)
def test_tags_are_compared_as_texts(given: list[list[Record]]) -> None:
    packed, lists = both(numbered(given), tags=frozenset({"x", "y z"}))

    assert packed.to_pylist() == lists.to_pylist()


@pytest.mark.parametrize("name", ["MY_UNIQ_KEY", "UNIQ_KEY"])
def test_a_name_that_only_ends_in_that_of_the_key_names_no_message(name: str) -> None:
    packed, lists = both(numbered([[replace(PLAIN, properties={name: "k"})]]))

    assert ["k" if name == "UNIQ_KEY" else "7F00000100002A9F0000000000000000"] == packed.column("msgId").to_pylist()
    assert packed == lists


def test_offsets_that_are_to_be_shifted_are() -> None:
    packed, lists = both(numbered([[PLAIN] * 3]), offset_delta=5)

    assert [5, 6, 7] == packed.column("offset").to_pylist()
    assert packed == lists


@settings(max_examples=30)
@given(st.lists(plain, min_size=1, max_size=4), st.booleans(), st.data())
def test_damaged_bytes_are_refused_as_the_general_way_refuses_them(
    given: list[Record], is_strict: bool, data: st.DataObject
) -> None:
    (whole,) = numbered([given])
    at = data.draw(st.integers(0, len(whole) - 1))
    torn = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]

    def packed() -> pa.Table:
        columns = Packed(QUEUE)
        columns.add(torn, 1 << 40, fail_on_loss=is_strict)
        return pa.Table.from_batches(columns.batches(SHAPE), SHAPE)

    def lists() -> pa.Table:
        columns = Columns(QUEUE)
        columns.add(torn, 1 << 40, fail_on_loss=is_strict)
        return pa.Table.from_batches([Rows(columns).batch(SHAPE)] if len(columns) else [], SHAPE)

    def outcome(read: Callable[[], pa.Table]) -> pa.Table | str:
        try:
            return read()
        except ProtocolError as error:
            return error.reason

    found, general = outcome(packed), outcome(lists)
    if is_strict and found != general:  # who reads the general way looks at offsets by itself, or notices the gap
        assert isinstance(general, pa.Table)
        offsets = general.column("offset").to_pylist()
        assert len(offsets) < len(given) or list(range(len(given))) != offsets
        assert "which cannot be at its place" in str(found)
    else:
        assert general == found


@settings(max_examples=60)
@given(st.lists(plain, min_size=1, max_size=5), st.data())
def test_whatever_is_damaged_each_offset_is_kept_once_and_nothing_is_wrong_in_silence(
    given: list[Record], data: st.DataObject
) -> None:
    """By `Packed` and by lists alike. Only behind a record whose size lies nothing can be read of this answer."""
    (whole,) = numbered([given])
    at = data.draw(st.integers(0, len(whole) - 1))
    torn = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    tables, count = [], len(given)
    for columns in (Packed(QUEUE), Columns(QUEUE)):
        columns.add(torn, count, keep_damaged=True, span=(0, count))
        if columns.misplaced(0, count) is not None:
            columns.mend(0, count)
        batches = columns.batches(KEPT) if isinstance(columns, Packed) else [Rows(columns).batch(KEPT)]
        tables.append(pa.Table.from_batches(batches, KEPT))

    packed, general = tables
    assert packed.drop_columns([ERROR]) == general.drop_columns([ERROR])
    assert packed.column(ERROR).is_null() == general.column(ERROR).is_null(), "the texts name other bytes"
    rows = packed.select(["offset", "body", ERROR]).to_pylist()  # times may be damaged, and years then of no calendar
    assert list(range(len(rows))) == [row["offset"] for row in rows]
    assert columns.broken_at is not None or count == len(rows)
    for row, record in zip(rows, given, strict=False):
        assert (row["body"] is None) is (row[ERROR] is not None)
        assert row["body"] in {None, record.body}


@pytest.mark.parametrize("is_strict", [True, False])
def test_an_offset_beyond_the_end_before_one_below_it_is_damage(is_strict: bool) -> None:
    columns = Packed(QUEUE)
    data = b"".join(encode_record(replace(PLAIN, queue_offset=at)) for at in (7, 1 << 50, 9))
    columns.add(data, 10, fail_on_loss=is_strict)

    if is_strict:
        with pytest.raises(ProtocolError, match=f"a record says offset {1 << 50}, which cannot be"):
            list(columns.batches(SHAPE))
    else:
        assert [7, 9] == [row["offset"] for batch in columns.batches(SHAPE) for row in batch.to_pylist()]


@pytest.mark.parametrize("before", [0, 2])
def test_a_gap_is_looked_for_where_a_pull_has_other_rows_than_offsets(before: int) -> None:
    columns = Packed(QUEUE)
    if before:
        columns.add(numbered([[PLAIN] * before])[0], 1 << 40)
    columns.add(b"".join(encode_record(replace(PLAIN, queue_offset=at)) for at in (10, 11, 13)), 1 << 40)

    assert before + 3 == len(columns)
    assert (12, 13) == columns.gap(10, 14, before)
    assert before + 3 == len(columns)
    assert [10, 11, 13] == [row["offset"] for batch in columns.batches(SHAPE) for row in batch.to_pylist()][before:]


def test_an_answer_without_records_is_a_gap_and_divides_no_batch() -> None:
    first, second = numbered([[PLAIN] * 2, [PLAIN] * 3])
    columns = Packed(QUEUE)
    columns.add(first, 1 << 40)
    columns.add(b"", 1 << 40)

    assert (2, 9) == columns.gap(2, 9, 2)
    assert columns.gap(9, 9, 2) is None
    columns.add(second, 1 << 40)
    assert [5] == [batch.num_rows for batch in columns.batches(SHAPE)]


def test_several_messages_in_one_record_are_several_rows_without_a_gap() -> None:
    body = encode_batch([BatchedMessage(b"a", {"UNIQ_KEY": "1"}), BatchedMessage(b"b", {"UNIQ_KEY": "2"})])
    record = replace(PLAIN, body=body, sys_flag=INNER_BATCH, properties={"INNER_NUM": "2", "INNER_BASE": "7"})
    columns = Packed(QUEUE)
    columns.add(encode_record(record), 1 << 40)

    assert columns.gap(7, 9, 0) is None
    assert [b"a", b"b"] == [row["body"] for batch in columns.batches(SHAPE) for row in batch.to_pylist()]
    assert 2 == len(columns)
