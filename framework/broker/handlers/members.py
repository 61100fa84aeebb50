"""Members: who is in a group, what they want, and what they say when they are asked."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from framework.broker.answers import Answer, Refusal, Relay, ok, refuse
from framework.broker.filters import EXPRESSION_MAX, KINDS, TAG, Wanted, check_kind, read_first
from framework.broker.members import Member
from framework.broker.node import Node
from framework.broker.request import Request
from framework.errors import ProtocolError, bare, shorten
from framework.model.queue import MessageQueue
from framework.model.subscription import Subscription
from framework.wire.bodies.connections import (
    AllProducers,
    ClientConnection,
    ConsumerConnections,
    GroupSubscription,
    ProducerConnections,
    ProducerInfo,
)
from framework.wire.bodies.group import ConsumerList
from framework.wire.bodies.heartbeat import CheckClientConfig, ConsumerData, Heartbeat, SubscriptionData
from framework.wire.bodies.progress import ClientOffsets
from framework.wire.codes import Language, RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests import admin
from framework.wire.requests.group import HeartbeatAnswer, MembersRequest, UnregisterRequest
from framework.wire.requests.inbound import ClientStatusRequest, ConsumeDirectlyRequest, RunningInfoRequest


def heart_beat(request: Request) -> Answer:
    """HEART_BEAT (34): a client says which groups it is in and what they want; unknown groups and retry topics are
    made.

    Differences: a short one (V2) on a connection that has sent no whole one is answered with IS_SUB_CHANGE, so that a
    whole one follows; RocketMQ takes the member without its subscriptions until something changes. If all heartbeats
    together hold more than `--limit heartbeat-bytes`, a heartbeat that adds to it gets 2; known members stay. An
    expression has 65,536 characters at most, else 29. SQL92 is read at the first pull, which is told what is wrong with
    it.
    """
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
                Wanted(
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


def unregister_client(request: Request) -> Answer:
    """UNREGISTER_CLIENT (35): a client leaves a group, which is made where there is none; the others hear of it at
    once.
    """
    header = request.header(UnregisterRequest)
    node = request.node
    if header.consumer_group:
        with suppress(Refusal):
            # Looking a group up makes it. Where that must not be, there is nobody to leave it.
            node.rules.group(header.consumer_group)
        if node.rules.groups.is_dirty:
            node.save_soon()
        node.members.left(request.client, header.consumer_group)
    if header.producer_group:
        node.members.producer_left(request.client, header.producer_group)
    return ok()


def consumer_list(request: Request) -> Answer:
    """GET_CONSUMER_LIST_BY_GROUP (38): the client ids of a group's connections; 1 where there is none."""
    header = request.header(MembersRequest)
    members = request.node.members
    group = members.find(header.consumer_group)
    if group is None or not (group.listing or (ids := members.client_ids(group.name))):
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {bare(header.consumer_group)}")
    if not group.listing:
        group.listing = ConsumerList(consumer_ids=tuple(ids)).encode()
    return ok(body=group.listing)


def check_client_config(request: Request) -> Answer:
    """CHECK_CLIENT_CONFIG (46): whether a group's filter can be used here. Clients ask it of SQL92 before they begin.

    Differences: SQL92 is on by default, where a stock broker refuses it with 1. An error in an expression is described
    in our own words, with its place; 23 as there, also for an unknown kind of expression.
    """
    node = request.node
    told = CheckClientConfig.decode(request.command.body).subscription
    kind = told.expression_type or TAG
    if kind not in KINDS and node.switches.filters_sql:
        raise Refusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"{shorten(kind)} is no kind of expression: use {' or '.join(KINDS)}",
        )
    check_kind(node.switches, kind)
    wish = Wanted(told.topic, told.expression, kind=kind, is_strict=node.settings.is_sql_strict)
    if not wish.is_read:
        return read_first(wish, partial(check_client_config, request))
    if wish.mistake:
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, wish.mistake)
    return ok()


def consumer_connections(request: Request) -> Answer:
    """GET_CONSUMER_CONNECTION_LIST (203): a group's members and what they subscribe to; 206 if no member is online."""
    header = request.header(admin.ConsumerConnectionsRequest)
    group = request.node.members.find(header.consumer_group)
    if group is None:
        raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{bare(header.consumer_group)}] not online")
    return ok(
        body=ConsumerConnections(
            connections=tuple(_connection_of(member) for member in group.members.values()),
            subscriptions={topic: subscription_of(wanted) for topic, wanted in group.wanted.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from=group.consume_from,
        ).encode()
    )


def producer_connections(request: Request) -> Answer:
    """GET_PRODUCER_CONNECTION_LIST (204): the connections of a producer group; 1 where there is none."""
    header = request.header(admin.ProducerConnectionsRequest)
    members = request.node.members.producers(header.producer_group)
    if not members:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{bare(header.producer_group)}] not exist")
    return ok(body=ProducerConnections(connections=tuple(_connection_of(member) for member in members)).encode())


