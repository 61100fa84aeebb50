"""What a group wants, changed while it runs: from consumers to consumers, from plan to plan. Nothing is done here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from framework.declare import Consumer
from framework.declare.resources import Resource, in_order
from framework.errors import nearest
from framework.mistakes import ArgumentWrong, GroupNotHere, WrongMoment
from framework.model.namespaces import wrap
from framework.runtime.group.plan import GroupPlan
from framework.services.call.resources import AnyResource, Values

Consumers = tuple[Consumer[..., Any], ...]


def asked_by(consumer: Consumer[..., Any]) -> list[AnyResource]:
    """The resources that its arguments name, and those that say whether it may start."""
    of_gate = consumer.spec.ready.needs.values() if consumer.spec.ready is not None else ()
    found = [each.resource for each in consumer.spec.arguments if each.resource is not None]
    return found + [need for need in of_gate if isinstance(need, Resource)]


def check_open(consumer: Consumer[..., Any], values: Values) -> None:
    """Resources of the application are opened before anything is consumed, so none can come with a late handler."""
    if consumer.spec.ready is not None:
        raise WrongMoment(
            f"subscribe({consumer.spec.name}): ready_when has no effect, because the group already runs; remove it",
            place=consumer.spec.place,
        )
    for each in in_order(asked_by(consumer)):
        if each.scope == "app" and each not in values:
            raise WrongMoment(
                f"subscribe({consumer.spec.name}): resource {each.name!r} is opened at startup only, and no handler "
                "needed it then",
                place=consumer.spec.place,
            )


def with_consumer(consumers: Consumers, added: Consumer[..., Any]) -> Consumers:
    """These consumers with one more, in the place of the one of its topic and group."""
    topic, group = added.spec.topic, added.spec.group
    return (*(each for each in consumers if (each.spec.topic, each.spec.group) != (topic, group)), added)


def without_topic(consumers: Consumers, group: str, topic: str) -> Consumers:
    """These consumers without the one of a topic. A group's last topic stays: nobody could rebalance nothing."""
    topics = [each.spec.topic for each in consumers if each.spec.group == group]
    if topic not in topics:
        hint = nearest(topic, topics) or f"; it has {', '.join(topics)}"
        raise GroupNotHere(f"unsubscribe({group!r}, {topic!r}): the group has no such topic{hint}")
    if len(topics) == 1:
        raise ArgumentWrong(f"unsubscribe({group!r}, {topic!r}): a group needs a topic; pause the group instead")
    return tuple(each for each in consumers if (each.spec.topic, each.spec.group) != (topic, group))


def dated(plan: GroupPlan, version: int) -> GroupPlan:
    """The plan with subscriptions of this version, by which brokers tell the newer one, before they hear of it."""
    return replace(plan, subscriptions=tuple(replace(each, version=version) for each in plan.subscriptions))


def changed(running: GroupPlan, plans: Sequence[GroupPlan], topic: str) -> GroupPlan:
    """The running plan with the subscriptions and handlers of its successor; only this topic's are new.

    Its version is above all that brokers have heard of this group, also where the clock was set back.
    """
    new = next(plan for plan in plans if plan.name == running.name)
    topic = wrap(running.namespace, topic)
    before = {each.topic: each for each in running.subscriptions}
    raised = max(running.version + 1, new.version)
    return replace(
        running,
        subscriptions=tuple(
            replace(each, version=raised) if each.topic == topic else before[each.topic] for each in new.subscriptions
        ),
        handling={name: each if name == topic else running.handling[name] for name, each in new.handling.items()},
    )
