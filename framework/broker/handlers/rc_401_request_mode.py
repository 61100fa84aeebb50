"""SET_MESSAGE_REQUEST_MODE (401): groups pull here, so PULL is 0; 16, 17, 26 as usual.

Differences: POP is refused with 29. Nothing is kept, for there is nothing to choose between.
"""

from __future__ import annotations

from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import bare, shorten
from framework.model.reserved import RETRY_PREFIX
from framework.wire.bodies.group import RequestMode
from framework.wire.codes import ResponseCode


def handle(request: Request) -> Answer:
    wish = RequestMode.decode(request.command.body)
    rules = request.node.rules
    if wish.topic.startswith(RETRY_PREFIX):
        raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if wish.topic not in rules.topics:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{bare(wish.topic)}] not exist")
    if wish.group not in rules.groups:
        raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group [{bare(wish.group)}] not exist")
    if wish.mode != "PULL":
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"mode {shorten(wish.mode)}: groups can only PULL here")
    return ok()
