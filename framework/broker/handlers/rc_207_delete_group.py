"""DELETE_SUBSCRIPTIONGROUP (207): forget a group's settings and, where asked for, its offsets.

Differences: its send-backs and what it has popped are forgotten too, so that a group of the same name starts without
them. None other known.
"""

from __future__ import annotations

from framework.broker.node import Node
from framework.broker.request import AfterCommit, Answer, Request, ok
from framework.broker.store.popped import forget_group
from framework.broker.store.sent_back import forget
from framework.broker.store.writer import Transaction
from framework.wire.requests.admin import DeleteGroupRequest


def handle(request: Request) -> Answer:
    header = request.header(DeleteGroupRequest)
    node, group = request.node, header.group_name
    node.rules.groups.drop(group)
    if header.clean_offset:
        node.offsets.drop_where(group=group)
        node.progress.drop_where(group=group)
    _forget_figures(node, group)

    def change(transaction: Transaction) -> None:
        forget(transaction.connection, node.name, group)
        forget_group(transaction.connection, node.name, group)

    return AfterCommit(change, lambda _: ok())


def _forget_figures(node: Node, group: str) -> None:
    node.pulled = {key: offset for key, offset in node.pulled.items() if key[0] != group}
    node.rates = {key: rate for key, rate in node.rates.items() if key[0] != group}
