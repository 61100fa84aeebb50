"""AskedModes: how brokers want a group to take a topic, pull or pop, as administrators set it (`setConsumeMode`)."""

from __future__ import annotations

from framework.client.calls import BrokerCalls
from framework.client.routes import RouteTable
from framework.errors import Refused
from framework.model.queue import MessageQueue
from framework.wire.bodies.group import AssignmentQuery, Assignments
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand

PULL = "PULL"


class AskedModes:
    """At the brokers of one cluster. It owns no state."""

    def __init__(self, calls: BrokerCalls, routes: RouteTable) -> None:
        self._calls, self._routes = calls, routes

    async def mode(self, group: str, topic: str, member: str) -> str:
        """PULL or POP; PULL where the broker is older than such modes. Raises where none can be asked."""
        broker = min(self._routes.brokers_of(topic))
        query = AssignmentQuery(topic=topic, group=group, client_id=member, strategy="AVG").encode()
        request = RemotingCommand(RequestCode.QUERY_ASSIGNMENT, body=query)
        answer = await self._calls.answer(MessageQueue(topic, broker, 0), request)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return PULL
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark or "", request="QUERY_ASSIGNMENT", peer=broker)
        found = Assignments.decode(answer.body).assignments
        return found[0].mode if found else PULL
