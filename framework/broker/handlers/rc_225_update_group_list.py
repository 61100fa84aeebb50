"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225): several groups at once; answered when they are on disk.

Differences: those of 200. The groups before one that is refused have been made.
"""

from __future__ import annotations

from framework.broker.configs import put_group
from framework.broker.request import Answer, Request, when_saved
from framework.wire.bodies.config import GroupConfigList


def handle(request: Request) -> Answer:
    for config in GroupConfigList.decode(request.command.body).groups:
        put_group(request.node.rules, config)
    return when_saved()
