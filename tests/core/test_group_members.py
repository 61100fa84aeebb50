"""Who counts while member lists come and go, and for how long somebody stays out who came and went too often."""

from __future__ import annotations

import pytest

from framework.core import limits
from framework.core.group_members import GroupMembers, grace_of, hold_ms, key_of, member_named
from tests.simulation.left_out import left_out

A, B, C = (member_named(name, 10_000) for name in "abc")
PLAIN = "10.0.0.9@17#c0ffee"


@pytest.mark.parametrize(
    ("member", "grace_ms", "key"),
    [
        pytest.param("billing-3@stays-10s", 10_000, "billing-3@stays-10s", id="named"),
        pytest.param("billing-3@stays-1m30s", 90_000, "billing-3@stays-1m30s", id="minutes"),
        pytest.param("billing-3@stays-9h", limits.GRACE_MAX_MS, "billing-3@stays-9h", id="no-longer-than-allowed"),
        pytest.param("billing-3@stays-0s", 0, "billing-3@stays-0s", id="named-without-a-seat"),
        pytest.param("billing-3@stays-9x", 0, "billing-3@stays-9x", id="no-duration"),
        pytest.param(PLAIN, 0, "10.0.0.9", id="of-ours-without-a-name"),
        pytest.param("10.0.0.9@stays", 0, "10.0.0.9", id="java-instance-name"),
    ],
)
def test_a_name_says_how_long_its_seat_is_kept(member: str, grace_ms: int, key: str) -> None:
    assert (grace_ms, key) == (grace_of(member), key_of(member))


def test_a_seat_is_kept_for_so_long_and_given_up_then() -> None:
    seen = GroupMembers()
    assert [A, B] == seen.counted([A, B], 0)
    assert [A, B] == seen.counted([B], 5_000)
    assert (15_000, {A: 10_000}) == (seen.next_ms, seen.absent(5_000))
    assert [A, B] == seen.counted([B], 14_999)
    assert [B] == seen.counted([B], 15_000)
    assert seen.next_ms is None


def test_whoever_comes_back_in_time_has_never_been_away() -> None:
    seen = GroupMembers()
    for second in range(0, 600, 4):
        assert [A, B] == seen.counted([B] if second % 8 else [A, B], second * 1000)
    assert {} == seen.flaps(600_000)


def test_a_member_without_a_name_goes_at_once() -> None:
    seen = GroupMembers()
    seen.counted([A, PLAIN], 0)
    assert [A] == seen.counted([A], 1)


def test_seats_that_another_member_told_of_count() -> None:
    seen = GroupMembers({C: 4_000})
    assert [A, C] == seen.counted([A], 1_000)
    assert [A] == seen.counted([A], 4_000)


@pytest.mark.parametrize("safeguard", [None, "who leaves while we join keeps its seat"])
def test_who_was_listed_before_our_first_look_keeps_its_seat(safeguard: str | None) -> None:
    with left_out(safeguard):
        seen = GroupMembers({}, [B, C])
        counted = seen.counted([A, B], 1_000), seen.counted([A, B], 10_999), seen.counted([A, B], 11_000)

    assert (([A, B, C], [A, B, C], [A, B]) == counted) is (safeguard is None)


def test_those_are_present_whose_seat_would_be_kept() -> None:
    seen = GroupMembers({C: 4_000}, [B])
    assert [B] == list(seen.present), "as somebody said, before the first look"
    seen.counted([A, PLAIN], 1_000)
    assert [A] == list(seen.present)
    seen.counted([A, B, C, PLAIN], 2_000)
    assert [A, B, C] == list(seen.present)


def test_another_topic_begins_with_the_seats_that_are_kept() -> None:
    seen = GroupMembers()
    seen.counted([A, B, C], 0)
    seen.counted([A, B], 1_000)

    other = seen.of_another_topic()
    assert ([A, C], [A]) == (other.counted([A], 2_000), other.counted([A], 11_000))


def test_without_the_safeguard_a_restart_moves_queues() -> None:
    with left_out("a seat is kept through a restart"):
        seen = GroupMembers()
        seen.counted([A, B], 0)
        assert [B] == seen.counted([B], 1)


def test_short_lives_are_told_and_long_ones_are_not() -> None:
    seen = GroupMembers()
    seen.counted([A, PLAIN], 0)
    seen.counted([A], 100_000)
    assert {} == seen.flaps(100_000)  # it was here before us, and nobody knows for how long
    seen.counted([A, "10.0.0.9@18#beef"], 101_000)
    seen.counted([A], 105_000)
    assert {"10.0.0.9": (1, 6_000, 5_000, 1_000)} == seen.flaps(106_000)
    assert {} == seen.flaps(105_000 + limits.FORGIVEN_MS)


@pytest.mark.parametrize("grace_ms", [10_000, limits.SHORT_LIFE_MS + 1_000, 5 * limits.SHORT_LIFE_MS])
def test_a_short_life_is_one_however_long_the_seat_was_kept_after_it(grace_ms: int) -> None:
    """A seat outlives its member: by what the list says, one with a long grace would never have lived for short."""
    for life_ms in (1_000, limits.SHORT_LIFE_MS - 1_000, limits.SHORT_LIFE_MS + 1_000):
        flapper, seen = member_named("z", grace_ms), GroupMembers()
        seen.counted([A], 0)
        seen.counted([A, flapper], 1_000)
        seen.counted([A], 1_000 + life_ms)
        over_ms = 1_000 + life_ms + grace_ms
        assert [A, flapper] == seen.counted([A], over_ms - 1)
        assert [A] == seen.counted([A], over_ms)
        is_short = life_ms < limits.SHORT_LIFE_MS
        assert ({flapper: (1, life_ms + grace_ms, 0)} if is_short else {}) == seen.flaps(over_ms)


