"""Streams: chance from one seed, the same everywhere, each stream undisturbed by the others."""

from __future__ import annotations

from framework.testing.sim.streams import Stream, Streams


def test_a_stream_is_decided_by_its_name() -> None:
    first, again, other = Stream("1/network"), Stream("1/network"), Stream("1/faults")
    drawn = [first.random() for _ in range(5)]

    assert drawn == [again.random() for _ in range(5)]
    assert drawn != [other.random() for _ in range(5)]


def test_the_draws_are_the_same_on_every_python() -> None:
    """Written down once; a version whose generator differs would replay no seed of another."""
    stream = Stream("golden")
    things = list(range(6))
    stream.shuffle(things)

    assert [3, 5, 0, 1, 2, 4] == things
    assert "fa4342e5" == stream.token(4).hex()


def test_draws_stay_within_their_bounds() -> None:
    stream = Stream("bounds")
    assert {0, 1, 2} == {stream.below(3) for _ in range(200)}
    assert all(1.5 <= stream.between(1.5, 2.5) < 2.5 for _ in range(200))
    assert {"a", "b"} == {stream.pick("ab") for _ in range(100)}
    assert not any(stream.happens(0.0) for _ in range(100))
    assert all(stream.happens(1.0) for _ in range(100))
    sample = stream.sample("abcdef", 3)
    assert 3 == len(set(sample))


def test_one_draw_more_in_one_stream_leaves_the_others_alone() -> None:
    quiet, busy = Streams(7), Streams(7)
    busy.network.random()

    assert quiet.schedule.random() == busy.schedule.random()
    assert quiet.faults.random() == busy.faults.random()
    assert quiet.named("process/a").random() == busy.named("process/a").random()
