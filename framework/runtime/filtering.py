"""Conditions in SQL92 are put to the brokers before their groups join: one that cannot filter refuses the start.

Tags need no question. A broker that is away, busy or too old to be asked holds nobody up; should it turn out not to
filter, its first pull says so, and the group is not ready until it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from framework.client.cluster import Cluster
from framework.client.pulling import NO_FILTER
from framework.errors import FrameworkError, Refused, is_said
from framework.mistakes import FilterRefused
from framework.model.subscription import BY_TAG, Subscription
from framework.net.task_tree import TaskTree
from framework.runtime.group.plan import GroupPlan
from framework.wire.codes import ResponseCode

log = structlog.get_logger()


async def refuse_filters(plans: Sequence[GroupPlan], cluster: Cluster, member: str, tree: TaskTree) -> None:
    """Raise ConfigurationError with all that brokers say against these groups' conditions.

    Every broker of the topic is asked, where Java asks one: they may be configured unlike each other.
    """
    asking = [
        tree.start(_complaint(cluster, broker, plan.name, member, wanted), name=f"filter of {plan.name} at {broker}")
        for plan in plans
        for wanted in plan.subscriptions
        if wanted.kind != BY_TAG
        for broker in sorted(cluster.routes.brokers_of(wanted.topic))
    ]
    found = [complaint for task in asking if (complaint := await task) is not None]
    if found:
        raise FilterRefused("; ".join(found))


async def _complaint(cluster: Cluster, broker: str, group: str, member: str, wanted: Subscription) -> str | None:
    try:
        await cluster.inquiries.check_filter(broker, group, member, wanted)
    except Refused as error:
        if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            return _named(group, wanted, broker, error.remark)
        # Whatever else goes wrong in a broker has this code, too.
        if error.code == ResponseCode.SYSTEM_ERROR and "not support" in error.remark:
            return _named(group, wanted, broker, error.remark + NO_FILTER)
        log.warning("filter not checked", group=group, topic=wanted.topic, broker=broker, reason=str(error))
    except FrameworkError as error:
        told = log.debug if is_said(error) else log.warning
        told("filter not checked", group=group, topic=wanted.topic, broker=broker, reason=str(error))
    return None


def _named(group: str, wanted: Subscription, broker: str, reason: str) -> str:
    return f"group {group}, topic {wanted.topic}, sql={wanted.expression!r}: broker {broker} refuses it: {reason}"
