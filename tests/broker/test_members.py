"""Membership by connection: who is listed, what is wanted, who hears of a change, and when."""

from __future__ import annotations

import pytest

from framework.broker.filters import Wanted
from framework.broker.members import BROADCASTING, MemberGroup, Members
from framework.broker.notices import Notices
from framework.wire.codes import RequestCode
from tests.broker.client_lab import FakeClient
from tests.broker.store_lab import HandClock, HandTimers


class _Lab:
    def __init__(self, *, notified: bool = True) -> None:
        self.clock = HandClock(0)
        self.timers = HandTimers(self.clock)
        self.members = Members(self.timers)
        self.notices = Notices(self.timers, self.members.find, lambda _: notified)
        self.members.arrived, self.members.departed = self.notices.arrived, self.notices.departed

    def heartbeat(
        self, client: FakeClient, client_id: str, *wants: Wanted, group: str = "g", model: str = "CLUSTERING"
    ) -> bool:
        return self.members.heard(
            client, client_id, group, wants or (Wanted("t", "*"),), consume_type="CONSUME_PASSIVELY",
            message_model=model, consume_from="CONSUME_FROM_LAST_OFFSET", language=3, version=477,
        )  # fmt: skip


def test_two_connections_of_one_client_are_two_members() -> None:
    """So on the real broker: the id is listed twice, which breaks an even split. Heartbeat on one connection."""
    lab = _Lab()
    first, second = FakeClient(), FakeClient()
    lab.heartbeat(first, "a")
    lab.heartbeat(second, "a")

    assert lab.members.client_ids("g") == ["a", "a"]


def test_a_join_tells_everybody_in_its_own_turn_the_newcomer_too() -> None:
    lab = _Lab()
    first, second = FakeClient(), FakeClient()
    assert lab.heartbeat(first, "a")
    lab.timers.advance(100)
    first.sent.clear()
    lab.heartbeat(second, "b")

    for client in (first, second):
        assert [(notice.code, notice.fields, notice.is_one_way) for notice in client.sent] == [
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, True)
        ]


def test_a_heartbeat_that_changes_nothing_tells_nobody() -> None:
    lab = _Lab()
    client = FakeClient()
    lab.heartbeat(client, "a")
    lab.timers.advance(1000)
    client.sent.clear()

    assert not lab.heartbeat(client, "a", Wanted("t", "*", version=5))
    lab.timers.advance(1000)
    assert client.sent == []


