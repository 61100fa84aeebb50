from __future__ import annotations

import pytest

from framework.core.offset_file import SavedOffsets, decode, encode, newest
from framework.core.retry import Settle, Stay, decide_broadcasting
from framework.errors import StoreError
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater, Suspend
from framework.model.queue import MessageQueue

OFFSETS = {MessageQueue("orders", "broker-a", 0): 17, MessageQueue("%weird|topic", "b", 3): 0}
SAVED = SavedOffsets("cache", 4, OFFSETS)


def test_what_is_written_is_read() -> None:
    assert SAVED == decode(encode(SAVED), "cache")
    assert SavedOffsets("cache") == decode(encode(SavedOffsets("cache")), "cache")


def test_any_changed_byte_and_any_cut_is_noticed() -> None:
    content = encode(SAVED)
    for at in range(len(content)):
        with pytest.raises(StoreError):
            decode(content[:at], "cache")
        with pytest.raises(StoreError):
            decode(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], "cache")
    with pytest.raises(StoreError):
        decode(content + b" ", "cache")


def test_another_group_s_file_is_refused() -> None:
    with pytest.raises(StoreError, match="of group 'cache'"):
        decode(encode(SAVED), "other")


@pytest.mark.parametrize("offset", [-1, -100])
def test_an_offset_below_zero_is_refused(offset: int) -> None:
    with pytest.raises(StoreError, match="below 0"):
        decode(encode(SavedOffsets("cache", 1, {MessageQueue("t", "b", 0): offset})), "cache")


def test_the_newer_of_two_counts_and_the_older_where_it_is_damaged() -> None:
    older, newer = encode(SavedOffsets("cache", 3)), encode(SAVED)
    assert (SAVED, {}) == newest({"0": newer, "1": older}, "cache")
    assert (SAVED, {}) == newest({"0": older, "1": newer}, "cache")
    found, damaged = newest({"0": older, "1": newer[:-1]}, "cache")
    assert SavedOffsets("cache", 3) == found
    assert {"1": "its checksum does not fit its content"} == damaged
    assert (None, {}) == newest({"0": None, "1": None}, "cache")


def test_only_damaged_ones_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(StoreError, match=r"'cache' cannot be read \(f.0: its checksum .*restore .* or remove"):
        newest({"f.0": b"nonsense", "f.1": None}, "cache")


@pytest.mark.parametrize(
    ("outcome", "attempt", "decision"),
    [
        (Ack(), 1, Settle("handled")),
        (Drop("a plugin"), 1, Settle("dropped")),
        (RetryLater("1s", reason="x"), 1, Stay(1_000, "x")),
        (RetryLater("1s", reason="x"), 3, Settle("dropped")),
        (Suspend("20ms"), 2, Stay(20, "suspended")),
        (Suspend("20ms"), 3, Settle("dropped")),
        (DeadLetter("x"), 1, Settle("dropped")),
    ],
)
def test_what_fails_alone_is_tried_in_place_and_dropped(outcome: Outcome, attempt: int, decision: object) -> None:
    assert decision == decide_broadcasting(outcome, attempt, max_retries=2)
