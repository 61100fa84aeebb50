"""The builder of hostile frames says what an honest peer says, where it is not told to lie."""

from __future__ import annotations

from framework.wire.fields import from_fields
from framework.wire.requests.pull import PullRequest
from framework.wire.requests.send import SendRequestV2
from framework.wire.signing import verify
from tests.hostile import frames
from tests.wire import batches
from tests.wire.frames import decode_frame


def test_a_send_is_what_the_real_decoder_reads() -> None:
    command = decode_frame(frames.send("t", b"body", number=7, properties="k\x01v\x02")[4:])

    assert (310, 7, b"body") == (command.code, command.number, command.body)
    assert "k\x01v\x02" == from_fields(SendRequestV2, command.fields).properties


def test_a_pull_and_a_batch_are_too() -> None:
    pull = decode_frame(frames.pull("t", "g", offset=5, wait_ms=100)[4:])
    batch = decode_frame(frames.send_batch("t", [b"a", b"", b"c"])[4:])

    assert 5 == from_fields(PullRequest, pull.fields).queue_offset
    assert [b"a", b"", b"c"] == [part.body for part in batches.decode(batch.body)]


def test_a_binary_header_is_read_and_a_signature_holds() -> None:
    header = frames.binary_header(34, [(b"k", b"v")], number=3, remark=b"why")
    command = decode_frame(frames.frame(header, b"x", encoding=frames.BINARY)[4:])
    fields = frames.signed({"topic": "t"}, b"body", "me", "secret")
    asked = decode_frame(frames.request(105, fields, b"body")[4:])

    assert (34, 3, "why", {"k": "v"}, b"x") == (
        command.code, command.number, command.remark, command.fields, command.body,
    )  # fmt: skip
    assert verify(asked, "secret")
    assert not verify(asked, "other")


def test_lengths_say_what_they_are_told_to() -> None:
    lying = frames.frame(b"{}", says=4_000_000, header_says=9)

    assert (4_000_000, 9) == (int.from_bytes(lying[:4]), int.from_bytes(lying[4:8]))


def test_answers_are_taken_apart_in_any_pieces() -> None:
    data = frames.answer(1, remark="FOUND", body=b"abc") + frames.answer(2, 19, {"a": "b"})
    reader = frames.Frames()
    received = [each for at in range(len(data)) for each in reader.feed(data[at : at + 1])]

    assert [(1, 0, "FOUND", b"abc"), (2, 19, "", b"")] == [(r.number, r.code, r.remark, r.body) for r in received]
    assert {"a": "b"} == received[1].fields
    assert all(each.is_answer for each in received)