@pytest.mark.parametrize("apart_ms", [1, 7, 30, 70, 79, 80, 81, 100, 450])
def test_every_change_is_told_within_a_tenth_of_a_second_and_what_follows_closely_together(apart_ms: int) -> None:
    """Whatever came before it: a member that joins, or leaves, while others do so waits no longer than the first."""
    lab = _Lab()
    member = FakeClient()
    lab.heartbeat(member, "member")
    lab.timers.advance(5000)
    member.sent.clear()
    changed_at: list[int] = []
    told_at: list[int] = []
    clients: list[FakeClient] = []
    for i in range(20):
        if i % 4 == 3:
            lab.members.gone(clients.pop())
        else:
            clients.append(FakeClient())
            lab.heartbeat(clients[-1], f"newcomer-{i}")
        changed_at.append(lab.clock.ms)
        for _ in range(apart_ms):
            told_at += [lab.clock.ms] * (len(member.sent) - len(told_at))
            lab.timers.advance(1)
    for _ in range(100):
        told_at += [lab.clock.ms] * (len(member.sent) - len(told_at))
        lab.timers.advance(1)

    waits = [min(told for told in told_at if told >= changed) - changed for changed in changed_at]
    assert (waits[0], max(waits) <= 100) == (0, True)
    arrivals_and_departures = 2 * (1 + (changed_at[-1] - changed_at[0]) // 80)
    assert len(told_at) <= min(len(changed_at), 1 + arrivals_and_departures), "a burst is told together"


def test_in_a_group_of_a_thousand_what_follows_within_four_fifths_of_a_second_shares_a_notice() -> None:
    """Each notice is a thousand messages there, and members divide queues once a second at most."""
    lab = _Lab()
    member = FakeClient()
    lab.heartbeat(member, "member")
    others = [FakeClient() for _ in range(999)]
    for number, other in enumerate(others):
        lab.heartbeat(other, f"other-{number}")
    lab.timers.advance(5000)
    member.sent.clear()
    for other in others[:20]:
        lab.members.gone(other)
        lab.timers.advance(100)
    told = len(member.sent)
    lab.timers.advance(800)

    assert (told, len(member.sent)) == (3, 4), "at once, and twice within two seconds; the last within 0.8 s"


def test_ten_joins_that_follow_closely_are_two_notices_to_whoever_was_there_first() -> None:
    lab = _Lab()
    clients = [FakeClient() for _ in range(10)]
    for i, client in enumerate(clients):
        lab.heartbeat(client, str(i))
        lab.timers.advance(5)
    lab.timers.advance(1000)

    assert [len(client.sent) for client in clients] == [2] + [1] * 9


def test_a_departure_between_two_arrivals_is_put_off_by_neither() -> None:
    lab = _Lab()
    stays, leaves = FakeClient(), FakeClient()
    for client in (stays, leaves):
        lab.heartbeat(client, client.peer)
    lab.timers.advance(10)  # an arrival would now wait for the end of the moment that the first one began
    stays.sent.clear()
    lab.heartbeat(FakeClient(), "x")
    assert stays.sent == []
    lab.members.left(leaves, "g")
    lab.heartbeat(FakeClient(), "y")

    assert len(stays.sent) == 1
    lab.timers.advance(100)
    assert len(stays.sent) == 2, "of the one who came after it"


def test_leaving_and_a_lost_connection_are_told_at_once() -> None:
    lab = _Lab()
    stays, leaves, breaks = FakeClient(), FakeClient(), FakeClient()
    for i, client in enumerate((stays, leaves, breaks)):
        lab.heartbeat(client, str(i))
    lab.timers.advance(1000)
    stays.sent.clear()
    lab.members.left(leaves, "g")

    assert (len(stays.sent), lab.members.client_ids("g")) == (1, ["0", "2"])
    lab.timers.advance(1000)
    lab.members.gone(breaks)

    assert (len(stays.sent), lab.members.client_ids("g")) == (2, ["0"])


def test_departures_that_follow_closely_share_one_more_notice() -> None:
    lab = _Lab()
    stays, others = FakeClient(), [FakeClient() for _ in range(10)]
    for client in (stays, *others):
        lab.heartbeat(client, client.peer)
    lab.timers.advance(1000)
    stays.sent.clear()
    for client in others:
        lab.members.gone(client)
        lab.timers.advance(5)
    lab.timers.advance(1000)

    assert len(stays.sent) == 2


def test_a_departure_takes_a_waiting_arrival_along() -> None:
    lab = _Lab()
    stays, leaves, comes = FakeClient(), FakeClient(), FakeClient()
    for client in (stays, leaves):
        lab.heartbeat(client, "x")
    stays.sent.clear()
    lab.heartbeat(comes, "y")
    lab.members.left(leaves, "g")
    assert len(stays.sent) == 1

    lab.timers.advance(1000)
    assert len(stays.sent) == 1


def test_nobody_is_told_after_the_broker_has_stopped() -> None:
    lab = _Lab()
    client = FakeClient()
    lab.heartbeat(client, "a")
    lab.heartbeat(FakeClient(), "b")
    lab.notices.clear()
    lab.timers.advance(1000)

    assert len(client.sent) == 1, "of itself, and then no more"


def test_the_last_member_takes_the_group_along() -> None:
    lab = _Lab()
    client = FakeClient()
    lab.heartbeat(client, "a")
    client.sent.clear()
    lab.members.left(client, "g")

    assert lab.members.find("g") is None
    lab.timers.advance(1000)
    assert client.sent == []


def test_silence_of_120_seconds_ends_membership_and_connection() -> None:
    lab = _Lab()
    silent, alive = FakeClient(), FakeClient()
    lab.heartbeat(silent, "a")
    for _ in range(14):
        lab.heartbeat(alive, "b")
        lab.timers.advance(10_000)

    assert lab.members.client_ids("g") == ["b"]
    assert silent.closed == "no heartbeat for 120 s"
    assert alive.closed is None


def test_broadcasting_groups_and_groups_that_want_none_get_no_notices() -> None:
    client = FakeClient()
    lab = _Lab()
    lab.heartbeat(client, "a", model=BROADCASTING)
    quiet = _Lab(notified=False)
    quiet.heartbeat(client, "a")
    for each in (lab, quiet):
        each.timers.advance(1000)

    assert client.sent == []


def test_members_with_other_topics_fight_as_on_the_real_broker() -> None:
    """Each heartbeat replaces the group's topics: the last one wins, and each time it is a change."""
    lab = _Lab()
    first, second = FakeClient(), FakeClient()
    lab.heartbeat(first, "a", Wanted("t1", "*"))

    assert lab.heartbeat(second, "b", Wanted("t2", "*"))
    assert _topics(lab.members.find("g")) == ["t2"]
    assert lab.heartbeat(first, "a", Wanted("t1", "*"))
    assert _topics(lab.members.find("g")) == ["t1"]


def test_only_a_newer_subscription_replaces_a_known_one() -> None:
    lab = _Lab()
    client = FakeClient()
    lab.heartbeat(client, "a", Wanted("t", "A", version=5))
    lab.heartbeat(client, "a", Wanted("t", "B", version=4))
    group = lab.members.find("g")
    assert group is not None
    assert group.wanted["t"].expression == "A"

    lab.heartbeat(client, "a", Wanted("t", "C", version=6))
    assert group.wanted["t"].expression == "C"


def test_producers_are_kept_by_connection_too() -> None:
    lab = _Lab()
    client = FakeClient()
    lab.members.heard_producer(client, "p", "producers", language=0, version=1)

    assert [member.client_id for member in lab.members.producers("producers")] == ["p"]
    lab.members.gone(client)
    assert lab.members.producers("producers") == []


def _topics(group: MemberGroup | None) -> list[str]:
    assert group is not None
    return sorted(group.wanted)
