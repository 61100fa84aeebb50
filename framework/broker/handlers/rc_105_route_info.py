"""GET_ROUTEINFO_BY_TOPIC (105): the brokers and queues of a topic; 17 if no broker has it.

Differences: every port answers, for every logical broker of the process. A new topic is routable at once, where a name
server hears of it with the broker's registration. orderTopicConf is shown if 100 has set one, without a switch for it.
"""

from __future__ import annotations

from framework.broker.name_server import route_of
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare
from framework.wire.codes import ResponseCode
from framework.wire.requests.route import RouteRequest

_STANDARD_JSON_VERSION = 401  # V4_9_4: from here on clients read quoted keys; older ones only what fastjson writes


def handle(request: Request) -> Answer:
    header = request.header(RouteRequest)
    route = route_of(request.node.neighbours(), header.topic)
    if route is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {bare(header.topic)}",
        )
    is_standard = request.command.version >= _STANDARD_JSON_VERSION or header.accept_standard_json_only is True
    return ok(body=route.encode(quote_integer_keys=is_standard))
