"""QUERY_ASSIGNMENT: what the broker hands a member is what Java's strategies would have it take itself."""

from __future__ import annotations

import pytest

from framework.broker.filters import Wanted
from framework.broker.store.topics import Topic
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.model.queue import MessageQueue
from framework.wire.bodies.group import AssignmentQuery, Assignments
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.broker.client_lab import FakeClient


def _lab(queues: int, members: int, *, perm: int = 6) -> BrokerLab:
    lab = BrokerLab()
    lab.node.rules.topics.put("t", Topic(name="t", read_queues=queues, write_queues=queues, perm=perm))
    for number in range(members):
        lab.node.members.heard(
            FakeClient(), f"c{number:02}", "g", [Wanted("t", "*")], consume_type="", message_model="CLUSTERING",
            consume_from="", language=0, version=477,
        )  # fmt: skip
    return lab


def _asked(lab: BrokerLab, client_id: str, strategy: str = "AVG", **changes: str) -> list[MessageQueue] | None:
    """The queues handed out; None: keep what you have."""
    query = AssignmentQuery(**{"topic": "t", "group": "g", "client_id": client_id, "strategy": strategy, **changes})
    answer = lab.answer(RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=query.encode()))
    assert answer.code == 0
    found = Assignments.decode(answer.body).assignments
    if found is None:
        return None
    assert {each.mode for each in found} <= {"PULL"}
    return [each.queue for each in found if each.queue is not None]


@pytest.mark.parametrize("members", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("queues", [1, 4, 7, 12])
def test_a_member_s_share_is_the_strategy_s(queues: int, members: int) -> None:
    lab = _lab(queues, members)
    places = [MessageQueue("t", "broker-a", number) for number in range(queues)]
    ids = [f"c{number:02}" for number in range(members)]
    for name, strategy in (("AVG", Averaging()), ("AVG_BY_CIRCLE", Circle())):
        shares = {each: _asked(lab, each, name) for each in ids}

        assert shares == {each: list(strategy.allocate(each, ids, places)) for each in ids}


def test_who_is_no_member_gets_nothing_and_what_cannot_be_divided_is_kept() -> None:
    lab = _lab(4, 2)

    assert _asked(lab, "stranger") == []
    assert _asked(lab, "c00", "CONSISTENT_HASH") is None, "as there: two strategies are known"
    assert _asked(lab, "c00", topic="absent") is None
    assert _asked(lab, "c00", group="nobody's") is None


def test_whoever_is_broadcast_to_has_every_queue() -> None:
    everything = [MessageQueue("t", "broker-a", number) for number in range(4)]

    assert _asked(_lab(4, 2), "c01", message_model="BROADCASTING") == everything


def test_a_topic_that_may_not_be_read_has_no_queues_to_divide() -> None:
    assert _asked(_lab(4, 2, perm=2), "c01") == []
