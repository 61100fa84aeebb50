"""Where a queue begins, as a table: policy x what its broker answers x topic or retry topic; with the real client."""

from __future__ import annotations

import json

import pytest

from framework.errors import FrameworkError, ProtocolError, Refused, RequestTimedOut
from framework.model.queue import MessageQueue
from framework.services.position import First, Last, Since, StartPolicy, find_start, policy_for
from framework.wire.codes import RequestCode
from framework.wire.command import Command
from tests.client.script import A, ScriptedCluster
from tests.net.memory import virtually

TOPIC, RETRY = MessageQueue("orders", "a", 1), MessageQueue("%RETRY%billing", "a", 0)
POLICIES: dict[str, StartPolicy] = {"last": Last(), "first": First(), "timestamp": Since(at_ms=1_700_000_000_000)}
V4_9_3, V5_0_0 = 399, 413

# What the broker answers to the question for the stored offset; None: no answer at all.
ANSWERS: dict[str, Command | None] = {
    "nothing stored": Command(22, remark="Not found, maybe this group consumer boot first"),
    "5": Command(0, {"offset": "5"}),
    "-2": Command(0, {"offset": "-2"}),
    "time-out": None,
    "error": Command(1, remark="system busy"),
    "young topic answering 0": Command(0, {"offset": "0"}, version=V4_9_3),
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


def begun(policy: str, answer: str, queue: MessageQueue, *, stored: dict[str, dict[str, int]]) -> tuple[int, str]:
    """Where it begins, and why."""

    async def story() -> tuple[int, str]:
        cluster = ScriptedCluster()

        def broker(request: Command) -> Command | None:
            match request.code:
                case RequestCode.QUERY_CONSUMER_OFFSET:
                    return ANSWERS[answer]
                case RequestCode.GET_MAX_OFFSET:
                    return Command(0, {"offset": "90"})
                case RequestCode.GET_MIN_OFFSET:
                    return Command(0, {"offset": "0" if answer.startswith("young") else "10"})
                case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                    return Command(0, {"offset": "40"})
                case RequestCode.GET_ALL_CONSUMER_OFFSET:
                    return Command(0, body=json.dumps({"offsetTable": stored}).encode())
                case _:
                    raise AssertionError(f"nobody need ask {request!r}")

        cluster.scripts[A] = broker
        await cluster.client.routes.refresh("orders")  # it names the broker; its retry topic is there as well
        try:
            chosen = policy_for(queue, "billing", POLICIES[policy], frozenset({TOPIC, RETRY}))
            start = await find_start(cluster.client.brokers, "billing", queue, chosen, 1_800_000_000_000)
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
    ANSWERS["0"] = Command(0, {"offset": "0"}, version=V5_0_0)
    try:
        assert (0, "stored 0") == begun("last", "0", TOPIC, stored={})
    finally:
        del ANSWERS["0"]


def test_a_queue_that_appeared_since_begins_at_its_first_message() -> None:
    assert First() == policy_for(TOPIC, "billing", Last(), frozenset())
    assert Last() == policy_for(TOPIC, "billing", Last(), frozenset({TOPIC}))
