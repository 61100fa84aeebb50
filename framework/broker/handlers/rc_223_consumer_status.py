"""INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): how far members are by their own account; 1 if none is online.

Differences: all members are asked at once, for 5 s together (RocketMQ: one after the other, 5 s each). A member that
does not answer is left out, as there.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Relay, Request, ok
from framework.errors import ProtocolError, bare
from framework.model.queue import MessageQueue
from framework.wire.bodies.progress import ClientOffsets
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.admin import ConsumerStatusRequest
from framework.wire.requests.inbound import ClientStatusRequest

_TIMEOUT_MS = 5000


def handle(request: Request) -> Answer:
    header = request.header(ConsumerStatusRequest)
    group = request.node.members.find(header.group)
    members = [] if group is None else list(group.members.values())
    if not members:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{bare(header.group)}]"
        )
    if header.client_addr and header.client_addr.strip():
        members = [member for member in members if member.client_id == header.client_addr]
    question = to_fields(ClientStatusRequest(topic=header.topic, group=header.group))
    asked = tuple(
        (member.client, RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(question)))
        for member in members
    )

    def answer(answers: list[RemotingCommand | None]) -> RemotingCommand:
        clients: dict[str, dict[MessageQueue, int]] = {}
        for member, said in zip(members, answers, strict=True):
            if said is not None and said.code == ResponseCode.SUCCESS and (offsets := _offsets(said)) is not None:
                clients[member.client_id] = offsets
        return ok(body=ClientOffsets(clients=clients).encode())

    return Relay(asked, _TIMEOUT_MS, answer)


def _offsets(said: RemotingCommand) -> dict[MessageQueue, int] | None:
    try:
        return dict(ClientOffsets.decode(said.body).offsets)
    except ProtocolError:
        return None
