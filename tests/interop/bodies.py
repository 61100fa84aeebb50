"""What RocketMQ's own body classes make of values of every kind: asked of them once, and kept as a table.

    python -m tests.interop.bodies        writes tests/wire/bodies/kinds.json; Java is needed

The table has each of our bodies with its fields and their types in Java (an enum is the list of its names), and for
each type what becomes of each value in a field of that type. A value that is left out is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.interop import jars, oracle

TABLE = Path(__file__).parents[1] / "wire" / "bodies" / "kinds.json"
REFUSED = "refused"

_COMMON, _REMOTING = "org.apache.rocketmq.common.", "org.apache.rocketmq.remoting.protocol."
_BODY = f"{_REMOTING}body."
JAVA = {
    "AclInfo": f"{_BODY}AclInfo",
    "AllConsumerOffsets": f"{_BODY}ConsumerOffsetSerializeWrapper",
    "AllProducers": f"{_BODY}ProducerTableInfo",
    "AssignmentQuery": f"{_BODY}QueryAssignmentRequestBody",
    "Assignments": f"{_BODY}QueryAssignmentResponseBody",
    "BatchAck": f"{_BODY}BatchAckMessageRequestBody",
    "BatchAckEntry": f"{_BODY}BatchAck",
    "BrokerConsumeStats": f"{_BODY}ConsumeStatsList",
    "BrokerData": f"{_REMOTING}route.BrokerData",
    "CheckClientConfig": f"{_BODY}CheckClientRequestBody",
    "ClientConnection": f"{_BODY}Connection",
    "ClientOffsets": f"{_BODY}GetConsumerStatusBody",
    "ClusterInfo": f"{_BODY}ClusterInfo",
    "ConsumeStats": f"{_REMOTING}admin.ConsumeStats",
    "ConsumeStatus": f"{_BODY}ConsumeStatus",
    "ConsumeTimeSpan": f"{_BODY}QueryConsumeTimeSpanBody",
    "ConsumerConnections": f"{_BODY}ConsumerConnection",
    "ConsumerData": f"{_REMOTING}heartbeat.ConsumerData",
    "ConsumerList": f"{_REMOTING}header.GetConsumerListByGroupResponseBody",
    "CustomizedRetryPolicy": f"{_REMOTING}subscription.CustomizedRetryPolicy",
    "DataVersion": f"{_REMOTING}DataVersion",
    "DirectResult": f"{_BODY}ConsumeMessageDirectlyResult",
    "ExponentialRetryPolicy": f"{_REMOTING}subscription.ExponentialRetryPolicy",
    "GroupConfig": f"{_REMOTING}subscription.SubscriptionGroupConfig",
    "GroupConfigList": f"{_BODY}SubscriptionGroupList",
    "GroupConfigTable": f"{_BODY}SubscriptionGroupWrapper",
    "GroupList": f"{_BODY}GroupList",
    "GroupRetryPolicy": f"{_REMOTING}subscription.GroupRetryPolicy",
    "GroupSubscription": f"{_BODY}QuerySubscriptionResponseBody",
    "Heartbeat": f"{_REMOTING}heartbeat.HeartbeatData",
    "JavaOffsets": "org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper",
    "KeyValues": f"{_BODY}KVTable",
    "LockBatch": f"{_BODY}LockBatchRequestBody",
    "LockedQueues": f"{_BODY}LockBatchResponseBody",
    "OffsetWrapper": f"{_REMOTING}admin.OffsetWrapper",
    "Policy": f"{_BODY}AclInfo$PolicyInfo",
    "PolicyEntry": f"{_BODY}AclInfo$PolicyEntryInfo",
    "PopQueueInfo": f"{_BODY}PopProcessQueueInfo",
    "ProcessQueueInfo": f"{_BODY}ProcessQueueInfo",
    "ProducerConnections": f"{_BODY}ProducerConnection",
    "ProducerData": f"{_REMOTING}heartbeat.ProducerData",
    "ProducerInfo": f"{_BODY}ProducerInfo",
    "QueueAssignment": f"{_COMMON}message.MessageQueueAssignment",
    "QueueData": f"{_REMOTING}route.QueueData",
    "QueueTimeSpan": f"{_BODY}QueueTimeSpan",
    "RequestMode": f"{_BODY}SetMessageRequestModeRequestBody",
    "ResetOffsets": f"{_BODY}ResetOffsetBody",
    "RunningInfo": f"{_BODY}ConsumerRunningInfo",
    "SubscriptionData": f"{_REMOTING}heartbeat.SubscriptionData",
    "TopicConfig": f"{_COMMON}TopicConfig",
    "TopicConfigList": f"{_BODY}CreateTopicListRequestBody",
    "TopicConfigTable": f"{_BODY}TopicConfigSerializeWrapper",
    "TopicList": f"{_BODY}TopicList",
    "TopicOffset": f"{_REMOTING}admin.TopicOffset",
    "TopicRoute": f"{_REMOTING}route.TopicRouteData",
    "TopicStats": f"{_REMOTING}admin.TopicStatsTable",
    "UserInfo": f"{_BODY}UserInfo",
}
"""Each of our bodies, and whose place it takes."""

_WIRE_NAMES = {
    ("", "isWithoutSub"): "withoutSub",
    **{
        ("BatchAckEntry", field): name
        for field, name in {
            "consumerGroup": "c", "topic": "t", "retry": "r", "startOffset": "so", "queueId": "q",
            "reviveQueueId": "rq", "popTime": "pt", "invisibleTime": "it", "bitSet": "b",
        }.items()
    },
}  # fmt: skip
"""Where a field's name on the wire is another."""

