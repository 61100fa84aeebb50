"""What goes wrong with one group's queues on a real cluster touches no other group, and ends soon after its cause.

How soon is bounded in virtual time (`scenarios/test_one_group_fails.py`); on a machine with nothing else to do it is
measured here, too: `make slow PART=one_group_fails`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import App, Message, Producer, consumer
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.host import PluginHost
from framework.hooks.markers import hookimpl
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from framework.net.real_world import real_world
from framework.ports import Listening, Network, PipeOwner
from framework.settings.schema import AppSettings
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.interop.cluster import Addresses
from tests.interop.inside import owned, running, seconds_until
from tests.interop.mqadmin import Admin
from tests.patience import PATIENCE_S, until
from tests.wire.frames import decode_frame

pytestmark = pytest.mark.interop

QUEUES = 6
COUNT = 60
REQUEST_TIMEOUT_S = 3.0
HEALED_S = [pytest.param(PATIENCE_S, id="at load"), pytest.param(2.0, id="within two seconds", marks=pytest.mark.slow)]


class Fragile:
    """Divides as `averaging` does, until it is told to raise."""

    name = "fragile"
    is_broken = False

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if self.is_broken:
            raise ZeroDivisionError("no rooms today")
        return Averaging().allocate(member, members, queues)

    @hookimpl
    def register_allocation_strategies(self) -> list[AllocationStrategy]:
        return [self]


class Lossy:
    """The machine's network, which loses the requests that it is told to lose; nobody ever answers those."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.loses: Callable[[RemotingCommand], bool] = lambda request: False
        self.lost_at = 0.0

    async def connect(
        self, owner: PipeOwner, host: str, port: int, *, tls: Any = None, server_name: str | None = None
    ) -> None:
        await self._network.connect(_Owner(owner, self), host, port, tls=tls, server_name=server_name)

    def sockets_max(self, wanted: int) -> int:
        return self._network.sockets_max(wanted)

    async def listen(self, make_owner: Callable[[], PipeOwner], host: str, port: int, *, tls: Any = None) -> Listening:
        return await self._network.listen(make_owner, host, port, tls=tls)

    def kept(self, data: bytes) -> Iterator[bytes]:
        """Of whole frames, those that go out."""
        at = 0
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4])
            if self.loses(decode_frame(data[at + 4 : end])):
                self.lost_at = time.monotonic()
            else:
                yield data[at:end]
            at = end


class _Owner:
    """As the owner that it stands for, but what that one writes goes through the sieve."""

    def __init__(self, owner: PipeOwner, network: Lossy) -> None:
        self._owner, self._network = owner, network

    def connection_made(self, transport: Any) -> None:
        self._owner.connection_made(_Pipe(transport, self._network))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)


