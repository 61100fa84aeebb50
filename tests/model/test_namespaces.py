"""Names in a namespace: wrapped and unwrapped as by Java's NamespaceUtil."""

from __future__ import annotations

import pytest

from framework.model.message import Message
from framework.model.namespaces import unwrap, unwrapping, wrap
from framework.model.queue import MessageQueue


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%billing", "%RETRY%ns%billing"),
        ("%DLQ%billing", "%DLQ%ns%billing"),
        ("nsorders", "ns%nsorders"),
        ("other%orders", "ns%other%orders"),
    ],
)
def test_a_prefix_of_rocketmq_stays_outside(name: str, wrapped: str) -> None:
    assert wrapped == wrap("ns", name)
    assert wrapped == wrap("ns", wrapped), "once is enough"
    assert name == unwrap("ns", wrapped)


@pytest.mark.parametrize("name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "CID_RMQ_SYS_TRANS", ""])
def test_rocketmq_s_own_names_belong_to_no_namespace(name: str) -> None:
    assert name == wrap("ns", name) == unwrap("ns", name)


def test_names_of_no_or_another_namespace_stay_as_they_are() -> None:
    assert ("orders", "orders") == (wrap("", "orders"), unwrap("", "orders"))
    assert ("other%orders", "orders") == (unwrap("ns", "other%orders"), unwrap("ns", "orders"))


def test_a_message_seen_from_inside_differs_in_its_names_only() -> None:
    queue = MessageQueue("ns%orders", "broker-a", 3)
    message = Message(
        "ns%orders", b"paid", tags="red", keys="k1", queue=queue, queue_offset=7, attempt=3, born_ms=5, stored_ms=6,
        message_id="ID", offset_message_id="OFF",
    )  # fmt: skip
    seen = unwrapping("ns")(message)

    assert ("orders", MessageQueue("orders", "broker-a", 3)) == (seen.topic, seen.queue)
    assert ("ns%orders", queue) == (message.topic, message.queue), "it is sent back under the cluster's name"
    for name in ("body", "properties", "tags", "keys", "message_id", "offset_message_id", "attempt", "born_ms",
                 "stored_ms", "flag", "commit_log_offset", "queue_offset"):  # fmt: skip
        assert getattr(message, name) == getattr(seen, name), name