VALUES = (
    *("0", "1", "-1", "5", "7", "-0", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("123456789012345678901234567890", "1.0", "1.9", "-1.9", "0.5", "-0.5", "1e3", "1.5e-7", "1e400"),
    *("true", "false", "null", "[]", "{}", '{"b":1}', '{"b":"x"}', '{"1":1}'),
    *("[1]", "[null]", '["1"]', '["x"]', "[1,2]", "[true]", "[[1]]", "[2.7]", "[{}]", '["a",1,true,1.5,{"b":1}]'),
    *('""', '" "', '"null"', '"NULL"', '"true"', '"false"', '"TRUE"', '"Y"', '"N"', '"T"', '"yes"', '"x"', '"a,b"'),
    *('"0"', '"1"', '"2"', '"5"', '"6"', '"13"', '"-3"', '"-0"', '"+7"', '"00012"', '"1."', '".5"', '"1.0"', '"1.9"'),
    *('"1e3"', '" 11 "', '"1 "', '"0x10"', '"NaN"', '"Infinity"', '"1L"', '"1,000"', '"1_0"', '"\\u0661"'),
    *('"9999999999"', '"1795000000000"', '"9223372036854775808"', '"2020-01-01 00:00:00"', '"YWI="', '"YWI"'),
    *('"CLUSTERING"', '"clustering"', '"consume_passively"', '"CONSUMEFROMTIMESTAMP"', '"cpp"', '"CR_LATER"'),
    *('"multi_tag"', '"Pop"', '"exponential"', '"[1]"', '"{}"', '"a\tb"'),
)
"""Every kind of value that a text of JSON may hold, as it is written there."""


def asked() -> dict[str, Any]:
    """The table, of the classes themselves."""
    fields = dict(zip(JAVA, oracle.ask([{"fields": java} for java in JAVA.values()]), strict=True))
    kinds = {
        key_of(kind): (name, field) for name in reversed(JAVA) for field, kind in fields[name].items()
    }  # of each kind, the first field that has it
    questions = [
        (kind, name, field, value) for kind, (name, field) in sorted(kinds.items()) for value in values_of(kind)
    ]
    answers = oracle.ask(
        [
            {"body": JAVA[name], "json": f'{{"{wire_name(name, field)}":{value}}}'}
            for _, name, field, value in questions
        ],
        timeout_s=300,
    )
    results: dict[str, dict[str, Any]] = {}
    for (kind, _, field, value), answer in zip(questions, answers, strict=True):
        if answer != REFUSED:
            results.setdefault(kind, {})[value] = _plain(kind, answer[field])
    return {
        "made by": f"python -m tests.interop.bodies, of RocketMQ {jars.VERSION}'s classes",
        "fields": {
            name: {wire_name(name, field): kind for field, kind in found.items()} for name, found in fields.items()
        },
        "results": results,
    }


def key_of(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else " ".join(kind)


def values_of(kind: str) -> tuple[str, ...]:
    """Every value, and where plain ones are held in lists or maps, each of them there."""
    if "rocketmq" in kind or "Map<java.lang.String, java.util" in kind:
        return VALUES
    if "Map<" in kind:
        return (*VALUES, *(f'{{"1":{value}}}' for value in VALUES))
    if kind.endswith("[]") or "List<" in kind or "Set<" in kind:
        return (*VALUES, *(f"[{value}]" for value in VALUES))
    return VALUES


def wire_name(name: str, field: str) -> str:
    return _WIRE_NAMES.get((name, field)) or _WIRE_NAMES.get(("", field)) or field


def _plain(kind: str, value: Any) -> Any:
    """Of bodies within bodies no more than how many there are: what is in them has rows of its own."""
    if "rocketmq" in kind and value is not None:
        return len(value) if isinstance(value, list) else "object"
    return value


if __name__ == "__main__":
    table = asked()
    parts = [f'"made by": {json.dumps(table["made by"])}']
    for part in ("fields", "results"):
        rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in table[part].items())
        parts.append(f'"{part}": {{\n{rows}\n}}')
    TABLE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
