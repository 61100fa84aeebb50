"""How far a group is, as an operator is told: what is stored, what is not known, and how old the backlog is."""

from __future__ import annotations

from typing import Any

import pytest

from framework.admin import groups
from framework.admin.cluster import Admin
from framework.admin.groups import all_groups, check_known
from framework.admin.positions import positions
from framework.admin.topics import topics
from framework.cli.shown.groups import differences
from framework.client.options import ClusterOptions
from framework.errors import BrokerUnreachable, ConfigurationError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from framework.wire.bodies.running import PopQueueInfo, ProcessQueueInfo
from tests.admin.members import Member, online
from tests.reading.threads import ThreadBox, texts


def commit(box: ThreadBox, group: str, offsets: dict[MessageQueue, int]) -> None:
    with Reader(ReaderSettings((box.address,))) as reader:
        for queue, offset in offsets.items():
            reader.commit(group, queue, offset)


def test_a_queue_without_a_stored_offset_has_no_lag_instead_of_all_of_it(
    box: ThreadBox, admin: Admin, topic: str
) -> None:
    """Brokers show such a queue at 0, which reads as if everything were still to be handled."""
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 6), queue=1, broker="broker-a")
    commit(box, f"g-{topic}", {MessageQueue(topic, "broker-a", 0): 7})

    found = {row.queue.number: row for row in positions(admin, f"g-{topic}").rows if row.queue.broker == "broker-a"}

    assert (7, 10, 3) == (found[0].offset, found[0].end, found[0].lag)
    assert (None, 6, None) == (found[1].offset, found[1].end, found[1].lag)
    assert found[0].lag_s is not None
    assert 0 <= found[0].lag_s < 600
    assert found[1].lag_s is None
    assert positions(admin, f"g-{topic}").lag is None, "one queue's is not known, so the sum is not"


def test_a_broker_that_lost_a_groups_offsets_does_not_let_it_look_fine(
    box: ThreadBox, admin: Admin, topic: str
) -> None:
    """It is there, so it is not missed, and leaves out what it knows nothing of. What an earlier look saw is missed."""
    group, queues = f"g-{topic}", [MessageQueue(topic, broker, 0) for broker in ("broker-a", "broker-b")]
    for queue in queues:
        box.send(topic, texts(topic, 3), queue=0, broker=queue.broker)
    commit(box, group, dict.fromkeys(queues, 3))
    before = positions(admin, group)
    assert (0, "") == (before.lag, before.blank)
    admin.memory.saw_group(group, {row.queue for row in before.rows} | {MessageQueue("deleted", "broker-a", 0)})

    box.lose_offsets(group, "broker-a")
    for _ in range(2):  # the first look remembers it for the second one
        found = positions(admin, group)
        assert before.rows[0].queue.topic == topic
        assert [row.queue for row in before.rows] == [row.queue for row in found.rows]
        assert {queues[0]: None, queues[1]: 3} == {row.queue: row.offset for row in found.rows if row.queue in queues}
        assert (None, "no member, and no offset stored in 1 queue with messages") == (
            found.lag, found.blank.partition(":")[0]
        )  # fmt: skip

    box.lose_offsets(group)
    assert positions(admin, group).blank.startswith("no member, and no offset stored in 2 queues with messages: ")
    with Admin(ClusterOptions(name_servers=(box.address,))) as forgetful:
        found = positions(forgetful, group)
    assert (None, True) == (found.lag, found.is_nobody)
    assert found.blank.startswith("no member, and no offset stored: ")


def test_what_is_handled_is_no_second_behind(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 4), queue=0, broker="broker-b")
    commit(box, f"g-{topic}", {MessageQueue(topic, "broker-b", 0): 4})

    (row,) = [row for row in positions(admin, f"g-{topic}").rows if row.queue == (topic, "broker-b", 0)]

    assert (0, 0.0, None) == (row.lag, row.lag_s, row.owner)


def test_where_the_first_message_is_gone_the_age_is_that_of_the_first_one_left(
    box: ThreadBox, admin: Admin, topic: str
) -> None:
    queue = MessageQueue(topic, "broker-a", 0)
    box.send(topic, texts(topic, 9), queue=0, broker="broker-a")
    commit(box, f"g-{topic}", {queue: 1})
    box.keep_from(queue, 5)

    (row,) = [row for row in positions(admin, f"g-{topic}").rows if row.queue == queue]

    assert row.lag_s is not None


