"""GET_KV_CONFIG (101): a value of a namespace of the name server, or 22.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import key_scope
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.route import GetKeyAnswer, GetKeyRequest


def handle(request: Request) -> Answer:
    header = request.header(GetKeyRequest)
    value = request.node.store.values.get(key_scope(header.namespace), header.key)
    if value is None:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {bare(header.namespace)} Key: {bare(header.key)}",
        )
    return ok(to_fields(GetKeyAnswer(value=value)))
