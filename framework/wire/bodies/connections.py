"""Who is connected to a broker."""

from __future__ import annotations

from collections.abc import Mapping

from framework.wire.bodies.enums import ConsumeFrom, ConsumeType, LanguageName, MessageModel
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire


class ClientConnection(Body):
    client_id: str
    client_addr: str
    language: LanguageName = "OTHER"
    version: Int32 = 0


class ConsumerConnections(Body):
    """A group's members and what they subscribe to."""

    connections: tuple[ClientConnection, ...] = wire("connectionSet", default=())
    subscriptions: Mapping[str, SubscriptionData] = wire("subscriptionTable", default_factory=dict)
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from: ConsumeFrom | None = wire("consumeFromWhere", default=None)


class ProducerConnections(Body):
    connections: tuple[ClientConnection, ...] = wire("connectionSet", default=())


class ProducerInfo(Body):
    client_id: str
    remote_ip: str = wire("remoteIP")
    language: LanguageName = "OTHER"
    version: Int32 = 0
    last_update_timestamp: int = 0


class AllProducers(Body):
    """Group -> its connections."""

    groups: Mapping[str, tuple[ProducerInfo, ...]] = wire("data", default_factory=dict)


class GroupSubscription(Body):
    """What a group wants of a topic; None where it wants nothing."""

    group: str
    topic: str
    subscription: SubscriptionData | None = wire("subscriptionData", default=None)
