"""What 307 and 309 share: an administrator's request, handed on to one member of a group."""

from __future__ import annotations

from framework.broker.request import Refusal, Relay, Request, refuse
from framework.errors import bare
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand

TIMEOUT_MS = 10_000
# V3_1_8_SNAPSHOT: older clients know neither of the two.
_VERSION_MIN = 62


def ask_member(request: Request, group: str, client_id: str, command: RemotingCommand) -> Relay:
    """The member's own answer; 1 where it is not online, 207 where it says nothing for ten seconds."""
    who = f"The Consumer <{bare(group)}> <{bare(client_id)}>"
    member = request.node.members.member(group, client_id)
    if member is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{who} not online")
    if member.version < _VERSION_MIN:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"{who} Version <{member.version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
        )

    def answer(answers: list[RemotingCommand | None]) -> RemotingCommand:
        said = answers[0]
        if said is None:
            return refuse(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: no answer within {TIMEOUT_MS} ms")
        return RemotingCommand(said.code, dict(said.fields), bytes(said.body), remark=said.remark)

    return Relay(((member.client, command),), TIMEOUT_MS, answer)
