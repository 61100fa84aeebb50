"""A connection: every split of the bytes gives the same commands, and every answer finds who asked."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import BrokerUnreachable, ConfigurationError, ConnectionLost, ProtocolError
from framework.wire import frame
from framework.wire.command import ANSWER_BIT, ONE_WAY_BIT, Excessive, RemotingCommand
from framework.wire.connection import NUMBER_MAX, Connection, Limits
from tests.wire.frames import decode_frame

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
COMMANDS = st.builds(
    RemotingCommand,
    st.integers(0, 400),
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.binary(max_size=40),
    number=st.integers(0, 9),
    flag=st.sampled_from([0, ONE_WAY_BIT]),
    remark=st.none() | TEXT,
)
FRAME = frame.encode(RemotingCommand(38, {"consumerGroup": "g"}, b"body", number=5))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.tuples(COMMANDS, st.booleans()), max_size=6), st.lists(st.integers(0, 5000), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_commands(
    frames: list[tuple[RemotingCommand, bool]], cuts: list[int]
) -> None:
    data = b"".join(frame.encode(command, binary=binary) for command, binary in frames)
    connection: Connection[str] = Connection()

    received = [found for piece in pieces(data, cuts) for found in connection.receive_data(piece)]

    assert [(None, command) for command, _ in frames] == received
    assert not connection.is_mid_frame


def test_byte_by_byte_is_no_different() -> None:
    connection: Connection[str] = Connection()

    received = [found for byte in FRAME * 2 for found in connection.receive_data(bytes([byte]))]

    assert [(None, decode_frame(FRAME[4:]))] * 2 == received


@pytest.mark.parametrize("binary", [False, True])
def test_an_answer_finds_who_asked(binary: bool) -> None:
    client: Connection[str] = Connection(binary=binary)
    broker: Connection[str] = Connection()
    sent = [client.request(RemotingCommand(14), token) for token in ("first", "second", "third")]

    asked = [command for _, command in broker.receive_data(b"".join(sent))]
    answers = b"".join(
        broker.answer(command, RemotingCommand(0, {"of": str(command.number)})) for command in reversed(asked)
    )
    received = client.receive_data(answers)

    assert [("third", "3"), ("second", "2"), ("first", "1")] == [
        (token, answer.fields["of"]) for token, answer in received
    ]
    assert all(answer.is_answer for _, answer in received)
    assert 0 == client.waiting


def test_a_one_way_is_never_answered() -> None:
    client: Connection[str] = Connection()
    broker: Connection[str] = Connection()

    ((token, command),) = broker.receive_data(client.one_way(RemotingCommand(15)))

    assert token is None
    assert command.is_one_way
    assert b"" == broker.answer(command, RemotingCommand(0))
    assert 0 == client.waiting


def test_answers_nobody_waits_for_are_dropped_and_counted() -> None:
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(14), "asked")
    answer = frame.encode(RemotingCommand(0, number=1, flag=ANSWER_BIT))
    stranger = frame.encode(RemotingCommand(0, number=99, flag=ANSWER_BIT | ONE_WAY_BIT))

    received = connection.receive_data(answer + answer + stranger)

    assert ["asked"] == [token for token, _ in received]
    assert (2, 0) == (connection.strays, connection.waiting)


def test_a_forgotten_request_makes_its_late_answer_a_stray() -> None:
    connection: Connection[str] = Connection()
    command = RemotingCommand(14)
    connection.request(command, "asked")

    assert "asked" == connection.forget(command.number)
    assert connection.forget(command.number) is None
    assert [] == connection.receive_data(frame.encode(RemotingCommand(0, number=command.number, flag=ANSWER_BIT)))
    assert 1 == connection.strays


def test_numbers_wrap_before_the_sign_and_skip_those_in_use() -> None:
    connection: Connection[str] = Connection()
    first, last, wrapped = RemotingCommand(14), RemotingCommand(14), RemotingCommand(14)
    connection.request(first, "a")
    connection._number = NUMBER_MAX - 1

    connection.request(last, "b")
    connection.request(wrapped, "c")

    assert (1, NUMBER_MAX, 2) == (first.number, last.number, wrapped.number)


def test_requests_under_way_are_bounded() -> None:
    connection: Connection[int] = Connection(Limits(in_flight_max=2))
    connection.request(RemotingCommand(14), 1)
    connection.request(RemotingCommand(14), 2)

    with pytest.raises(BrokerUnreachable, match="2 requests wait for answers"):
        connection.request(RemotingCommand(14), 3)

    assert [1, 2] == connection.close()


def test_thousands_of_queues_have_a_long_poll_and_a_commit_each_under_way() -> None:
    """At a stop, each queue's last offset is confirmed beside its long poll."""
    connection: Connection[int] = Connection()
    for number in range(2 * 5_000):
        connection.request(RemotingCommand(11), number)

    assert list(range(2 * 5_000)) == connection.close()


