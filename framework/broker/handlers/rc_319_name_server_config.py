"""GET_NAMESRV_CONFIG (319): the settings that the name server uses.

Differences: only those that mean something here.
"""

from __future__ import annotations

from framework.broker.properties_text import encode
from framework.broker.request import Answer, Request, ok
from framework.net.address import parse_address


def handle(request: Request) -> Answer:
    host, port = parse_address(request.node.neighbours()[0].address)
    return ok(
        body=encode(
            {
                "bindAddress": host,
                "listenPort": str(port),
                "orderMessageEnable": "true",
                "clusterTest": "false",
            }
        )
    )
