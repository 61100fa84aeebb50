"""Faults of one of two brokers: it restarts, or a name server that has restarted does not know it yet.

Strikes of fault kinds in `kinds.py`. All logical brokers are one process, so one's restart is what its peers see of it:
its connections are reset, new ones refused for a while, and it has forgotten its members and its locks.
"""

from __future__ import annotations

import asyncio

from framework.broker.handlers.name_server import route_of
from framework.broker.intercept import Interceptor
from framework.broker.locks import QueueLocks
from framework.broker.node import Node
from framework.broker.request import Request
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields
from framework.wire.requests.route import RouteRequest
from tests.simulation.checkers.who_is_heard_counts import LEFT_OUT_MAX_S
from tests.simulation.faults.nemesis import Nemesis, Struck

OFFSETS_SAVED_EACH_S = 5.0
"""`flushConsumerOffsetInterval` of a stock broker."""
REGISTERED_S = 1.0
"""How soon after its start a broker has registered."""


def restart_one(nemesis: Nemesis) -> Struck:
    node, seconds = _one_of_them(nemesis), nemesis.chance.between(0.1, 6.0)
    if node is None:
        return None
    restart(nemesis, node, seconds)
    return "broker", f"{node.name} was started anew, back after {seconds:.1f}s"


def restart(nemesis: Nemesis, node: Node, seconds: float) -> None:
    port = int(node.address.rpartition(":")[2])
    nemesis.network.refuse(nemesis.broker_host, seconds, port)
    nemesis.network.break_connections(nemesis.broker_host, 1.0, port)
    if not node.settings.keeps_locks:
        node.locks = QueueLocks()


async def kill(nemesis: Nemesis, node: Node, seconds: float) -> None:
    """As a stock broker that is killed: it saves offsets each five seconds, this time just that long ago; and the name
    server forgets it at once, until it has registered again.
    """
    broker = nemesis.cluster.broker.broker
    assert broker is not None
    saved = list(node.offsets.table.items())
    await asyncio.sleep(OFFSETS_SAVED_EACH_S)
    restart(nemesis, node, seconds)
    for key, offset in saved:
        node.offsets.table.put(key, offset)
    nemesis.for_a_while(seconds + REGISTERED_S, broker.intercept(without(node)))


def leave_out_of_routes(nemesis: Nemesis) -> Struck:
    node, seconds = _one_of_them(nemesis), nemesis.chance.between(5.0, LEFT_OUT_MAX_S)
    broker = nemesis.cluster.broker.broker
    if node is None or broker is None:
        return None
    nemesis.for_a_while(seconds, broker.intercept(without(node)))
    return "broker", f"the name server has not heard of {node.name} for {seconds:.1f}s"


def without(node: Node) -> Interceptor:
    """Routes as a name server tells them to which this broker has not registered yet."""

    def answer(request: Request) -> RemotingCommand:
        topic = from_fields(RouteRequest, request.command.fields).topic
        route = route_of([each for each in request.node.neighbours() if each is not node], topic)
        if route is None:
            return RemotingCommand(ResponseCode.TOPIC_NOT_EXIST, remark="not registered yet")
        return RemotingCommand(ResponseCode.SUCCESS, body=route.encode())

    return Interceptor(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, answer=answer, times=None)


def _one_of_them(nemesis: Nemesis) -> Node | None:
    """Drawn even where there is only one, so that the stream stays in step."""
    draw, nodes = nemesis.chance.random(), nemesis.logical_brokers
    return nodes[int(draw * len(nodes))] if len(nodes) > 1 else None
