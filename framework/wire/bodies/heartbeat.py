"""Heartbeats: who a client is, what it produces and consumes.

The short form (V2) has an empty subscription and a fingerprint: once the broker has said that it knows the fingerprint,
the subscriptions need not be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from framework.model.subscription import Subscription, java_hash
from framework.wire.bodies.enums import ConsumeFrom, ConsumeType, MessageModel
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire

PASSIVELY = "CONSUME_PASSIVELY"  # what RocketMQ calls a push consumer
CLUSTERING = "CLUSTERING"
BROADCASTING = "BROADCASTING"
FROM_LAST = "CONSUME_FROM_LAST_OFFSET"
FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"
FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
BY_TAG = "TAG"
BY_SQL = "SQL92"


class SubscriptionData(Body):
    """One topic of a group. `codes` are the Java hashes of `tags`: brokers filter by them."""

    topic: str
    expression: str = wire("subString", default="*")
    tags: tuple[str, ...] = wire("tagsSet", default=())
    codes: tuple[Int32, ...] = wire("codeSet", default=())
    version: int = wire("subVersion", default=0)
    expression_type: str = BY_TAG
    class_filter_mode: bool = False

    @staticmethod
    def of(subscription: Subscription) -> SubscriptionData:
        return SubscriptionData(
            topic=subscription.topic,
            expression=subscription.expression,
            tags=subscription.tags,
            codes=subscription.tag_hashes,
            version=subscription.version,
            expression_type=subscription.kind,
        )


class ProducerData(Body):
    group: str = wire("groupName")


class ConsumerData(Body):
    group: str = wire("groupName")
    consume_type: ConsumeType = PASSIVELY
    message_model: MessageModel = CLUSTERING
    consume_from: ConsumeFrom = wire("consumeFromWhere", default=FROM_LAST)
    subscriptions: tuple[SubscriptionData, ...] = wire("subscriptionDataSet", default=())
    unit_mode: bool = False


class Heartbeat(Body):
    """The body of HEART_BEAT."""

    client_id: str = wire("clientID")
    producers: tuple[ProducerData, ...] = wire("producerDataSet", default=())
    consumers: tuple[ConsumerData, ...] = wire("consumerDataSet", default=())
    fingerprint: Int32 = wire("heartbeatFingerprint", default=0)
    is_without_subscriptions: bool = wire("withoutSub", default=False)

    def computed_fingerprint(self) -> int:
        """Java's hash of this heartbeat without what differs between equal ones: client, versions, fingerprint."""
        consumers = tuple(
            replace(one, subscriptions=tuple(replace(each, version=0) for each in one.subscriptions))
            for one in self.consumers
        )
        plain = replace(self, client_id="", consumers=consumers, fingerprint=0, is_without_subscriptions=False)
        return java_hash(plain.encode().decode())

    def shortened(self, fingerprint: int) -> Heartbeat:
        """The short form, for a broker that knows the fingerprint."""
        consumers = tuple(replace(one, subscriptions=()) for one in self.consumers)
        return replace(self, consumers=consumers, fingerprint=fingerprint, is_without_subscriptions=True)


class CheckClientConfig(Body):
    """Whether the broker can compile a group's filter expression."""

    client_id: str
    group: str
    subscription: SubscriptionData = wire("subscriptionData")
    namespace: str | None = None


def subscriptions_of(subscriptions: Iterable[Subscription]) -> tuple[SubscriptionData, ...]:
    return tuple(SubscriptionData.of(one) for one in subscriptions)
