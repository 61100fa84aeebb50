"""What a group's state is called, from what brokers keep and what members say: the worst is said, and never hidden."""

from __future__ import annotations

from typing import Any

import pytest

from framework.admin import delayed, health
from framework.admin.cluster import Admin
from framework.admin.delayed import WaitingRetries
from framework.admin.facts import LetterFacts
from framework.admin.groups import GroupMember, GroupView
from framework.admin.health import GroupHealth, work_of
from framework.admin.positions import Positions, QueuePosition, positions
from framework.broker.settings import BrokerSettings
from framework.cli.shown import groups as shown
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.running import RUNNING, SUCCESS_AGO_MS, ConsumeStatus, RunningInfo
from tests.admin.members import Member, online
from tests.reading.threads import texts, thread_box

QUEUE = MessageQueue("orders", "broker-a", 0)


def member(silence: str = "", /, status: ConsumeStatus | None = None, **properties: object) -> GroupMember:
    told = {name.replace("__", "."): str(value) for name, value in properties.items()}
    info = None if silence else RunningInfo(properties=told, statuses={"orders": status or ConsumeStatus()})
    return GroupMember("app@1", "127.0.0.1:1", "PYTHON", 1, "broker-a", info, silence)


def seen(
    *members: GroupMember, lag: int | None = 0, waiting: int = 0, dead: int = 0, unserved: str = "", **more: Any
) -> GroupHealth:
    rows = [QueuePosition(QUEUE, None if lag is None else 5, 5 + (lag or 0), 2.0, None)]
    found = Positions("g", rows, GroupView(list(members)), unserved=dict.fromkeys([unserved] * bool(unserved), "away"))
    found.unknown = {**found.unserved, **{each.client_id: each.silence for each in members if each.silence}}
    retries = WaitingRetries(**more)
    retries.counts["g"] = waiting
    return GroupHealth(found, LetterFacts(dead, dead), retries, work_of(list(members)))


def nowhere(*members: GroupMember) -> GroupHealth:
    """Without a queue."""
    found = Positions("g", [], GroupView(list(members)))
    return GroupHealth(found, LetterFacts(0, 0), WaitingRetries(), work_of(list(members)))


