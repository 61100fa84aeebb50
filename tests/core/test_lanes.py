"""Lanes: whatever ends in whatever order, the order of each key is kept, nothing is lost, and offsets have no gap."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core.budget import Budget
from framework.core.line import Lanes, Line
from framework.core.window import Window
from framework.model.message import Message
from framework.model.queue import MessageQueue

QUEUE = MessageQueue("stock", "broker-a", 0)


def key_in_body(message: Message) -> str:
    return message.body.decode()


def lanes_of(*pulls: str, by_key: bool = True) -> tuple[Lanes, Window]:
    """Each letter is a message, and its key."""
    lanes, window = Lanes(key_in_body if by_key else None), Window(0, Budget(10**9))
    for pull in pulls:
        offer(lanes, window, pull)
    return lanes, window


def offer(lanes: Lanes, window: Window, pull: str) -> list[Line]:
    begin = window.end
    messages = [
        Message("stock", letter.encode(), queue=QUEUE, queue_offset=begin + step) for step, letter in enumerate(pull)
    ]
    chunk = window.admit(messages, begin, begin + len(messages), len(messages))
    assert chunk is not None
    return list(lanes.offer(chunk))


def handle_first(line: Line) -> int:
    portion = line.first
    assert portion is not None
    offset = line.message.queue_offset
    line.advance(portion, 1)
    return offset


def test_a_chunk_is_divided_by_key() -> None:
    lanes, _ = lanes_of("aba", "cb")

    offsets = {line.key: [part.messages[index].queue_offset for part, index in line.take(9)] for line in lanes}
    assert {"a": [0, 2], "b": [1, 4], "c": [3]} == offsets


def test_a_line_that_stays_holds_no_other_and_the_offset_waits_for_it() -> None:
    lanes, window = lanes_of("abab", "ab")
    a, b = lanes
    a.stay(0, 1_000, "ValueError: no")

    assert [1, 3, 5] == [handle_first(b) for _ in range(3)]
    assert (0, None) == (window.settle(), b.first)
    assert (0, 2) == (a.message.queue_offset, a.message.attempt)
    handle_first(a)
    assert 2 == window.settle()
    handle_first(a)
    handle_first(a)
    assert 6 == window.settle()


def test_without_keys_there_is_one_line_that_stays() -> None:
    lanes, _ = lanes_of("ab", by_key=False)
    (line,) = lanes
    assert [0, 1] == [handle_first(line), handle_first(line)]

    lanes.drop(line)
    assert [line] == list(lanes)


def test_a_line_is_there_while_it_has_messages() -> None:
    lanes, window = lanes_of("a")
    (line,) = lanes
    handle_first(line)
    lanes.drop(line)

    assert 0 == len(lanes)
    assert [line] != offer(lanes, window, "a")


def test_a_line_that_runs_keeps_its_place_when_all_is_forgotten() -> None:
    """At most one handler a key in a process, whatever happened to the lease."""
    lanes, window = lanes_of("ab")
    a, _ = lanes
    lanes.clear()
    assert a.first is None

    window.close()
    later = Window(0, Budget(10**9))
    assert a is offer(lanes, later, "a")[0]


pulls = st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(pulls, st.data())
def test_the_order_of_each_key_is_kept_through_any_ends_and_nothing_is_lost(
    brought: list[str], data: st.DataObject
) -> None:
    lanes, window = lanes_of()
    waiting, now_ms = list(brought), 0
    seen: dict[str, list[int]] = {}
    expected: dict[str, list[int]] = {}
    for offset, key in enumerate("".join(brought)):
        expected.setdefault(key, []).append(offset)
    tries = 0
    while waiting or any(line.first is not None for line in lanes):
        busy = [line for line in lanes if line.first is not None]
        act = data.draw(st.sampled_from(("pull", "end", "fail", "bury") if tries < 20 else ("pull", "end")))
        if (act == "pull" and waiting) or not busy:
            offer(lanes, window, waiting.pop(0))
            continue
        line = data.draw(st.sampled_from(busy))
        portion = line.first
        assert portion is not None
        if act == "fail":
            tries += 1
            line.stay(now_ms, 10, "no")
            continue
        seen.setdefault(line.key, []).append(line.message.queue_offset)
        if act == "bury":
            line.end_one(portion, portion.next)
        else:
            line.advance(portion, 1)
        first_open = min((line.message.queue_offset for line in lanes if line.first is not None), default=window.end)
        assert window.settle() == first_open, "the offset passes nothing that has not ended, and all that has"
        if line.first is None:
            lanes.drop(line)
    assert expected == seen
    assert 0 == len(lanes)
    assert window.is_empty
