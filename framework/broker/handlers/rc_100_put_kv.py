"""PUT_KV_CONFIG (100): a value in a namespace of the name server. ORDER_TOPIC_CONFIG is shown in routes.

Differences: RocketMQ shows ORDER_TOPIC_CONFIG only where orderMessageEnable is set. A namespace is shared by all
logical brokers. At most 1,000 values.
"""

from __future__ import annotations

from framework.broker.name_server import key_scope
from framework.broker.request import Answer, Refusal, Request, when_saved
from framework.wire.codes import ResponseCode
from framework.wire.requests.route import PutKeyRequest

_VALUES_MAX = 1000


def handle(request: Request) -> Answer:
    header = request.header(PutKeyRequest)
    values = request.node.store.values
    scope = key_scope(header.namespace)
    if len(values) >= _VALUES_MAX and values.get(scope, header.key) is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the quota of {_VALUES_MAX} values is used up")
    values.put(scope, header.key, header.value)
    return when_saved()