def test_a_frame_too_large_for_the_peer_is_not_sent() -> None:
    connection: Connection[int] = Connection(Limits(sent_bytes_max=1000))

    with pytest.raises(ConfigurationError, match=r"SEND_MESSAGE \(10\): frame of \d+ bytes exceeds the limit of 1000"):
        connection.request(RemotingCommand(10, body=bytes(1000)), 1)

    assert 0 == connection.waiting


def test_closing_names_everyone_who_waits_and_accepts_no_more() -> None:
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(14), "a")
    connection.request(RemotingCommand(14), "b")
    connection.receive_data(FRAME[:9])

    assert ["a", "b"] == connection.close()
    assert [] == connection.close()
    with pytest.raises(ProtocolError, match="after the end of the connection: closed by us"):
        connection.receive_data(FRAME)
    with pytest.raises(ConnectionLost, match="closed by us"):
        connection.request(RemotingCommand(14), "c")


HOSTILE = [
    (b"\xff\xff\xff\xff", "frame of 4294967295 bytes exceeds the limit of 16777216", 4),
    (b"\x7f\xff\xff\xff", "frame of 2147483647 bytes exceeds the limit of 16777216", 4),
    (pack(">I", 16 * 1024 * 1024 + 1), "frame of 16777217 bytes exceeds", 4),
    (bytes.fromhex("15030300020228"), "peer speaks TLS and this end does not", 4),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "peer speaks HTTP", 4),
    (b"SSH-2.0-x\r\n", "peer speaks SSH", 4),
    (b"*1\r\n$4\r\nPING\r\n", "peer speaks Redis", 4),
    (pack(">I", 0), "frame of 0 bytes is too short", 4),
    (pack(">I", 3), "frame of 3 bytes is too short", 4),
    (pack(">II", 40, 0), "bad header length 0 in a frame of 40 bytes", 8),
    (pack(">II", 40, 900), "bad header length 900 in a frame of 40 bytes", 8),
    (pack(">II", 4, 0), "bad header length 0 in a frame of 4 bytes", 8),
    (pack(">II", 16 * 1024 * 1024, 65_537), "header of 65537 bytes exceeds the limit of 65536", 8),
    (pack(">II", 40, 7 << 24 | 2), "unknown header encoding 7", 8),
    (pack(">II", 6, 2) + b"[]", "not an object", 10),
]


@pytest.mark.parametrize(("data", "reason", "_due"), HOSTILE)
def test_hostile_bytes_end_the_connection_with_their_reason(data: bytes, reason: str, _due: int) -> None:
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(14), "waits")

    with pytest.raises(ProtocolError, match=reason):
        connection.receive_data(FRAME + data)
    with pytest.raises(ProtocolError, match="after the end"):
        connection.receive_data(FRAME)

    assert ["waits"] == connection.close()


@pytest.mark.parametrize(("data", "reason", "due"), HOSTILE)
def test_hostile_bytes_are_refused_as_soon_as_they_can_be(data: bytes, reason: str, due: int) -> None:
    connection: Connection[str] = Connection()

    for at in range(due - 1):
        assert [] == connection.receive_data(data[at : at + 1])
    with pytest.raises(ProtocolError, match=reason):
        connection.receive_data(data[due - 1 : due])


TIGHT = Limits(frame_bytes_max=300, header_bytes_max=200, times_read_past=4)
LARGE = {
    "frame of 1200 bytes exceeds the limit of 300": 1200,
    "frame of 301 bytes exceeds the limit of 300": 301,
}


def large(length: int, *, binary: bool = False, flag: int = 0) -> bytes:
    """A request whose frame has that length."""
    bare = frame.encode(RemotingCommand(10, {"topic": "t"}, number=7, flag=flag), binary=binary)
    return frame.encode(
        RemotingCommand(10, {"topic": "t"}, bytes(length + 4 - len(bare)), number=7, flag=flag), binary=binary
    )


