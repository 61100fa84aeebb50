"""Every body: golden texts of the Java classes, and a round trip of each."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import ProtocolError
from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription
from framework.wire import bodies
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, subscriptions_of
from framework.wire.bodies.progress import ConsumeStats, OffsetWrapper, ResetOffsets
from framework.wire.bodies.route import BrokerData, QueueData, TopicRoute
from framework.wire.bodies.running import ProcessQueueInfo, RunningInfo
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32

QUEUE = MessageQueue("T", "b", 0)
HEARTBEAT = Heartbeat(
    client_id="10.0.0.1@x",
    consumers=(
        ConsumerData(
            group="g1", subscriptions=subscriptions_of([Subscription("TopicTest", "TagA || TagB", 1_700_000_000_000)])
        ),
    ),
)
GOLDEN = [
    (
        HEARTBEAT,
        (
            '{"clientID":"10.0.0.1@x","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
            '"consumeType":"CONSUME_PASSIVELY","groupName":"g1","messageModel":"CLUSTERING","subscriptionDataSet":'
            '[{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
            '"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"TopicTest"}],"unitMode":false}],'
            '"heartbeatFingerprint":0,"producerDataSet":[],"withoutSub":false}'
        ),
    ),
    (
        TopicRoute(
            queues=(QueueData(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6),),
            brokers=(BrokerData(broker_name="b", broker_addrs={0: "1.2.3.4:10911"}, cluster="c"),),
        ),
        (
            '{"brokerDatas":[{"brokerAddrs":{0:"1.2.3.4:10911"},"brokerName":"b","cluster":"c",'
            '"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,'
            '"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
        ),
    ),
    (
        ResetOffsets(offsets={QUEUE: 5, MessageQueue("T", "b", 1): 7}),
        ('{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5,{"brokerName":"b","queueId":1,"topic":"T"}:7}}'),
    ),
    (
        ConsumeStats(offsets={QUEUE: OffsetWrapper(broker_offset=10, consumer_offset=4)}),
        (
            '{"consumeTps":0.0,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":10,'
            '"consumerOffset":4,"lastTimestamp":0,"pullOffset":0}}}'
        ),
    ),
    (
        RunningInfo(queues={QUEUE: ProcessQueueInfo()}, properties={"PROP_CLIENT_VERSION": "V5_3_3"}),
        (
            '{"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"cachedMsgCount":0,'
            '"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,"commitOffset":0,"droped":false,'
            '"lastConsumeTimestamp":0,"lastLockTimestamp":0,"lastPullTimestamp":0,"locked":false,'
            '"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},'
            '"properties":{"PROP_CLIENT_VERSION":"V5_3_3"},"statusTable":{},"subscriptionSet":[],'
            '"userConsumerInfo":{}}'
        ),
    ),
]


@pytest.mark.parametrize(("value", "text"), GOLDEN, ids=lambda value: type(value).__name__)
def test_a_body_is_written_and_read_as_the_java_class_writes_it(value: Body, text: str) -> None:
    assert text.encode() == value.encode(quote_integer_keys=False)
    assert value == type(value).decode(text.encode())


def test_a_route_is_standard_json_unless_asked_otherwise() -> None:
    route = GOLDEN[1][0]

    assert {"0": "1.2.3.4:10911"} == json.loads(route.encode())["brokerDatas"][0]["brokerAddrs"]


def test_offsets_for_administrators_in_c_are_read() -> None:
    text = b'{"offsetTable":[{"topic":"T","brokerName":"b","queueId":0,"offset":5}]}'

    assert ResetOffsets(offsets={QUEUE: 5}) == ResetOffsets.decode(text)


def test_the_fingerprint_is_javas_and_knows_neither_client_nor_versions() -> None:
    assert -1_325_218_995 == HEARTBEAT.computed_fingerprint()
    later = Heartbeat(
        client_id="another",
        fingerprint=5,
        consumers=(
            ConsumerData(group="g1", subscriptions=subscriptions_of([Subscription("TopicTest", "TagA || TagB", 5)])),
        ),
    )
    assert -1_325_218_995 == later.computed_fingerprint()


def test_the_short_heartbeat_has_a_fingerprint_and_no_subscriptions() -> None:
    short = HEARTBEAT.shortened(7)

    assert (7, True, ()) == (short.fingerprint, short.is_without_subscriptions, short.consumers[0].subscriptions)
    assert "10.0.0.1@x" == short.client_id


def every_body() -> dict[str, type[Body]]:
    modules = [
        importlib.import_module(f"{bodies.__name__}.{one.name}") for one in pkgutil.iter_modules(bodies.__path__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and is_dataclass(kind) and issubclass(kind, Body)
    }


BODIES = every_body()
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    Int32: st.integers(-(2**31), 2**31 - 1),
    float: st.floats(-1e200, 1e200),
    bytes: st.binary(max_size=5),
    MessageQueue: st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 9)),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in SCALARS:
        return SCALARS[hint]
    if get_origin(hint) is Annotated:
        return st.sampled_from(hint.__metadata__[0])
    if get_origin(hint) is UnionType or NoneType in get_args(hint):
        return st.none() | values_of(next(part for part in get_args(hint) if part is not NoneType))
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) is Mapping:
        key, value = get_args(hint)
        return st.dictionaries(values_of(key), values_of(value), max_size=2)
    hints = get_type_hints(hint, include_extras=True)
    return st.builds(hint, **{one.name: values_of(hints[one.name]) for one in fields(hint)})


@pytest.mark.parametrize("name", sorted(BODIES))
def test_decoding_gives_back_what_was_encoded(name: str) -> None:
    kind = BODIES[name]

    @settings(max_examples=25)
    @given(values_of(kind), st.booleans())
    def check(value: Any, quote: bool) -> None:
        assert value == kind.decode(value.encode(quote_integer_keys=quote))

    check()


@pytest.mark.parametrize("name", sorted(BODIES))
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b'"x"', b"\xff", b"{" * 100_000])
def test_what_is_no_object_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        BODIES[name].decode(data)