def all_producers(request: Request) -> Answer:
    """GET_ALL_PRODUCER_INFO (328): every producer group with its connections."""
    node = request.node
    groups = {
        group: tuple(_info(node, member) for member in node.members.producers(group))
        for group in node.members.producer_groups()
    }
    return ok(body=AllProducers(groups=groups).encode())


def _info(node: Node, member: Member) -> ProducerInfo:
    return ProducerInfo(
        client_id=member.client_id,
        remote_ip=member.client.peer,
        language=_language_of(member),
        version=member.version,
        last_update_timestamp=node.world.clock.now_ms() - node.members.silence_ms(member),
    )


def subscription_of_group(request: Request) -> Answer:
    """QUERY_SUBSCRIPTION_BY_CONSUMER (345): what a group wants of a topic; nothing if no member is online.

    Differences: a subscription that came with a pull is not shown; RocketMQ remembers it for ten minutes.
    """
    header = request.header(admin.SubscriptionOfGroupRequest)
    topic = header.topic or ""
    group = request.node.members.find(header.group)
    wanted = None if group is None else group.wanted.get(topic)
    subscription = None if wanted is None else subscription_of(wanted)
    return ok(body=GroupSubscription(group=header.group, topic=topic, subscription=subscription).encode())


def running_info(request: Request) -> Answer:
    """GET_CONSUMER_RUNNING_INFO (307): a member's own report, passed on; 1 not online, 207 no answer in 10 s.

    Differences: if a member's connection ends meanwhile, the answer is 207 at once.
    """
    header = request.header(RunningInfoRequest)
    question = RemotingCommand(RunningInfoRequest.CODE, dict(request.command.fields))
    return _ask_member(request, header.consumer_group, header.client_id, question)


def consume_directly(request: Request) -> Answer:
    """CONSUME_MESSAGE_DIRECTLY (309): one member handles one stored message now; answers with the result; 1, 207 as
    307.

    Differences: those of 307. The offset of the group is not touched, as in RocketMQ.
    """
    header = request.header(ConsumeDirectlyRequest)
    node = request.node
    place = parse_offset_message_id(header.msg_id or "")
    found = None if place is None else node.store.log.at_place(place.commit_log_offset)
    if found is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no message has the offset id {shorten(header.msg_id or '')}")
    fields = {**request.command.fields, "brokerName": node.name}
    question = RemotingCommand(ConsumeDirectlyRequest.CODE, fields, found[1])
    return _ask_member(request, header.consumer_group, header.client_id or "", question)


_TIMEOUT_MS = 10_000
# V3_1_8_SNAPSHOT: older clients know neither of the two.
_VERSION_MIN = 62


def _ask_member(request: Request, group: str, client_id: str, command: RemotingCommand) -> Relay:
    """The member's own answer; 1 where it is not online, 207 where it says nothing for ten seconds."""
    who = f"The Consumer <{bare(group)}> <{bare(client_id)}>"
    member = request.node.members.member(group, client_id)
    if member is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{who} not online")
    if member.version < _VERSION_MIN:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"{who} Version <{member.version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
        )

    def answer(answers: list[RemotingCommand | None]) -> RemotingCommand:
        said = answers[0]
        if said is None:
            return refuse(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: no answer within {_TIMEOUT_MS} ms")
        return RemotingCommand(said.code, dict(said.fields), bytes(said.body), remark=said.remark)

    return Relay(((member.client, command),), _TIMEOUT_MS, answer)


_STATUS_TIMEOUT_MS = 5000


def consumer_status(request: Request) -> Answer:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): how far members are by their own account; 1 if none is online.

    Differences: all members are asked at once, for 5 s together (RocketMQ: one after the other, 5 s each). A member
    that does not answer is left out, as there.
    """
    header = request.header(admin.ConsumerStatusRequest)
    group = request.node.members.find(header.group)
    members = [] if group is None else list(group.members.values())
    if not members:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{bare(header.group)}]"
        )
    if header.client_addr and header.client_addr.strip():
        members = [member for member in members if member.client_id == header.client_addr]
    question = to_fields(ClientStatusRequest(topic=header.topic, group=header.group))
    asked = tuple(
        (member.client, RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(question)))
        for member in members
    )

    def answer(answers: list[RemotingCommand | None]) -> RemotingCommand:
        clients: dict[str, dict[MessageQueue, int]] = {}
        for member, said in zip(members, answers, strict=True):
            if said is not None and said.code == ResponseCode.SUCCESS and (offsets := _offsets(said)) is not None:
                clients[member.client_id] = offsets
        return ok(body=ClientOffsets(clients=clients).encode())

    return Relay(asked, _STATUS_TIMEOUT_MS, answer)


def _offsets(said: RemotingCommand) -> dict[MessageQueue, int] | None:
    try:
        return dict(ClientOffsets.decode(said.body).offsets)
    except ProtocolError:
        return None


def _connection_of(member: Member) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.client.peer,
        language=_language_of(member),
        version=member.version,
    )


def _language_of(member: Member) -> str:
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
