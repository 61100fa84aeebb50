"""What a member holds of popped messages: each leaves once, and is renewed in time."""

from __future__ import annotations

from framework.core.chunk import Chunk
from framework.core.held import Held
from framework.model.message import Message


def messages(count: int) -> list[Message]:
    return [Message("t", b"%d" % i, queue_offset=900 + i) for i in range(count)]


def test_what_has_ended_is_acknowledged_once() -> None:
    held, popped = Held[str](), messages(3)
    entries = [held.take(message, f"r{i}", 100) for i, message in enumerate(popped)]
    chunk = Chunk(popped, 0, 3, 10)
    chunk.finish(2)

    assert [entries[2]] == held.ended(chunk)
    assert [] == held.ended(chunk)
    chunk.finish(0)
    assert ["r0"] == [each.receipt for each in held.ended(chunk)]
    assert 1 == len(held)


def test_the_same_message_again_is_another_one() -> None:
    """Its first time was over while the handler ran: the old receipt must not acknowledge the new one."""
    held, (old,), (new,) = Held[str](), messages(1), messages(1)
    first, second = held.take(old, "old", 100), held.take(new, "new", 200)
    chunk = Chunk([old], 0, 1, 10)
    chunk.finish(0)

    assert [first] == held.ended(chunk)
    assert second is held.find(new)


def test_half_of_the_time_is_kept_in_reserve_and_the_shortest_comes_first() -> None:
    held, popped = Held[str](), messages(3)
    for message, until_ms in zip(popped, (1000, 600, 550), strict=True):
        held.take(message, str(until_ms), until_ms)

    assert ["550", "600"] == [each.receipt for each in held.to_renew(101 + 100, 1000)]
    assert [] == held.to_renew(40, 1000)


def test_a_stray_is_given_back_and_not_renewed() -> None:
    held, popped = Held[str](), messages(2)
    entries = [held.take(message, "r", 100) for message in popped]
    held.set_astray([popped[0], Message("t", b"never popped")])

    assert [entries[0]] == held.strays()
    assert [entries[1]] == held.to_renew(90, 100)
    assert held.drop(entries[0])
    assert not held.drop(entries[0])
    assert [entries[1]] == held.take_all()
    assert 0 == len(held)


def test_popped_messages_count_by_their_place_in_the_chunk() -> None:
    """Their own offsets are those of several queues."""
    chunk = Chunk(messages(4), 10, 14, 10)
    chunk.finish(0)

    assert 11 == chunk.low_offset