class _Pipe:
    def __init__(self, transport: Any, network: Lossy) -> None:
        self._transport, self._network = transport, network

    def write(self, data: bytes) -> None:
        if kept := b"".join(self._network.kept(bytes(data))):
            self._transport.write(kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Shop:
    """Applications with two groups each, `billing` that has trouble and `audit` that has none."""

    def __init__(self, name_server: str, topic: str, *, billed: str = "", strategy: str = "averaging") -> None:
        self.name_server, self.topic, self.billed, self.strategy = name_server, topic, billed or topic, strategy
        self.billing, self.audit = f"billing-of-{topic}", f"audit-of-{topic}"
        self.handled: dict[str, list[bytes]] = {self.billing: [], self.audit: []}
        self.fragile = Fragile()
        self.network = Lossy(real_world().network)
        self.apps: list[App] = []

    def open(self) -> App:
        """One more application."""

        @consumer(self.billed, self.billing)
        async def bill(message: Message) -> None:
            self.handled[self.billing].append(message.body)

        @consumer(self.topic, self.audit)
        async def check(message: Message) -> None:
            self.handled[self.audit].append(message.body)

        settings = AppSettings.model_validate(
            {
                "cluster": {"name_servers": [self.name_server], "request_timeout": f"{REQUEST_TIMEOUT_S:g}s"},
                "consumers": {
                    self.billing: {"start": "first", "allocation": self.strategy},
                    self.audit: {"start": "first"},
                },
            }
        )
        plugins = PluginHost(settings.plugins, settings, objects={"fragile": self.fragile}, discover=lambda: ())
        world = replace(real_world(), network=self.network)
        self.apps.append(App(settings, [bill, check], world=world, plugins=plugins))
        return self.apps[-1]

    def shares(self, group: str, topic: str) -> list[int]:
        return [len(owned(app, group, topic)) for app in self.apps]

    async def send(self, topic: str) -> set[bytes]:
        bodies = {b"%d" % number for number in range(COUNT)}
        async with Producer(name_servers=[self.name_server]) as producer:
            for body in bodies:
                await producer.send(topic, body)
        return bodies


def complaints(lines: list[MutableMapping[str, Any]]) -> set[tuple[str, str]]:
    """The groups that could not be divided, and why."""
    told = {"rebalance failed", "topic not found yet"}
    return {(line["group"], line.get("reason", line["event"])) for line in lines if line["event"] in told}


@pytest.mark.parametrize("within_s", HEALED_S)
@pytest.mark.parametrize("trouble", ["a strategy that raises", "a member list that does not come"])
def test_the_other_group_is_divided_anew_meanwhile_and_all_is_healed_soon_after(
    trouble: str, within_s: float, cluster: Addresses, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=QUEUES)
    shop = Shop(cluster.name_server, topic, strategy="fragile")

    def is_list_of_billing(request: RemotingCommand) -> bool:
        return request.code == RequestCode.GET_CONSUMER_LIST_BY_GROUP and (
            request.fields["consumerGroup"] == shop.billing
        )

    async def scenario() -> None:
        async with running(shop.open(), shop.open()):
            await until(lambda: [3, 3] == shop.shares(shop.billing, topic) == shop.shares(shop.audit, topic))
            lines.clear()  # the topic was made a moment ago, so both may have missed it
            if trouble == "a strategy that raises":
                shop.fragile.is_broken = True
            else:
                shop.network.loses = is_list_of_billing
            async with running(shop.open()):
                await until(lambda: shop.shares(shop.audit, topic) == [2, 2, 2] and complaints(lines))
                sent = await shop.send(topic)
                await until(lambda: all(sent <= set(handled) for handled in shop.handled.values()))
                # Whoever has its queues keeps them, and works on; who is new has none yet.
                assert [3, 3, 0] == shop.shares(shop.billing, topic)
                assert [2, 2, 2] == shop.shares(shop.audit, topic)

                shop.fragile.is_broken = False
                shop.network.loses = lambda request: False
                # What was asked before is never answered: until then the cause is not over.
                await asyncio.sleep(max(0.0, shop.network.lost_at + REQUEST_TIMEOUT_S - time.monotonic()))
                healed_s = await seconds_until(lambda: shop.shares(shop.billing, topic) == [2, 2, 2], within_s)
                print(f"{trouble}: healed {healed_s:.2f} s after its end")
        assert all(sent == set(handled) for handled in shop.handled.values())

    with capture_logs() as lines:
        asyncio.run(scenario())
    assert {shop.billing} == {group for group, _ in complaints(lines)}, complaints(lines)


@pytest.mark.parametrize("within_s", HEALED_S)
def test_a_topic_without_a_route_holds_up_nobody_and_is_taken_when_it_is_there(
    within_s: float, cluster: Addresses, admin: Admin, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(queues=QUEUES)
    later = f"later-than-{topic}"
    shop = Shop(cluster.name_server, topic, billed=later)

    async def scenario() -> None:
        async with running(shop.open(), shop.open()):
            await until(lambda: shop.shares(shop.audit, topic) == [3, 3] and complaints(lines))
            sent = await shop.send(topic)
            await until(lambda: sent <= set(shop.handled[shop.audit]))
            assert [0, 0] == shop.shares(shop.billing, later)

            await asyncio.to_thread(admin.run, "updateTopic", "-c", "DefaultCluster", "-t", later, "-r", "4", "-w", "4")
            taken_s = await seconds_until(lambda: shop.shares(shop.billing, later) == [2, 2], within_s)
            print(f"a new topic: taken {taken_s:.2f} s after its making")
            assert [3, 3] == shop.shares(shop.audit, topic)
            sent = await shop.send(later)
            await until(lambda: sent <= set(shop.handled[shop.billing]))

    with capture_logs() as lines:
        asyncio.run(scenario())
    found = complaints(lines)
    assert (shop.billing, "topic not found yet") in found
    # The other one's topic was made a moment ago, too.
    assert found <= {(shop.billing, "topic not found yet"), (shop.audit, "topic not found yet")}
