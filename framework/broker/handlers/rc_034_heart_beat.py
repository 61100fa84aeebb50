"""HEART_BEAT (34): a client says which groups it is in and what they want; unknown groups and retry topics are made.

Differences: a short one (V2) on a connection that has sent no whole one is answered with IS_SUB_CHANGE, so that a whole
one follows; RocketMQ takes the member without its subscriptions until something changes. If all heartbeats together
hold more than `--limit heartbeat-bytes`, one that adds to it gets 2; known members stay. An expression has 65,536
characters at most, else 29. SQL92 is read at the first pull, which is told what is wrong with it.
"""

from __future__ import annotations

from framework.broker.filters import EXPRESSION_MAX, wanted
from framework.broker.node import Node
from framework.broker.request import Answer, Refusal, Request, ok
from framework.errors import shorten
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat
from framework.wire.codes import ResponseCode
from framework.wire.fields import to_fields
from framework.wire.requests.group import HeartbeatAnswer


def handle(request: Request) -> Answer:
    heartbeat = Heartbeat.decode(request.command.body)
    node, command = request.node, request.command
    changed, is_strict = False, node.settings.is_sql_strict
    fingerprint = heartbeat.fingerprint
    is_short = fingerprint != 0 and heartbeat.is_without_subscriptions
    for consumer in heartbeat.consumers:
        _check_expressions(consumer)
        changed |= not node.members.fits(consumer.group, fingerprint)
        if not _make(node, consumer):
            continue
        changed |= is_short and not node.members.is_known(request.client, consumer.group)
        node.members.heard(
            request.client,
            heartbeat.client_id,
            consumer.group,
            None
            if is_short
            else [
                wanted(
                    each.topic, each.expression, kind=each.expression_type, version=each.version, is_strict=is_strict
                )
                for each in consumer.subscriptions
            ],
            consume_type=consumer.consume_type,
            message_model=consumer.message_model,
            consume_from=consumer.consume_from,
            language=command.language,
            version=command.version,
            fingerprint=fingerprint,
        )
    for producer in heartbeat.producers:  # last: nobody lives by being known as a producer
        node.members.heard_producer(
            request.client, heartbeat.client_id, producer.group, language=command.language, version=command.version
        )
    # Only a fingerprint can tell that nothing has changed; without it a stock broker says it has.
    return ok(to_fields(HeartbeatAnswer(supports_v2=True, subscription_changed=changed or not fingerprint)))


def _check_expressions(consumer: ConsumerData) -> None:
    for each in consumer.subscriptions:
        if len(each.expression) > EXPRESSION_MAX:
            what = f"the subscription to {shorten(each.topic)} has {len(each.expression)} characters"
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"{what}, {EXPRESSION_MAX} at most")


def _make(node: Node, consumer: ConsumerData) -> bool:
    """Make the group and its retry topic. One that cannot be made is skipped, and the answer is 0, as RocketMQ's."""
    try:
        node.rules.retry_topic(consumer.group)
    except Refusal:
        return False
    if node.rules.topics.is_dirty:
        node.save_soon()
    return True
