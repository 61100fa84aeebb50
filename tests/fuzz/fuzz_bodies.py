"""JSON bodies and Java's dialect: any bytes are a body or a ProtocolError, and a body can be written and read again.

The first byte chooses the body.
"""

from __future__ import annotations

import sys

from framework.errors import ProtocolError
from framework.wire import dialect
from framework.wire.bodies.config import GroupConfig, TopicConfigTable
from framework.wire.bodies.connections import ConsumerConnections
from framework.wire.bodies.group import Assignments, ConsumerList, LockBatch
from framework.wire.bodies.heartbeat import Heartbeat
from framework.wire.bodies.pop import BatchAck
from framework.wire.bodies.progress import ClientOffsets, ConsumeStats, ResetOffsets, TopicStats
from framework.wire.bodies.route import ClusterInfo, TopicRoute
from framework.wire.bodies.running import RunningInfo
from framework.wire.bodies.shape import Body
from tests.fuzz.alone import alone

BODIES: list[type[Body]] = [
    TopicRoute, Heartbeat, ConsumerList, LockBatch, ResetOffsets, ConsumeStats, RunningInfo, TopicStats, ClusterInfo,
    ConsumerConnections, ClientOffsets, TopicConfigTable, GroupConfig, Assignments, BatchAck,
]  # fmt: skip
_QUEUE = '{"brokerName":"b","queueId":0,"topic":"T"}'
_TEXTS = [
    (
        '{"brokerDatas":[{"brokerAddrs":{0:"1.2.3.4:10911"},"brokerName":"b","cluster":"c","zoneName":"z"}],'
        '"filterServerTable":{},"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        '"writeQueueNums":4}]}'
    ),
    (
        '{"clientID":"10.0.0.1@x","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        '"consumeType":"CONSUME_PASSIVELY","groupName":"g1","messageModel":"CLUSTERING","subscriptionDataSet":'
        '[{"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1700000000000,'
        '"tagsSet":["TagA","TagB"],"topic":"TopicTest"}],"unitMode":false}],"heartbeatFingerprint":0,'
        '"producerDataSet":[{"groupName":"p"}],"withoutSub":false}'
    ),
    '{"consumerIdList":["a","b"]}',
    f'{{"consumerGroup":"g","clientId":"c","mqSet":[{_QUEUE}],"onlyThisBroker":false}}',
    f'{{"offsetTable":{{{_QUEUE}:5}}}}',
    f'{{"consumeTps":0.0,"offsetTable":{{{_QUEUE}:{{"brokerOffset":10,"consumerOffset":4}}}}}}',
    f'{{"mqPopTable":{{}},"mqTable":{{{_QUEUE}:{{"cachedMsgCount":0,"droped":false}}}},"properties":{{"a":"b"}}}}',
    f'{{"offsetTable":{{{_QUEUE}:{{"maxOffset":5}}}},"topicPutTps":1.5e3}}',
    '{"brokerAddrTable":{"b":{"brokerAddrs":{0:"x",1:"y"},"brokerName":"b"}},"clusterAddrTable":{"c":["b"]}}',
    '{"connectionSet":[{"clientId":"c","clientAddr":"a","language":"JAVA","version":479}],"subscriptionTable":{}}',
    f'{{"messageQueueTable":[[{_QUEUE},7]],"consumerTable":{{"c":{{{_QUEUE}:"8"}}}}}}',
    '{"topicConfigTable":{"T":{"topicName":"T","attributes":{"+a":"b"}}},"dataVersion":{"counter":1}}',
    '{"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000]}}}',
    f'{{"messageQueueAssignments":[{{"messageQueue":{_QUEUE},"mode":"PULL"}}]}}',
    '{"brokerName":"b","acks":[{"c":"g","t":"t","r":"0","so":1,"q":0,"rq":0,"pt":1,"it":2,"b":"AQI="}]}',
]
SEEDS = [
    *(bytes([number]) + text.encode() for number, text in enumerate(_TEXTS)),
    b"\x02" + b"[" * 3000,
    b"\x02" + b"{0:" * 100,
    b'\x02{0:"\\ud800"}',
    b'\x02{"consumerIdList":NaN}',
]


def check(data: bytes) -> None:
    kind = BODIES[data[0] % len(BODIES)] if data else TopicRoute
    try:
        dialect.loads(data[1:])
        body = kind.decode(data[1:])
    except ProtocolError:
        return
    assert body == kind.decode(body.encode())
    assert body == kind.decode(body.encode(quote_integer_keys=False))


if __name__ == "__main__":
    sys.exit(alone("bodies"))
