"""Where a group goes on: a plan first, then carried out and looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from framework.admin import resets
from framework.admin.cluster import Admin
from framework.admin.delayed import WaitingRetries
from framework.admin.health import look
from framework.admin.moments import Moment, moment
from framework.admin.positions import positions
from framework.cli.shown import groups
from framework.core.broker_time import Reading
from framework.errors import ConfigurationError, Refused
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.running import ProcessQueueInfo
from tests.admin.members import Member, online
from tests.reading.threads import ThreadBox, texts

YEARS_MS = 5 * 365 * 24 * 3_600_000


@pytest.fixture
def reader(box: ThreadBox) -> Iterator[Reader]:
    with Reader(ReaderSettings((box.address,))) as reader:
        yield reader


def test_a_plan_says_what_comes_again_and_what_is_passed_over(
    box: ThreadBox, admin: Admin, topic: str, reader: Reader
) -> None:
    queues = [MessageQueue(topic, "broker-a", number) for number in range(3)]
    for queue in queues:
        box.send(topic, texts(topic, 10), queue=queue.number, broker="broker-a")
    reader.commit(f"g-{topic}", queues[0], 7)
    reader.commit(f"g-{topic}", queues[1], 2)

    planned = resets.plan(admin, f"g-{topic}", topic, Moment("offset", 4))

    rows = {each.queue.number: (each.before, each.after, each.again, each.passed_over) for each in planned}
    assert {0: (7, 4, 3, 0), 1: (2, 4, 0, 2), 2: (None, 4, None, None)} == {n: rows[n] for n in range(3)}
    assert 7 == reader.committed(f"g-{topic}", queues[0]), "a plan changes nothing"


@pytest.mark.parametrize("off_ms", [YEARS_MS, -YEARS_MS])
def test_how_long_ago_is_refused_where_a_broker_s_clock_is_not_ours(
    box: ThreadBox, admin: Admin, topic: str, reader: Reader, off_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that is years off, "two hours ago" passed over all that was new, or began at the first message."""
    queue, ago, group = MessageQueue(topic, "broker-a", 0), moment("-2h", RealClock().now_ms()), f"g-{topic}"
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    reader.commit(group, queue, 1)
    assert 0 == resets.plan(admin, group, topic, ago)[0].after
    ask = Admin.clock

    def told(asking: Admin, broker: str, address: str) -> Reading:
        reading = ask(asking, broker, address)
        return Reading(reading.low_ms + off_ms, reading.high_ms + off_ms)

    monkeypatch.setattr(Admin, "clock", told)
    with pytest.raises(ConfigurationError, match=r"that of broker-a is 157,680,[0-9]{3} s away"):
        resets.plan(admin, group, topic, ago)
    assert 0 == resets.plan(admin, group, topic, moment("2023-01-01T00:00:00Z", 0))[0].after, "a time is a time"

    def silent(asking: Admin, broker: str, address: str) -> Reading:
        raise Refused(16, "no permission", request="runtime", peer=broker)

    monkeypatch.setattr(Admin, "clock", silent)
    assert 0 == resets.plan(admin, group, topic, ago)[0].after


@pytest.mark.parametrize("is_kept_by_broker", [True, False])
def test_it_is_carried_out_by_brokers_of_either_kind(
    box: ThreadBox, admin: Admin, topic: str, reader: Reader, is_kept_by_broker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    reader.commit(f"g-{topic}", queue, 9)
    if not is_kept_by_broker:  # as of one before 5.2
        monkeypatch.setattr(resets, "BY_BROKER", "noSuchSetting")

    assert [] == resets.apply(admin, f"g-{topic}", resets.plan(admin, f"g-{topic}", topic, Moment("earliest")))

    assert 0 == reader.committed(f"g-{topic}", queue)


def test_what_a_broker_refuses_is_answered_with_its_reason(
    box: ThreadBox, admin: Admin, topic: str, reader: Reader
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    reader.commit(f"g-{topic}", queue, 1)

    ((failed, reason),) = resets.apply(admin, f"g-{topic}", [resets.QueueReset(queue, 1, 50)])

    assert queue == failed.queue
    assert "not in consume queue range" in reason
    assert 1 == reader.committed(f"g-{topic}", queue)


def test_a_group_that_nobody_knows_is_not_reset(box: ThreadBox, admin: Admin, topic: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no broker knows a group 'g-{topic}'"):
        resets.plan(admin, f"g-{topic}", "", Moment("earliest"))


@pytest.mark.parametrize(("to", "before", "after"), [("earliest", 9, 0), ("latest", 2, 10)])
def test_it_is_shown_as_pending_until_the_owner_goes_on_from_there(
    box: ThreadBox, admin: Admin, topic: str, reader: Reader, to: Literal["earliest", "latest"], before: int, after: int
) -> None:
    queue, group, at = MessageQueue(topic, "broker-a", 0), f"g-{topic}", [before]
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    reader.commit(group, queue, before)
    member = Member(
        client_id="owner", group=group, wants={topic: "*"},
        queues=lambda: {queue: ProcessQueueInfo(commit_offset=at[0])},
    )  # fmt: skip

    def pending() -> list[int]:
        found = positions(admin, group)
        health = look(admin, found, WaitingRetries(), 0)
        told = "a reset of 1 queue waits until members pull next" in groups.said(admin, health)
        assert told is bool(groups.row(admin, health)["resets_pending"])
        return [each.queue.number for each in found.rows if each.waits_for_reset]

    with online(box.address, member):
        assert [] == pending()
        assert [] == resets.apply(admin, group, [resets.QueueReset(queue, before, after)])
        assert [0] == pending()
        assert [0] == pending(), "a look takes nothing"
        at[0] = after
        assert [] == pending()
        at[0] = before
        assert [] == pending(), "it was taken once and for all"
