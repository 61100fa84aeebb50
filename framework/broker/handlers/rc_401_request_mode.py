"""SET_MESSAGE_REQUEST_MODE (401): whether a group pulls a topic or pops it; kept over a restart; 16, 17, 26 as usual.

Differences: a mode that is neither PULL nor POP is refused with 29.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, when_saved
from framework.broker.request_modes import MODES, Mode
from framework.errors import bare
from framework.model.reserved import RETRY_PREFIX
from framework.wire.bodies.group import RequestMode
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    wish = RequestMode.decode(request.command.body)
    node, rules = request.node, request.node.rules
    if wish.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if wish.topic not in rules.topics:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(wish.topic)}] not exist")
    if wish.group not in rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group [{bare(wish.group)}] not exist")
    if wish.mode is None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"mode: use {' or '.join(MODES)}")
    node.pops.modes.put(wish.group, wish.topic, Mode(wish.mode, wish.pop_share_queues))
    return when_saved()
