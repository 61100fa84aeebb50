"""Members of groups that say of themselves what a test wants: a Java member's words, or what does not fit together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.net.channel import Channel
from framework.net.real_world import real_world
from framework.wire.bodies.heartbeat import BY_TAG, CLUSTERING, ConsumerData, Heartbeat, SubscriptionData
from framework.wire.bodies.running import IS_ORDERLY, ConsumeStatus, PopQueueInfo, ProcessQueueInfo, RunningInfo
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import PATIENCE_S

T = TypeVar("T")


@dataclass(kw_only=True)
class Member:
    """One process: what its heartbeats and its answer to 307 say. `answers=False`: it says nothing."""

    client_id: str
    group: str
    wants: Mapping[str, str]
    by: str = BY_TAG
    tags: tuple[str, ...] = ()
    """What brokers compare; a client cuts them out of its expression."""
    model: str = CLUSTERING
    orderly: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    queues: Callable[[], Mapping[MessageQueue, ProcessQueueInfo]] = dict
    pops: Mapping[MessageQueue, PopQueueInfo] = field(default_factory=dict)
    statuses: Mapping[str, ConsumeStatus] = field(default_factory=dict)
    answers: bool = True

    @property
    def subscriptions(self) -> tuple[SubscriptionData, ...]:
        return tuple(
            SubscriptionData(topic=topic, expression=text, tags=self.tags, expression_type=self.by)
            for topic, text in self.wants.items()
        )

    def heartbeat(self) -> RemotingCommand:
        wanted = ConsumerData(group=self.group, message_model=self.model, subscriptions=self.subscriptions)
        body = Heartbeat(client_id=self.client_id, consumers=(wanted,)).encode()
        return RemotingCommand(RequestCode.HEART_BEAT, body=body)

    def asked(self, channel: Channel, command: RemotingCommand) -> None:
        if command.code != RequestCode.GET_CONSUMER_RUNNING_INFO:
            return
        if not self.answers:
            channel.answer(command, RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="not told"))
            return
        info = RunningInfo(
            properties={IS_ORDERLY: str(self.orderly).lower(), "messageModel": self.model, **self.properties},
            subscriptions=self.subscriptions,
            queues=self.queues(),
            pop_queues=self.pops,
            statuses=self.statuses,
        )
        channel.answer(command, RemotingCommand(ResponseCode.SUCCESS, body=info.encode()))


@contextmanager
def online(name_server: str, *members: Member) -> Iterator[None]:
    """They have joined, each by connections of its own to every broker of its topics; gone behind it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def call(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_S)

    clusters: list[Cluster] = []

    async def join(member: Member) -> None:
        options = ClusterOptions(name_servers=(name_server,), client_id=member.client_id)
        cluster = Cluster(real_world(), options, on_request=member.asked)
        clusters.append(cluster)
        for topic in member.wants:
            await cluster.routes.queues(topic)
        for address in cluster.routes.masters():
            answer = await cluster.pool.request(address, member.heartbeat(), timeout_ms=60_000)
            assert ResponseCode.SUCCESS == answer.code, answer

    async def leave() -> None:
        for cluster in clusters:
            await cluster.close()

    try:
        for member in members:
            call(join(member))
        yield
    finally:
        call(leave())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
