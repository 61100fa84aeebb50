"""Offsets: their shape in a checkpoint, limits by share, and pieces."""

from __future__ import annotations

import json

from framework_spark.offsets import Range, flat, limited, nested, split
from hypothesis import given
from hypothesis import strategies as st

from framework.model.queue import MessageQueue

A, B, C = (MessageQueue("orders", "broker-a", number) for number in (0, 2, 10))


def test_a_checkpoint_has_one_order_and_loses_nothing() -> None:
    """Spark compares offsets as texts: another order would look like news."""
    ends = {C: 3, A: 1, B: 2}

    assert ["0", "2", "10"] == list(nested(ends)["orders"]["broker-a"])
    assert ends == flat(nested(ends))
    assert json.dumps(nested(ends)) == json.dumps(nested(dict(sorted(ends.items()))))


def test_a_limit_is_shared_by_what_waits() -> None:
    assert {A: 75, B: 125} == limited({A: 0, B: 100}, {A: 300, B: 200}, 100)
    assert {A: 300, B: 200} == limited({A: 0, B: 100}, {A: 300, B: 200}, 400)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8), st.integers(1, 500))
def test_a_limit_moves_every_queue_that_waits_and_none_too_far(sizes: list[tuple[int, int]], limit: int) -> None:
    queues = [MessageQueue("t", "b", number) for number in range(len(sizes))]
    begins = {queue: begin for queue, (begin, _) in zip(queues, sizes, strict=True)}
    ends = {queue: begin + size for queue, (begin, size) in zip(queues, sizes, strict=True)}

    found = limited(begins, ends, limit)

    assert all(begins[queue] <= found[queue] <= ends[queue] for queue in queues)
    assert all(found[queue] > begins[queue] for queue in queues if ends[queue] > begins[queue])
    assert sum(found[queue] - begins[queue] for queue in queues) <= limit + len(queues)


def test_a_queue_is_one_piece_unless_somebody_asks_for_more() -> None:
    ranges = [Range(A, 0, 100), Range(B, 5, 5), Range(C, 10, 20)]

    assert [Range(A, 0, 100), Range(C, 10, 20)] == split(ranges, pieces_min=None, records_max=None)
    assert [33, 33, 34] == [piece.size for piece in split(ranges[:1], pieces_min=None, records_max=40)]
    assert 2 == len(split(ranges, pieces_min=2, records_max=None))


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 400),
)
def test_pieces_cover_everything_once(sizes: list[int], pieces_min: int | None, records_max: int | None) -> None:
    ranges = [Range(MessageQueue("t", "b", number), 7, 7 + size) for number, size in enumerate(sizes)]

    pieces = split(ranges, pieces_min=pieces_min, records_max=records_max)

    wanted = {(each.queue, offset) for each in ranges for offset in range(each.begin, each.end)}
    covered = [(piece.queue, offset) for piece in pieces for offset in range(piece.begin, piece.end)]
    assert len(wanted) == len(covered)
    assert wanted == set(covered)
    if records_max is not None:
        assert all(piece.size <= records_max for piece in pieces)
    if pieces_min is not None:
        assert len(pieces) >= min(pieces_min, sum(sizes))