def in_words(received: list[tuple[str | None, RemotingCommand]]) -> list[tuple[int, str]]:
    return [(command.number, command.reason if isinstance(command, Excessive) else "") for _, command in received]


@given(st.sampled_from(sorted(LARGE)), st.booleans(), st.lists(st.integers(0, 5000), max_size=12))
def test_a_request_beyond_a_limit_is_read_past_in_whatever_pieces(reason: str, binary: bool, cuts: list[int]) -> None:
    connection: Connection[str] = Connection(TIGHT)
    data = FRAME + large(LARGE[reason], binary=binary) + FRAME

    received, most = [], 0
    for piece in pieces(data, cuts):
        received += connection.receive_data(piece)
        most = max(most, connection.buffered)
    assert [(5, ""), (7, reason), (5, "")] == in_words(received)
    assert b"" == received[1][1].body
    assert most <= 200 + frame.PREFIX_BYTES, "what is read past is not kept"
    assert not connection.is_mid_frame
    assert 0 == connection.lacking


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_a_header_beyond_its_limit_is_read_for_its_number_and_answered(size: int) -> None:
    connection: Connection[str] = Connection(TIGHT)
    long = frame.encode(RemotingCommand(10, {"topic": "t" * 150}, number=7))
    header = int.from_bytes(long[5:8])
    assert 200 < header < 300

    data = long + FRAME
    received = [each for at in range(0, len(data), size) for each in connection.receive_data(data[at : at + size])]
    assert [(7, f"header of {header} bytes exceeds the limit of 200"), (5, "")] == in_words(received)


def test_while_a_frame_is_read_past_it_has_begun_and_not_ended() -> None:
    connection: Connection[str] = Connection(TIGHT)
    connection.receive_data(large(1200)[:700])

    assert (True, 0, 504) == (connection.is_mid_frame, connection.buffered, connection.lacking)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (large(1201), "frame of 1201 bytes exceeds the limit of 300"),
        (pack(">II", 1000, 801), "header of 801 bytes exceeds the limit of 200"),
        (large(301, flag=ANSWER_BIT), "frame of 301 bytes exceeds the limit of 300"),
    ],
)
def test_far_beyond_the_limit_and_for_answers_the_connection_ends(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        Connection[str](TIGHT).receive_data(data)


def test_a_bad_frame_takes_no_token_of_the_good_one_before_it() -> None:
    """The future of the answered request would otherwise be known to nobody, and wait for ever."""
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(14), "asked")

    with pytest.raises(ProtocolError):
        connection.receive_data(frame.encode(RemotingCommand(0, number=1, flag=ANSWER_BIT)) + b"\xff\xff\xff\xff")

    assert ["asked"] == connection.close()


def test_a_claimed_length_allocates_nothing() -> None:
    connection: Connection[str] = Connection()
    tracemalloc.start()
    try:
        connection.receive_data(pack(">II", 16 * 1024 * 1024, 100))
        with pytest.raises(ProtocolError):
            Connection[str]().receive_data(b"\x7f\xff\xff\xff")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 100_000


@pytest.mark.parametrize("step", [1024, 65_536])
def test_a_large_frame_in_small_pieces_costs_twice_its_size_at_most(step: int) -> None:
    """One buffer that grows, one copy of the body at the end; no piece is looked at twice."""
    body = bytes(8 * 1024 * 1024)
    data = frame.encode(RemotingCommand(0, number=1, flag=ANSWER_BIT, body=body))
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(11), "pull")
    received = []
    tracemalloc.start()
    try:
        for at in range(0, len(data), step):
            received += connection.receive_data(data[at : at + step])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [("pull", body)] == [(token, command.body) for token, command in received]
    assert peak < 2.3 * len(data)


def test_its_repr_is_an_instrument_panel() -> None:
    connection: Connection[str] = Connection()
    connection.request(RemotingCommand(14), "a")
    connection.receive_data(FRAME[:9])

    assert "<Connection open waiting=1 strays=0 buffered=9B>" == repr(connection)
    connection.close()
    assert "<Connection ended: closed by us waiting=0 strays=0 buffered=0B>" == repr(connection)
