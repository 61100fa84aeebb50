"""QueueFlow: the life of one owned queue, and what each answer of a pull does to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.core import limits, queue_flow
from framework.core.budget import Budget
from framework.core.queue_flow import POSITION, TRANSITIONS, Pull, QueueFlow, QueueState, Wait
from framework.core.window import FlowLimits
from framework.model.pulled import BUSY, Failed, Found, NothingNew, OffsetIllegal, PullResult
from tests.core.making import PLENTY, QUEUE, THE_RUN, finish, messages_at

POSITIONING, FLOWING, HELD = QueueState.POSITIONING, QueueState.FLOWING, QueueState.HELD
CLAIMED, RETIRING, RELEASED = QueueState.CLAIMED, QueueState.RETIRING, QueueState.RELEASED
EVENTS = sorted({event for _, event in TRANSITIONS})


def new_flow(budget: Budget | None = None, bounds: FlowLimits | None = None) -> QueueFlow:
    return QueueFlow(QUEUE, budget or Budget(PLENTY), bounds or FlowLimits(), jitter=0.0)


def flow_at(offset: int, budget: Budget | None = None, bounds: FlowLimits | None = None) -> QueueFlow:
    flow = new_flow(budget, bounds)
    flow.positioned(offset)
    return flow


def found(*offsets: int, next_offset: int | None = None, size: int = 100, max_offset: int = 1_000) -> Found:
    following = offsets[-1] + 1 if next_offset is None else next_offset
    return Found(messages_at(offsets), size, following, 0, max_offset)


def plain(flow: QueueFlow, now_ms: int) -> object:
    """The next step; of a pull its offset, and what is committable when it is made."""
    step = flow.next_step(now_ms)
    return ("pull", step.offset, flow.window.committable) if isinstance(step, Pull) else step


def test_a_paused_queue_finds_its_place_and_pulls_nothing_until_it_goes_on() -> None:
    flow = new_flow()
    flow.is_paused = True
    assert flow.next_step(0) is POSITION
    flow.positioned(100)

    assert Wait("paused") == flow.next_step(0)
    assert (HELD, "paused") == (flow.state, flow.held_because)
    flow.is_paused = False
    assert ("pull", 100, 100) == plain(flow, 0)
    assert flow.held_because is None


def test_a_pause_outlives_a_lost_lease_and_the_end_of_another_hold() -> None:
    flow = flow_at(100)
    flow.is_paused = True
    flow.hold_reason = "no codec"
    flow.hold_reason = None
    assert Wait("paused") == flow.next_step(0)
    flow.lease_lost()
    flow.lease_granted()
    flow.positioned(100)

    assert Wait("paused") == flow.next_step(0)


# The table


def flow_in(state: QueueState) -> QueueFlow:
    if state is CLAIMED:
        return QueueFlow(QUEUE, Budget(PLENTY), FlowLimits(), needs_lease=True)
    flow = new_flow()
    if state is not POSITIONING:
        flow.positioned(100)
    if state is HELD:
        flow.hold_reason = "a test"
        flow.next_step(0)
    if state in {RETIRING, RELEASED}:
        flow.revoke()
    if state is RELEASED:
        flow.released()
    assert state is flow.state
    return flow


def throttle(flow: QueueFlow) -> None:
    flow.hold_reason = "a test"
    flow.next_step(0)


def make_room(flow: QueueFlow) -> None:
    flow.hold_reason = None
    flow.next_step(0)


ACTS: dict[str, Callable[[QueueFlow], object]] = {
    "lease_granted": lambda flow: flow.lease_granted(),
    "lease_lost": lambda flow: flow.lease_lost(),
    "position_known": lambda flow: flow.positioned(100),
    "position_refused": lambda flow: flow.position_refused("no answer", 0),
    "throttled": throttle,
    "room": make_room,
    "offset_illegal": lambda flow: flow.pulled(OffsetIllegal(50, 0, 500), 0),
    "offset_doubted": lambda flow: flow.pulled(OffsetIllegal(50, 0, 50), 0),
    "reset": lambda flow: flow.reset(7),
    "revoked": lambda flow: flow.revoke(),
    "released": lambda flow: flow.released(),
}
# Asked, not told: in these states the flow does not take the question up, so no transition is tried.
NOT_ASKED = (
    {(state, event) for state in (CLAIMED, POSITIONING, RETIRING, RELEASED) for event in ("throttled", "room")}
    | {(FLOWING, "room")}
    | set(itertools.product((RETIRING, RELEASED), ("offset_illegal", "offset_doubted")))
)
# Without a position no offset is far away: what comes then is plainly illegal.
NEVER_FAR = {(CLAIMED, "offset_doubted"), (POSITIONING, "offset_doubted")}


def test_every_event_of_the_table_has_an_act_here() -> None:
    assert sorted(ACTS) == EVENTS


@pytest.mark.parametrize(("state", "event"), sorted(TRANSITIONS, key=str))
def test_a_pair_of_the_table_leads_where_it_says(state: QueueState, event: str) -> None:
    flow = flow_in(state)

    ACTS[event](flow)
    expected = TRANSITIONS[state, event]
    if event == "offset_illegal":
        expected = FLOWING  # the broker's offset is taken at once, so the position is known in the same turn
    assert expected is flow.state


@pytest.mark.parametrize(
    ("state", "event"),
    sorted(set(itertools.product(QueueState, EVENTS)) - set(TRANSITIONS) - NOT_ASKED - NEVER_FAR, key=str),
)
def test_a_pair_that_is_absent_raises_with_both_names(state: QueueState, event: str) -> None:
    with pytest.raises(AssertionError, match=rf"orders@broker-a:3: {event} cannot happen while {state.value}"):
        ACTS[event](flow_in(state))


@pytest.mark.parametrize(("state", "event"), sorted(NOT_ASKED, key=str))
def test_what_is_only_asked_about_leaves_the_state_alone(state: QueueState, event: str) -> None:
    flow = flow_in(state)

    ACTS[event](flow)
    assert state is flow.state


def test_the_picture_in_the_docstring_names_every_event() -> None:
    picture = queue_flow.__doc__ or ""

    assert [] == [event for event in EVENTS if event not in picture]


# Position


def test_a_new_queue_asks_where_to_begin() -> None:
    flow = new_flow()

    assert POSITION is flow.next_step(0)
    assert (True, -1) == (flow.window.is_closed, flow.window.committable)


def test_a_known_position_is_pulled_from() -> None:
    assert ("pull", 700, 700) == plain(flow_at(700), 0)


@pytest.mark.parametrize(("expected", "end"), [(True, 700), (True, 650), (False, 701), (False, -1)])
def test_who_begins_at_the_end_has_nothing_to_catch_up_on(end: int, *, expected: bool) -> None:
    """A quiet queue answers its first long poll late, and its application would seem unready until then."""
    flow = new_flow()

    flow.positioned(700, end)
    assert (expected, end) == (flow.caught_up, flow.max_offset)


def test_a_refused_position_is_named_and_asked_again_later() -> None:
    """Never pulled with, never committed: whoever takes a time-out for a new group loses what lies between."""
    flow = new_flow()

    flow.position_refused("no answer", 10_000)
    assert ("no answer", True) == (flow.failure, flow.window.is_closed)
    assert Wait("failure", 10_500) == flow.next_step(10_499)
    assert POSITION is flow.next_step(10_500)

    flow.positioned(5)
    assert flow.failure is None
    assert ("pull", 5, 5) == plain(flow, 10_500)


def test_a_position_below_zero_is_a_bug_of_whoever_found_it() -> None:
    with pytest.raises(AssertionError, match="position -1"):
        new_flow().positioned(-1)


# Answers


def test_found_messages_become_a_chunk_that_carries_the_run() -> None:
    flow = new_flow()
    flow.run = THE_RUN
    flow.positioned(10)

    chunk = flow.pulled(found(10, 12, next_offset=15), 0)
    assert chunk is not None
    assert (10, 15, 2, THE_RUN) == (chunk.begin, chunk.end, chunk.count, chunk.run)
    assert 1_000 == flow.max_offset
    assert ("pull", 15, 10) == plain(flow, 0), "what is committable rides along"


def test_the_committable_offset_rides_on_the_next_pull() -> None:
    flow = flow_at(10)
    chunk = flow.pulled(found(10, 11, 12), 0)
    assert chunk is not None

    finish(chunk, 0, 1, 2)
    flow.window.settle()
    assert ("pull", 13, 13) == plain(flow, 0)


def test_an_answer_whose_messages_were_all_filtered_commits_its_range() -> None:
    """Else a queue full of other tags would be read again from its beginning after each restart."""
    flow = flow_at(10)

    assert flow.pulled(Found([], 0, 42, 0, 1_000), 0) is None
    assert ("pull", 42, 42) == plain(flow, 0)


def test_nothing_new_commits_its_range_too() -> None:
    flow = flow_at(10)

    assert flow.pulled(NothingNew(42, 0, 42), 0) is None
    assert ("pull", 42, 42) == plain(flow, 0)
    assert flow.caught_up


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (True, NothingNew(10, 0, 10)),
        (False, NothingNew(10, 0, 11)),
        (True, found(10, 11, max_offset=12)),
        (False, found(10, 11, max_offset=13)),
        (False, Failed("gone")),
        (False, OffsetIllegal(5, 5, 5)),
    ],
)
def test_caught_up_is_what_the_last_answer_said(answer: PullResult, *, expected: bool) -> None:
    flow = flow_at(10)
    flow.pulled(NothingNew(10, 0, 10), 0)

    flow.pulled(answer, 0)
    assert expected is flow.caught_up


def test_what_was_admitted_before_is_not_handed_over_again() -> None:
    """An answer that comes twice, as after a lost connection, is refused by its range."""
    flow = flow_at(10)
    assert flow.pulled(found(10, 11, 12), 0) is not None

    assert flow.pulled(found(10, 11, 12), 0) is None
    assert flow.failure is not None
    assert "pulled from 13 and got messages 10 to 12" in flow.failure
    assert 3 == flow.window.messages


def lies_told_from(begin: int) -> list[tuple[str, PullResult]]:
    far = 1_000 + limits.OFFSET_JUMP_MAX + 1
    return [
        ("got messages 9 to 9", found(begin - 1, next_offset=begin + 1)),
        ("got messages 10 to 12, next offset 12", found(begin, begin + 2, next_offset=begin + 2)),
        ("got messages 12 to 11, next offset 20", found(begin + 2, begin + 1, next_offset=begin + 10)),
        ("was sent on to 9 (end 1000)", NothingNew(begin - 1, 0, 1_000)),
        ("was sent on to 9 (end 1000)", Found([], 0, begin - 1, 0, 1_000)),
        (f"was sent on to {far} (end 1000)", NothingNew(far, 0, 1_000)),
        (f"was sent on to {far} (end 1000)", found(begin, next_offset=far)),
        ("is illegal and the broker names -1", OffsetIllegal(-1, 0, 0)),
    ]


@pytest.mark.parametrize(("complaint", "answer"), lies_told_from(10), ids=[lie for lie, _ in lies_told_from(10)])
def test_an_answer_that_cannot_be_moves_nothing_and_is_named(complaint: str, answer: PullResult) -> None:
    flow = flow_at(10)

    assert flow.pulled(answer, 5_000) is None
    assert complaint in (flow.failure or "")
    assert (10, 10) == (flow.next_offset, flow.window.end)
    assert Wait("failure", 5_500) == flow.next_step(5_000)


@pytest.mark.parametrize(
    "answer",
    [
        NothingNew(1_000 + limits.OFFSET_JUMP_MAX, 0, 1_000),
        found(10, next_offset=1_000 + limits.OFFSET_JUMP_MAX),
        NothingNew(10, 0, 3),  # the end was read before messages came: we are beyond it, and so what
        NothingNew(10 + limits.OFFSET_JUMP_MAX, 0, -1),
        found(10, max_offset=4),
    ],
)
def test_an_unusual_answer_that_can_be_honest_is_believed(answer: PullResult) -> None:
    flow = flow_at(10)

    flow.pulled(answer, 0)
    assert flow.failure is None
    assert max(10, getattr(answer, "next_offset", 10)) == flow.next_offset


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.lists(st.integers(1, 3), max_size=5), st.integers(0, 4)), max_size=30))
def test_whatever_is_answered_no_offset_is_skipped_or_handed_over_twice(
    answers: list[tuple[int, list[int], int]],
) -> None:
    """Answers begin up to 8 offsets too early: repeats after lost answers, and old ones that come late."""
    flow = flow_at(100)
    handed: list[int] = []
    for early, steps, filtered in answers:
        begin = max(0, flow.next_offset - early)
        offsets = list(itertools.accumulate(steps, initial=begin - 1))[1:]
        before = flow.next_offset
        chunk = flow.pulled(Found(messages_at(offsets), 10, begin + sum(steps) + filtered, 0, 1_000), 0)
        if chunk is not None:
            handed += [message.queue_offset for message in chunk.messages]
            assert [offset for offset in offsets if offset >= before] == [
                message.queue_offset for message in chunk.messages
            ]
        assert before <= flow.next_offset
        assert flow.window.end == flow.next_offset
    assert sorted(set(handed)) == handed


# Standing back


def test_failures_stand_back_longer_and_longer_and_a_success_ends_it() -> None:
    flow = flow_at(10)
    waits = []
    for _ in range(8):
        flow.pulled(Failed("connection lost"), 0)
        step = flow.next_step(0)
        assert isinstance(step, Wait)
        waits.append(step.until_ms)
    assert [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000] == waits
    assert ["connection lost"] == [flow.failure]

    flow.pulled(NothingNew(10, 0, 10), 15_000)
    assert flow.failure is None
    assert isinstance(flow.next_step(15_000), Pull)
    flow.pulled(Failed("again"), 20_000)
    assert Wait("failure", 20_500) == flow.next_step(20_000)


def test_a_busy_broker_is_asked_again_soon_and_then_each_second() -> None:
    flow = flow_at(10)
    waits = []
    for _ in range(8):
        flow.pulled(Failed("code 215, flow control", BUSY), 0)
        step = flow.next_step(0)
        assert isinstance(step, Wait)
        waits.append(step.until_ms)
    assert [10, 20, 40, 80, 160, 320, 500, 500] == waits

    flow.pulled(NothingNew(10, 0, 10), 1_000)
    flow.pulled(Failed("code 215, flow control", BUSY), 2_000)
    assert Wait("failure", 2_010) == flow.next_step(2_000)


def test_what_is_mended_need_not_wait() -> None:
    flow = flow_at(10)

    flow.pulled(Failed("no such subscription", 24), 0)
    flow.health.until_ms = 0
    assert ("pull", 10, 10) == plain(flow, 0)


def test_a_failed_pull_is_repeated_from_the_same_offset() -> None:
    flow = flow_at(10)

    flow.pulled(Failed("connection lost"), 0)
    assert ("pull", 10, 10) == plain(flow, 500)