def test_a_name_that_comes_and_goes_again_and_again_is_counted_each_time_its_seat_is_given_up() -> None:
    """Nothing of its last life or seat is left when it comes the next time; within its grace it was never away."""
    flapper, seen, now = member_named("z", 2 * limits.SHORT_LIFE_MS), GroupMembers(), 0
    seen.counted([A], now)
    for strikes in range(1, 4):
        now += 1_000
        seen.counted([A, flapper], now)
        seen.counted([A], now + 5_000)
        seen.counted([A, flapper], now + 10_000)
        assert {} == seen.absent(now + 10_000)
        now += 15_000
        seen.counted([A], now)
        assert {flapper: 2 * limits.SHORT_LIFE_MS} == seen.absent(now)
        now += 2 * limits.SHORT_LIFE_MS
        assert [A] == seen.counted([A], now)
        assert strikes == seen.flaps(now)[flapper][0]
        assert {} == seen.absent(now)


@pytest.mark.parametrize(
    ("strikes", "ages", "seconds"),
    [
        pytest.param(0, (1_000, 500, 100), 0, id="no-flapper"),
        pytest.param(1, (), 10, id="first"),
        pytest.param(2, (), 20, id="second"),
        pytest.param(3, (90_000, 80_000), 40, id="changes-of-long-ago"),
        pytest.param(40, (), 300, id="longest"),
        pytest.param(1, (30_000, 20_000, 5_000), 40, id="until-the-minute-has-room-for-a-join-and-an-end"),
        pytest.param(1, (20_000,), 10, id="room-enough"),
    ],
)
def test_how_long_a_flapper_stays_out(strikes: int, ages: tuple[int, ...], seconds: int) -> None:
    assert seconds * 1000 == hold_ms(strikes, ages)


def test_a_flapper_changes_a_group_three_times_a_minute_at_most() -> None:
    """Whenever it is killed: its joins wait, so that no minute has more of them and of its ends."""
    for life_ms in range(500, 59_000, 1_500):
        now, strikes, changes = 0, 0, list[int]()
        while now < 600_000:
            now += hold_ms(strikes, [now - at for at in changes])
            changes.append(now)
            now += life_ms
            changes.append(now)
            strikes += 1
            now += 200
        assert all(sum(at <= other < at + limits.CHANGES_WINDOW_MS for other in changes) <= 3 for at in changes[2:])


def test_a_group_of_more_members_than_are_kept_in_mind_may_leave_at_once() -> None:
    """A rolling restart of a large group ended the rebalance loops of all its members, over and over."""
    many = [f"10.0.{number // 250}.{number % 250}@1#beef" for number in range(limits.FLAPPERS_MAX + 50)]
    seen = GroupMembers()
    seen.counted([A, *many], 0)

    assert [A] == seen.counted([A], 1_000)
    assert {} == seen.flaps(1_000)


def test_of_more_flappers_than_are_kept_in_mind_the_latest_are() -> None:
    many = [f"member-{number:03}@1#beef" for number in range(limits.FLAPPERS_MAX)]
    seen = GroupMembers()
    seen.counted([A], 0)
    seen.counted([A, "first@1#beef"], 1_000)
    seen.counted([A], 2_000)
    seen.counted([A, *many[1:]], 3_000)
    assert ["first"] == list(seen.flaps(3_000))
    seen.counted([A, "first@2#beef"], 4_000)
    seen.counted([A, many[0]], 5_000)

    assert {"first", *map(key_of, many[2:])} == set(seen.flaps(5_000)), "the newcomer took the place of the oldest"


OURS = [f"10.0.0.{number}@17#f123456789a{number}" for number in (1, 2)]
JAVA = "10.0.0.9@17#86399123456789"
"""The Java client's: a process, and nanoseconds since its machine started."""


def test_those_who_knew_a_broker_expect_it_back_until_somebody_comes_who_did_not() -> None:
    seen = GroupMembers()
    seen.counted(OURS, 1_000)
    assert not seen.all_expect(1_000 + limits.KNOWN_MS - 1), "we may have come when it was gone"
    assert seen.all_expect(1_000 + limits.KNOWN_MS)
    seen.counted(OURS[:1], 20_000)
    assert seen.all_expect(30_000), "who leaves takes nothing along"
    seen.counted(OURS, 40_000)
    assert not seen.all_expect(30_000)
    assert seen.all_expect(40_000 + limits.KNOWN_MS)


def test_who_comes_back_to_its_seat_expects_nothing_either() -> None:
    seen = GroupMembers()
    seen.counted([A, B], 0)
    seen.counted([A], 20_000)
    assert seen.all_expect(30_000)
    seen.counted([A, B], 25_000)
    assert not seen.all_expect(30_000)


@pytest.mark.parametrize("stranger", [JAVA, "10.0.0.9@17#863991234567", "10.0.0.9@DEFAULT", PLAIN])
def test_beside_members_of_another_client_nobody_expects_anything(stranger: str) -> None:
    """They divide by what the name server says now."""
    seen = GroupMembers()
    seen.counted([A, *OURS, stranger], 0)
    assert not seen.all_expect(60_000)
    seen.counted([A, *OURS], 1_000)
    assert seen.all_expect(60_000)