FAILING = ConsumeStatus(consume_failed_tps=8.0, consume_failed_count=10_000)
WELL = ConsumeStatus(consume_ok_tps=90.0, consume_failed_count=3)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (seen(member()), "g: up to date; 1 member"),
        (seen(member(status=WELL)), "g: up to date; 3 failed in the last hour; 1 member"),
        (seen(member(), lag=5), "g: 5 messages behind, the oldest stored 2s ago; 1 member"),
        (
            seen(member(status=WELL), member(group__held="breaker of orders, mostly ValueError: no stock"), lag=5),
            (
                "g: held: breaker of orders, mostly ValueError: no stock; 3 failed in the last hour; "
                "5 messages behind, the oldest stored 2s ago; 2 members"
            ),
        ),
        (seen(member(status=FAILING)), "g: failing: nothing succeeds; 10,000 failed in the last hour; 1 member"),
        (
            seen(member(status=FAILING, group__success_ago_ms=90_000), dead=10_000),
            (
                "g: failing: nothing succeeds; the last success was 1m 30s ago; 10,000 dead letters in the last hour; "
                "10,000 failed in the last hour; 1 member"
            ),
        ),
        (
            seen(member(), dead=2, lag=5),
            "g: 2 dead letters in the last hour; 5 messages behind, the oldest stored 2s ago; 1 member",
        ),
        (
            # It came and failed, an hour ago; nothing was handled since the start.
            seen(member(status=ConsumeStatus(consume_failed_count=1), group__running=0), dead=1),
            "g: failing: nothing succeeds; 1 dead letter in the last hour; 1 failed in the last hour; 1 member",
        ),
        (
            # In backoff: nothing was tried in the last minute.
            seen(member(status=ConsumeStatus(consume_failed_count=7)), waiting=7),
            "g: failing: nothing succeeds; 7 failed in the last hour; 7 messages waiting for a retry; 1 member",
        ),
        (
            seen(member(status=WELL), waiting=3),
            "g: retrying: 3 failed in the last hour; 3 messages waiting for a retry; 1 member",
        ),
        (
            seen(member(group__retries_waiting=2), waiting=3, is_cut=True),
            "g: retrying: at least 5 messages waiting for a retry; 1 member",
        ),
        (
            seen(member(group__hanging=2, group__oldest_ms=900_000, group__running=2), lag=1),
            (
                "g: hanging: 2 handlers given up, and still running; a handler has run for 15m; 1 message behind, "
                "the oldest stored 2s ago; 1 member"
            ),
        ),
        (seen(lag=5), "g: no member: 5 messages behind, the oldest stored 2s ago; 0 members"),
        (seen(waiting=1), "g: no member: 1 message waiting for a retry; 0 members"),
        (
            seen(member(group__paused="by me@host at noon"), lag=1),
            "g: paused by me@host at noon; 1 message behind, the oldest stored 2s ago; 1 member",
        ),
        (
            seen(member("no answer")),
            "g: up to date; 1 member silent (stopped, or blocked): app@1; 1 member",
        ),
        (
            seen(member(), lag=None, unserved="broker-b"),
            "g: unknown: what it has on broker-b cannot be seen; 1 member",
        ),
        (seen(member(), lag=None), "g: unknown: the lag is not known in full; 1 member"),
        (
            seen(lag=None),
            (
                "g: unknown: no member, and no offset stored in 1 queue with messages: it never consumed, or its "
                "brokers lost its offsets; 0 members"
            ),
        ),
        (nowhere(member()), "g: unknown: its members subscribe to no topic that is there; 1 member"),
        (nowhere(), "g: no member, and no offset stored: it never consumed, or its brokers lost its offsets"),
    ],
)
def test_the_verdict_says_the_worst_first(found: GroupHealth, said: str, admin: Admin) -> None:
    assert said == shown.said(admin, found)
    row = shown.row(admin, found)
    assert (found.state, found.waiting) == (row["state"], row["retries_waiting"])


def test_a_text_that_is_no_number_counts_as_nothing_said() -> None:
    work = work_of([member(group__success_ago_ms="soon", group__oldest_ms="-1", group__running="9" * 30)])
    assert (None, None, None) == (work.success_ago_s, work.oldest_s, work.running)
    assert work_of([member("no answer")]).is_told is False


def test_groups_are_counted_by_state_the_worst_first() -> None:
    found = [seen(member()), seen(member(status=FAILING)), seen(member()), seen(lag=1)]
    assert "4 groups: 1 failing, 1 no member, 2 up to date" == shown.said_of_all(found)
    assert "no group" == shown.said_of_all([])


def test_what_waits_at_brokers_for_its_next_try_is_seen() -> None:
    """Its lag is nothing: the offset went on."""
    with (
        thread_box(settings=BrokerSettings(delays_ms=(1_800_000,) * 18)) as box,
        Reader(ReaderSettings((box.address,))) as reader,
        Admin(ClusterOptions(name_servers=(box.address,))) as admin,
    ):
        box.send("orders", texts("orders", 4), queue=0)
        for queue, end in reader.max_offsets(reader.queues("orders")).items():
            reader.commit("billing", queue, end)
        for offset in range(4):
            reader.send_back("billing", QUEUE, offset, delay_level=3)
        failed = Member(
            client_id="fails", group="billing", wants={"orders": "*"},
            properties={SUCCESS_AGO_MS: "120000", RUNNING: "1"},
            statuses={"orders": ConsumeStatus(consume_failed_count=4)},
        )  # fmt: skip
        with online(box.address, failed):
            found = health.look(admin, positions(admin, "billing", "orders"), delayed.waiting(admin), 0)

    assert (0, 4, "failing") == (found.positions.lag, found.waiting, found.state)
    assert (120.0, 1) == (found.work.success_ago_s, found.work.running)