def test_a_silent_member_hides_owners_but_no_lag_and_is_asked_once(
    box: ThreadBox, admin: Admin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question to it costs the whole time-out, in each group that it is in."""
    box.send(topic, texts(topic, 9), queue=0, broker="broker-a")
    queue, asked, ask = MessageQueue(topic, "broker-a", 0), [], groups._info

    def counted(*of: Any) -> Any:
        asked.append(of[2:])
        return ask(*of)

    monkeypatch.setattr(groups, "_info", counted)
    one, two = f"one-{topic}", f"two-{topic}"
    members = [Member(client_id="mute", group=group, wants={topic: "*"}, answers=False) for group in (one, two)]
    talks = Member(client_id="talks", group=two, wants={topic: "*"}, queues=lambda: {queue: ProcessQueueInfo()})
    with online(box.address, *members, talks):
        for group in (one, two):
            commit(box, group, {each: 0 if each == queue else 1 for each in queues_of(box, topic)})
        silent: dict[str, str] = {}
        found = [positions(admin, group, topic, silent=silent) for group in (one, two)]

    assert [(one, "mute"), (two, "talks")] == asked
    assert [9, 9] == [each.lag for each in found]
    assert [{"mute"}, {"mute"}] == [each.unknown.keys() for each in found]
    assert [None, "talks"] == [row.owner for each in found for row in each.rows if row.queue == queue]


def test_queues_of_which_members_pop_have_no_owner_and_lack_none(box: ThreadBox, admin: Admin, topic: str) -> None:
    """Ours says that it has all queues of a broker, by the number -1; Java's lists what it pops by itself."""
    group, queue = f"g-{topic}", MessageQueue(topic, "broker-a", -1)
    for broker in ("broker-a", "broker-b"):
        box.send(topic, texts(topic, 1), queue=0, broker=broker)
    commit(box, group, dict.fromkeys(queues_of(box, topic), 0))
    for said in ({"queues": lambda: {queue: ProcessQueueInfo()}}, {"pops": {queue: PopQueueInfo()}}):
        with online(box.address, Member(client_id="pops", group=group, wants={topic: "*"}, **said)):
            found = positions(admin, group)

        assert {(row.queue.broker == "broker-a", None) for row in found.rows} == {
            (row.is_popped, row.owner) for row in found.rows
        }
        (line,) = differences(admin, found)
        assert "broker-a" not in line


def test_queues_that_are_pulled_are_not_popped_where_only_what_came_back_is(
    box: ThreadBox, admin: Admin, topic: str
) -> None:
    """A group that pulls again says so by the number -2."""
    group, back = f"g-{topic}", MessageQueue(topic, "broker-a", -2)
    box.send(topic, texts(topic, 1), queue=0, broker="broker-a")
    commit(box, group, dict.fromkeys(queues_of(box, topic), 0))
    with online(
        box.address, Member(client_id="m", group=group, wants={topic: "*"}, queues=lambda: {back: ProcessQueueInfo()})
    ):
        found = positions(admin, group)

    assert found.rows
    assert not any(row.is_popped for row in found.rows)


def queues_of(box: ThreadBox, topic: str) -> list[MessageQueue]:
    with Reader(ReaderSettings((box.address,))) as reader:
        return reader.queues(topic)


def test_looking_makes_no_group(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 2), queue=0, broker="broker-a")
    commit(box, f"g-{topic}", {MessageQueue(topic, "broker-a", 0): 1})
    before = all_groups(admin)

    positions(admin, f"g-{topic}")
    positions(admin, f"nobody-{topic}")
    topics(admin)

    assert before == all_groups(admin)


def test_a_mistyped_group_is_answered_with_the_nearest_one(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 1), queue=0, broker="broker-a")
    commit(box, f"billing-{topic}", {MessageQueue(topic, "broker-a", 0): 1})
    assert f"billing-{topic}" in all_groups(admin)[0]

    check_known(admin, f"billing-{topic}")
    with pytest.raises(ConfigurationError, match=f"did you mean 'billing-{topic}'"):
        check_known(admin, f"biling-{topic}")
    admin.memory.saw_group(f"biling-{topic}", [MessageQueue(topic, "broker-a", 0)])
    with pytest.raises(ConfigurationError, match="earlier look saw it: it was deleted since then, or its brokers lost"):
        check_known(admin, f"biling-{topic}")


def test_names_are_the_users_own_under_a_namespace(box: ThreadBox, topic: str) -> None:
    with Admin(ClusterOptions(name_servers=(box.address,), namespace="shop")) as admin:
        assert f"shop%{topic}" == admin.wrapped(topic)
        assert f"%RETRY%{topic}" == admin.unwrapped(f"%RETRY%shop%{topic}")


def test_topics_that_users_made_are_listed_and_others_only_on_request(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 1))
    shown = {each.name: each for each in topics(admin)}
    everything = {each.name for each in topics(admin, with_system=True)}

    assert topic in shown
    (broker,) = shown[topic].brokers
    assert broker in {"broker-a", "broker-b"}
    assert not [name for name in shown if name.startswith(("%", "rmq_sys_", "broker-", "TBW"))]
    assert "TBW102" in everything


def test_where_nobody_answers_that_is_said() -> None:
    with (
        Admin(ClusterOptions(name_servers=("127.0.0.1:1",))) as admin,
        pytest.raises(BrokerUnreachable, match="refused"),
    ):
        topics(admin)
