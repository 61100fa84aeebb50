"""Members as administrators see them."""

from __future__ import annotations

from framework.broker.filters import TAG, Wanted
from framework.broker.members import Member
from framework.model.subscription import Subscription
from framework.wire.bodies.connections import ClientConnection
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.codes import Language


def connection_of(member: Member) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.client.peer,
        language=language_of(member),
        version=member.version,
    )


def language_of(member: Member) -> str:
    """By name; a number that we do not know is some other language."""
    try:
        return Language(member.language).name
    except ValueError:
        return Language.OTHER.name


def subscription_of(wanted: Wanted) -> SubscriptionData:
    """A subscription as the heartbeat told it."""
    if wanted.kind != TAG:
        return SubscriptionData(
            topic=wanted.topic, expression=wanted.expression, version=wanted.version, expression_type=wanted.kind
        )
    known = Subscription(wanted.topic, wanted.expression)
    return SubscriptionData(
        topic=wanted.topic,
        expression=wanted.expression,
        tags=known.tags,
        codes=known.tag_hashes,
        version=wanted.version,
    )
