"""GET_KVLIST_BY_NAMESPACE (219): all values of a namespace, or 22.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import key_scope
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.bodies.config import KeyValues
from framework.wire.codes import ResponseCode
from framework.wire.requests.route import KeysOfNamespaceRequest


def handle(request: Request) -> Answer:
    header = request.header(KeysOfNamespaceRequest)
    values = request.node.store.values.of_scope(key_scope(header.namespace))
    if not values:
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {bare(header.namespace)}")
    return ok(body=KeyValues(table=values).encode())
