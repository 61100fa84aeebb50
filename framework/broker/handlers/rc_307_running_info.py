"""GET_CONSUMER_RUNNING_INFO (307): a member's own report, passed on; 1 not online, 207 no answer in 10 s.

Differences: if a member's connection ends meanwhile, the answer is 207 at once.
"""

from __future__ import annotations

from framework.broker.asking_members import ask_member
from framework.broker.request import Answer, Request
from framework.wire.command import RemotingCommand
from framework.wire.requests.inbound import RunningInfoRequest


def handle(request: Request) -> Answer:
    header = request.header(RunningInfoRequest)
    question = RemotingCommand(RunningInfoRequest.CODE, dict(request.command.fields))
    return ask_member(request, header.consumer_group, header.client_id, question)
