"""Columns: the quick decoder says what the plain one says, of every kind of record, and refuses what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import ProtocolError, RecordDamaged
from framework.model.queue import MessageQueue
from framework.reading import Columns
from framework.wire import properties, stored
from framework.wire.compression import Compression
from framework.wire.stored import Record, encode_record
from tests.wire.batches import BatchedMessage
from tests.wire.batches import encode as encode_batch

QUEUE = MessageQueue("orders", "broker-a", 3)
V6 = bytes(15) + b"\x01" + (10911).to_bytes(4)
PLAIN = Record(
    topic="orders", body=b"hello", properties={"UNIQ_KEY": "k", "TAGS": "red"}, queue_id=3, queue_offset=7,
    commit_log_offset=99, born_ms=1_700_000_000_001, stored_ms=1_700_000_000_002, store_host=b"\x7f\0\0\1\0\0\x2a\x9f",
    reconsume_times=2,
)  # fmt: skip


def columns_of(data: bytes, end: int = 1 << 40, **options: object) -> Columns:
    columns = Columns(QUEUE)
    columns.add(data, end, **options)  # type: ignore[arg-type]  # the tests' own options
    return columns


records = st.builds(
    Record,
    topic=st.sampled_from(["orders", "t" * 127, "t" * 128]),
    body=st.binary(max_size=60),
    properties=st.dictionaries(
        st.sampled_from(["UNIQ_KEY", "TAGS", "KEYS", "a"]), st.text("xyz é", min_size=1, max_size=8)
    ),
    queue_offset=st.integers(0, 1 << 40),
    commit_log_offset=st.integers(0, 1 << 40),
    born_ms=st.integers(0, 1 << 42),
    stored_ms=st.integers(0, 1 << 42),
    born_host=st.sampled_from([bytes(8), V6]),
    store_host=st.sampled_from([bytes(8), V6]),
    reconsume_times=st.integers(0, 20),
)


@settings(deadline=None)  # of a shared machine; the test's own time-out is the bound
@given(st.lists(records, max_size=6), st.integers(-3, 1000))
def test_it_says_what_the_general_decoder_says(given: list[Record], delta: int) -> None:
    data = b"".join(map(encode_record, given))

    columns = columns_of(data, 1 << 50, offset_delta=delta)
    messages = stored.decode(data, QUEUE, offset_delta=delta)

    assert [message.body for message in messages] == columns.bodies
    assert [message.queue_offset for message in messages] == columns.offsets
    assert [message.properties for message in messages] == list(map(properties.decode_stored, columns.properties))
    assert [message.born_ms for message in messages] == columns.born_ms
    assert [message.stored_ms for message in messages] == columns.stored_ms
    assert [message.attempt - 1 for message in messages] == columns.reconsume_times
    keyless = {row: message for row, message in enumerate(messages) if "UNIQ_KEY" not in message.properties}
    assert {row: message.offset_message_id for row, message in keyless.items()} == columns.offset_ids


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_bodies_are_opened(codec: Compression) -> None:
    from framework.wire.compression import compress

    record = replace(PLAIN, body=compress(b"hello" * 50, codec), sys_flag=codec.sys_flag)

    assert [b"hello" * 50] == columns_of(encode_record(record)).bodies


def test_an_inner_batch_is_taken_apart() -> None:
    body = encode_batch(
        [BatchedMessage(b"a", {"UNIQ_KEY": "1"}), BatchedMessage(b"b", {"UNIQ_KEY": "2"}), BatchedMessage(b"c", {})]
    )
    columns = columns_of(encode_record(replace(PLAIN, body=body, sys_flag=stored.INNER_BATCH)), 9)

    assert [b"a", b"b"] == columns.bodies
    assert [7, 8] == columns.offsets


def test_a_body_that_cannot_be_opened_is_a_loss() -> None:
    """No decoder of ours can be blamed for it, and skipping it silently would lose it."""
    data = encode_record(replace(PLAIN, body=b"not zlib", sys_flag=Compression.ZLIB.sys_flag))

    with pytest.raises(ProtocolError, match="orders@broker-a:3 at offset 7: body of 8 bytes is not zlib"):
        columns_of(data)
    assert [None] == columns_of(data, fail_on_loss=False).bodies
    assert [None] == columns_of(data, with_bodies=False).bodies


def test_the_gap_is_where_offsets_are_missing() -> None:
    columns = Columns(QUEUE)
    columns.offsets = [5, 6, 9]

    assert (7, 9) == columns.gap(5, 10)
    assert (3, 5) == columns.gap(3, 10)
    assert (10, 12) == columns.gap(9, 12, since=2)
    assert columns.gap(5, 7) is None


@settings(deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_read_and_never_crash(data: st.DataObject) -> None:
    whole = bytearray(encode_record(PLAIN) * 2)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])

    try:
        columns = columns_of(cut)
    except ProtocolError:
        return
    lists = (columns.offsets, columns.bodies, columns.properties, columns.born_ms, columns.stored_ms)
    assert 1 == len({len(each) for each in lists})


@pytest.mark.parametrize(
    ("at", "value", "complaint"),
    [(0, 5000, "says 5000 bytes"), (4, 0, "magic number"), (84, -1, "body of -1 bytes"), (8, 1, "checksum is")],
)
def test_what_is_wrong_with_a_record_is_said(at: int, value: int, complaint: str) -> None:
    data = bytearray(encode_record(PLAIN))
    data[at : at + 4] = value.to_bytes(4, signed=True)

    with pytest.raises(RecordDamaged, match=f"orders@broker-a:3: record at byte 0, queue offset 7: .*{complaint}"):
        columns_of(bytes(data))
    assert 1 == len(columns_of(encode_record(PLAIN)))


def test_properties_that_do_not_fit_are_refused() -> None:
    data = bytearray(encode_record(PLAIN))
    at = data.rindex(b"orders") + len(b"orders")
    data[at : at + 2] = (1000).to_bytes(2)

    with pytest.raises(RecordDamaged, match="properties of 1000 bytes"):
        columns_of(bytes(data))


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [((5, 6, 7), None), ((5, 7), None), ((), None), ((4, 5), 4), ((5, 8), 8), ((5, 5), 5), ((5, 7, 6), 6)],
)
def test_an_offset_that_is_out_of_its_place_is_found(offsets: tuple[int, ...], expected: int | None) -> None:
    columns = columns_of(b"".join(encode_record(replace(PLAIN, queue_offset=offset)) for offset in offsets), 100)

    assert expected == columns.misplaced(5, 8)
