"""Where a queue begins, as a table: policy x what its broker answers x topic or retry topic; with the real client."""

from __future__ import annotations

import json

import pytest

from framework.errors import FrameworkError, ProtocolError, Refused, RequestTimedOut
from framework.model.queue import MessageQueue
from framework.model.subscription import Start
from framework.services.queue.position import MARGIN_MS, Arrivals, find_start
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.client.script import A, ScriptedCluster
from tests.net.memory import virtually

TOPIC, RETRY = MessageQueue("orders", "a", 1), MessageQueue("%RETRY%billing", "a", 0)
PAID = TOPIC._replace(topic="paid")
POLICIES = {"last": Start("last"), "first": Start("first"), "timestamp": Start("time", 1_700_000_000_000)}
JOINED_MS = 1_800_000_000_000
V4_9_3, V5_0_0 = 399, 413

# What the broker answers to the question for the stored offset; None: no answer at all.
ANSWERS: dict[str, RemotingCommand | None] = {
    "nothing stored": RemotingCommand(22, remark="Not found, maybe this group consumer boot first"),
    "5": RemotingCommand(0, {"offset": "5"}),
    "-2": RemotingCommand(0, {"offset": "-2"}),
    "time-out": None,
    "error": RemotingCommand(1, remark="system busy"),
    "young topic answering 0": RemotingCommand(0, {"offset": "0"}, version=V4_9_3),
}
# Queues hold 10 to 90, young ones 0 to 90; offset 40 is the first one at the timestamp.
TABLE: dict[tuple[str, str], tuple[int | type[FrameworkError], int | type[FrameworkError]]] = {
    # (policy, answer): (topic, retry topic)
    ("last", "nothing stored"): (90, 10),
    ("last", "5"): (5, 5),
    ("last", "-2"): (ProtocolError, ProtocolError),
    ("last", "time-out"): (RequestTimedOut, RequestTimedOut),
    ("last", "error"): (Refused, Refused),
    ("last", "young topic answering 0"): (90, 0),
    ("first", "nothing stored"): (10, 10),
    ("first", "5"): (5, 5),
    ("first", "-2"): (ProtocolError, ProtocolError),
    ("first", "time-out"): (RequestTimedOut, RequestTimedOut),
    ("first", "error"): (Refused, Refused),
    ("first", "young topic answering 0"): (0, 0),
    ("timestamp", "nothing stored"): (40, 10),
    ("timestamp", "5"): (5, 5),
    ("timestamp", "-2"): (ProtocolError, ProtocolError),
    ("timestamp", "time-out"): (RequestTimedOut, RequestTimedOut),
    ("timestamp", "error"): (Refused, Refused),
    ("timestamp", "young topic answering 0"): (40, 0),
}


async def now_at(broker: str) -> int:
    return 1_800_000_000_000


def begun(policy: str, answer: str, queue: MessageQueue, *, stored: dict[str, dict[str, int]]) -> tuple[int, str]:
    """Where it begins, and why."""

    async def story() -> tuple[int, str]:
        cluster = ScriptedCluster()

        def broker(request: RemotingCommand) -> RemotingCommand | None:
            match request.code:
                case RequestCode.QUERY_CONSUMER_OFFSET:
                    return ANSWERS[answer]
                case RequestCode.GET_MAX_OFFSET:
                    return RemotingCommand(0, {"offset": "90"})
                case RequestCode.GET_MIN_OFFSET:
                    return RemotingCommand(0, {"offset": "0" if answer.startswith("young") else "10"})
                case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                    return RemotingCommand(0, {"offset": "40"})
                case RequestCode.GET_ALL_CONSUMER_OFFSET:
                    return RemotingCommand(0, body=json.dumps({"offsetTable": stored}).encode())
                case _:
                    raise AssertionError(f"nobody need ask {request!r}")

        cluster.scripts[A] = broker
        await cluster.client.routes.refresh("orders")  # it names the broker; its retry topic is there as well
        try:
            arrivals = Arrivals("billing")
            arrivals.seen(queue.topic, [queue], JOINED_MS)
            chosen = arrivals.policy_for(queue, POLICIES[policy], JOINED_MS)
            start = await find_start(cluster.client.brokers, "billing", queue, chosen, now_at)
        finally:
            await cluster.client.close()
        return start.offset, start.reason

    return virtually(story)


@pytest.mark.parametrize("queue", [TOPIC, RETRY], ids=["topic", "retry topic"])
@pytest.mark.parametrize("answer", list(ANSWERS))
@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_queue_begins_where_the_table_says(policy: str, answer: str, queue: MessageQueue) -> None:
    expected = TABLE[policy, answer][queue is RETRY]
    others = {"orders@other": {"1": 0}, "orders@billing": {"0": 0}, "%RETRY%billing@other": {"0": 3}}
    if isinstance(expected, int):
        offset, reason = begun(policy, answer, queue, stored=others)
        assert expected == offset
        said = "stored 5" if answer == "5" else f"-> {offset}"
        assert reason.endswith(said)
    else:
        with pytest.raises(expected):
            begun(policy, answer, queue, stored=others)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_zero_that_is_really_stored_is_one(policy: str) -> None:
    """An older broker answers it to everybody; who has it written down began there."""
    found = begun(policy, "young topic answering 0", TOPIC, stored={"orders@billing": {"1": 0}})
    assert (0, "stored 0") == found


def test_a_newer_broker_s_zero_needs_no_second_look() -> None:
    ANSWERS["0"] = RemotingCommand(0, {"offset": "0"}, version=V5_0_0)
    try:
        assert (0, "stored 0") == begun("last", "0", TOPIC, stored={})
    finally:
        del ANSWERS["0"]


def test_a_queue_that_a_known_broker_made_since_begins_at_its_first_message() -> None:
    arrivals = Arrivals("billing")
    arrivals.seen("orders", [TOPIC], JOINED_MS)
    arrivals.seen("orders", [TOPIC, TOPIC._replace(number=7)], JOINED_MS + 1)
    for policy in POLICIES.values():
        assert Start("first") == arrivals.policy_for(TOPIC._replace(number=7), policy, JOINED_MS)
        assert policy == arrivals.policy_for(TOPIC, policy, JOINED_MS)


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (Start("first"), Start("first")),
        (Start("last"), Start("age", MARGIN_MS + 5_000)),
        (Start("time", 5), Start("time", 5)),
        (Start("age", 1_800_000), Start("age", MARGIN_MS + 5_000)),
        (Start("age", 86_400_000), Start("age", 86_405_000)),
    ],
    ids=str,
)
@pytest.mark.parametrize("seen", [[TOPIC], []], ids=["another broker only", "no route yet"])
def test_a_broker_that_was_not_there_has_history_and_what_came_since(
    policy: Start, chosen: Start, seen: list[MessageQueue]
) -> None:
    """It may have been away for a minute when the group first joined: `last` must not mean all that it holds."""
    arrivals = Arrivals("billing")
    arrivals.seen("orders", seen, JOINED_MS)
    assert chosen == arrivals.policy_for(TOPIC._replace(broker="broker-z"), policy, JOINED_MS + 5_000)
    arrivals.seen("paid", [PAID], JOINED_MS)
    chosen_anew = arrivals.policy_for(PAID, policy, JOINED_MS + 5_000, is_anew=True)
    assert chosen == chosen_anew, "its topic may have been deleted and made again"


def test_the_groups_own_retry_topic_has_no_history() -> None:
    arrivals = Arrivals("billing")
    arrivals.seen(RETRY.topic, [], JOINED_MS)
    assert Start("first") == arrivals.policy_for(RETRY, Start("last"), JOINED_MS)
