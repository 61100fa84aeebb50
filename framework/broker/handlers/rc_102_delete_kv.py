"""DELETE_KV_CONFIG (102): drop a value of a namespace; 0 also where there is none.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.name_server import key_scope
from framework.broker.request import Answer, Request, when_saved
from framework.wire.requests.route import DeleteKeyRequest


def handle(request: Request) -> Answer:
    header = request.header(DeleteKeyRequest)
    request.node.store.values.drop(key_scope(header.namespace), header.key)
    return when_saved()
