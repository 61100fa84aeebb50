"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): make a group, or change its settings; answered when it is on disk.

Differences: consumeEnable, consumeBroadcastEnable, retryQueueNums, retryMaxTimes and notifyConsumerIdsChangedEnable
are acted on; the others are kept and shown. At most the broker's quota of groups.
"""

from __future__ import annotations

from framework.broker.configs import put_group
from framework.broker.request import Answer, Request, when_saved
from framework.wire.bodies.config import GroupConfig


def handle(request: Request) -> Answer:
    put_group(request.node.rules, GroupConfig.decode(request.command.body))
    return when_saved()
