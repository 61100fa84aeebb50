"""GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201): every group with its settings; a page of them where one is asked for.

Differences: none known.
"""

from __future__ import annotations

from framework.broker.configs import group_config, page_of, version_of
from framework.broker.request import Answer, Request, ok
from framework.wire.bodies.config import GroupConfigTable
from framework.wire.fields import to_fields
from framework.wire.requests.admin import AllGroupConfigsAnswer, AllGroupConfigsRequest

_MAY_NOT_READ = 1 << 2  # PermName.INDEX_PERM_READ


def handle(request: Request) -> Answer:
    header = request.header(AllGroupConfigsRequest)
    node = request.node
    groups = dict(node.rules.groups.items())
    names = page_of(list(groups), header.group_seq, header.max_group_num)
    table = GroupConfigTable(
        groups={name: group_config(groups[name]) for name in names},
        forbidden={
            name: dict.fromkeys(groups[name].forbidden, _MAY_NOT_READ) for name in names if groups[name].forbidden
        },
        version=version_of(node.rules.groups, node.started_ms),
    )
    return ok(to_fields(AllGroupConfigsAnswer(total_group_num=len(groups))), table.encode())
