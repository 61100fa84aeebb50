"""Broker: one process that is name server and broker. It opens the store and the ports, and closes them in order.

What a request means is in `handlers`; who may wait is in `holds`; what survives is in `store`.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import structlog

from framework.broker.delays import TIMER_TOPIC, Delays
from framework.broker.dispatch import Dispatch
from framework.broker.handlers import table_with
from framework.broker.intercept import Interceptor, Interceptors
from framework.broker.node import Node
from framework.broker.quotas import Quotas
from framework.broker.request import Request
from framework.broker.retention import Retention
from framework.broker.rules import User
from framework.broker.sending import deliver_due
from framework.broker.settings import BrokerSettings
from framework.broker.store.database import Database, OpenDatabase, open_folder, open_given, open_memory
from framework.broker.store.queues import Queue
from framework.broker.store.store import Store
from framework.broker.store.writer import Row
from framework.broker.users import Users
from framework.errors import shorten
from framework.mistakes import BindOpen, UsageWrong
from framework.model.box import BoxHandler
from framework.model.reserved import HALF_TOPIC, SCHEDULE_TOPIC
from framework.net.listener import REFUSED_MAX, VIP_DISTANCE, Listener
from framework.net.served import Served
from framework.net.shared_limits import SharedLimits
from framework.net.tls import TlsOptions, server_context
from framework.net.turns import Turns
from framework.ports import World
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Limits

log = structlog.get_logger()

_STOP_S = 4.0  # of the five that a stop may take
_PROVE_S = 10.0  # for a client's first signed request, which is the first thing that every client sends
# A client that sends four times too much has made a mistake and is told so; one that sends more is cut.
_TIMES_READ_PAST = 4


class Broker:
    """Without a folder everything is in memory and gone with the process.

    `open_database` stands in for the folder where a simulation plays the disk. Several logical brokers share the store;
    with a port of its own for the first, the others take those that follow. With `tls` ports speak TLS and nothing
    else; a `ca_file` in it lets in only clients with a certificate of that authority. With `auth` only these users are
    served, each as far as its rules allow; `auth_place` says in errors where they are written.
    `handlers` are plugins', by request code.
    """

    def __init__(
        self,
        world: World,
        *,
        data: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        brokers: int = 1,
        auth: Sequence[User] | None = None,
        auth_place: str = "the --auth file",
        tls: TlsOptions | None = None,
        settings: BrokerSettings | None = None,
        open_database: OpenDatabase | None = None,
        handlers: Mapping[int, BoxHandler] | None = None,
    ) -> None:
        _check_bind(host, auth)
        if not 1 <= brokers <= 16:
            raise UsageWrong(f"brokers: {brokers} logical brokers in one process; use 1 to 16")
        self._world = world
        self._data = data
        self._open_database = open_database
        self._host = host
        self._advertised = _reachable(host, world)
        self._settings = settings or BrokerSettings()
        self._ports = [port + i if port else 0 for i in range(brokers)]
        self._tls = None if tls is None else server_context(tls, client_certificates=bool(tls.ca_file))
        self._interceptors = Interceptors()
        self._users = None if auth is None else Users(auth, self._settings.cluster, auth_place)
        verify = None if self._users is None else self._users.refusal
        quotas = Quotas(self._settings, world.clock.monotonic)
        self._dispatch = Dispatch(self._interceptors, verify, quotas, self._trouble, table_with(handlers))
        self._shared: SharedLimits | None = None
        self._nodes: list[Node] = []
        self._listeners: list[Listener] = []
        self._store: Store | None = None
        self._delays: Delays | None = None
        self._retention: Retention | None = None

    async def start(self) -> None:
        """Open the store and the ports. StoreError for a folder that is taken or damaged, OSError for a port."""
        loop = asyncio.get_running_loop()
        world, settings = self._world, self._settings
        store = self._store = Store(
            self._open_store(), world.clock, world.workers, loop.call_soon, disk=world.files.usage
        )
        delays = self._delays = Delays(
            store, loop, world.clock, settings=settings, deliver=deliver_due, trouble=self._trouble
        )
        retention = self._retention = Retention(
            store, loop, world.clock, settings, waiting=frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC})
        )
        self._shared = SharedLimits(
            Turns(),
            frames_bytes_max=settings.all_frames_bytes_max,
            unread_bytes_max=settings.all_unread_bytes_max,
        )
        channels_max, refused_max = self._room()
        try:
            for i, port in enumerate(self._ports):
                node = Node(
                    _name_of(i, settings.names), world=world, timers=loop, store=store, delays=delays,
                    retention=retention, settings=settings, neighbours=lambda: self._nodes, trouble=self._trouble,
                    users=self._users,
                )  # fmt: skip
                # Of three logical brokers on following ports, the third one's VIP port is the first one's own.
                with_vip = port - VIP_DISTANCE not in self._ports
                listener = self._listener(node, port, channels_max, refused_max, with_vip=with_vip)
                node.address = _address(self._advertised, await listener.start())
                self._listeners.append(listener)
                self._nodes.append(node)
        except BaseException:
            await self.close_ports()
            store.close()
            raise
        store.writer.on_arrival = self._arrived
        delays.start()
        for node in self._nodes:
            node.transactions.start()
            node.pops.start()
        retention.start()
        store.sweep.resume()

    @property
    def address(self) -> str:
        """Where name server requests are answered; every other port answers them as well."""
        return self._nodes[0].address

    @property
    def brokers(self) -> dict[str, str]:
        """The logical brokers' names and addresses."""
        return {node.name: node.address for node in self._nodes}

    @property
    def nodes(self) -> list[Node]:
        """The logical brokers' state, for tests and for what looks on."""
        return list(self._nodes)

    def intercept(self, interceptor: Interceptor) -> Callable[[], None]:
        """Answer, delay or lose requests as it says; what is returned takes it out again."""
        self._interceptors.add(interceptor)
        return partial(self._interceptors.remove, interceptor)

    async def stop(self) -> None:
        """Answer held pulls, finish the last commit, close. Within five seconds, whatever the peers do."""
        if self._store is None:
            return
        store, self._store = self._store, None
        self._stop_clockworks()
        for node in self._nodes:
            self._dispatch.stop(node)
        store.writer.save_tables()
        idle = asyncio.Event()
        store.writer.when_idle(idle.set)

        try:
            async with asyncio.timeout(_STOP_S / 2):
                await idle.wait()
        except TimeoutError:
            log.warning("store closed early", waited_ms=round(_STOP_S * 500), reason="writes were under way")
        for node in self._nodes:
            node.stop()
        await self.close_ports()
        store.close()

    def kill(self) -> None:
        """End as a crash would: nothing more is written or answered, connections break. For simulations."""
        store, self._store = self._store, None
        self._stop_clockworks()
        if store is not None:
            store.abandon()
        for node in self._nodes:
            node.stop()
        for listener in self._listeners:
            for channel in listener.channels:
                channel.close("the broker was killed")

    def _stop_clockworks(self) -> None:
        if self._delays is not None:
            self._delays.rounds.stop()
        if self._retention is not None:
            self._retention.stop()

    async def close_ports(self) -> None:
        """Also after `kill`: let go of the ports, so that the next life may have them."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            try:
                async with asyncio.timeout(_STOP_S / 2 / len(listeners)):
                    await listener.close("the broker stops")
            except TimeoutError:
                log.warning("connections left open", listener=repr(listener))

    def _open_store(self) -> Database:
        if self._open_database is not None:
            return open_given(self._open_database)
        return open_memory() if self._data is None else open_folder(self._data, is_relaxed=self._settings.is_relaxed)

    def _room(self) -> tuple[int, int]:
        """How many connections each port may have, and how many beside them: what the system's files allow."""
        wanted, ports = self._settings.channels_max, len(self._ports)
        all_wanted = (wanted + REFUSED_MAX) * ports
        allowed = self._world.network.sockets_max(all_wanted)
        if allowed >= all_wanted:
            return wanted, REFUSED_MAX
        refused_max = min(REFUSED_MAX, allowed // ports // 4)
        channels_max = max(min(wanted, allowed // ports - refused_max), 1)
        if channels_max < wanted:
            remedy = f"raise the limit (ulimit -n) by {all_wanted - allowed}"
            log.warning("connections limited", limit=channels_max, wanted=wanted, remedy=remedy)
        return channels_max, refused_max

    def _listener(
        self, node: Node, port: int, channels_max: int, refused_max: int, *, with_vip: bool
    ) -> Listener:  # fmt: skip
        settings = self._settings
        is_shared = port > 0 and port + VIP_DISTANCE in self._ports

        def on_request(channel: Served, command: RemotingCommand) -> None:
            meant = (self._named(command) or node) if is_shared else node
            self._dispatch.serve(Request(command, channel, meant))

        return Listener(
            self._world,
            self._host,
            port,
            on_request=on_request,
            on_closed=node.gone,
            limits=Limits(frame_bytes_max=settings.frame_bytes_max, times_read_past=_TIMES_READ_PAST),
            channels_max=channels_max,
            refused_max=refused_max,
            tls=self._tls,
            unsent_bytes_max=settings.unsent_bytes_max,
            shared=self._shared,
            prove_seconds=None if self._users is None else _PROVE_S,
            with_vip=with_vip,
        )

    def _named(self, command: RemotingCommand) -> Node | None:
        """The logical broker that a request names, where one port is that of two."""
        is_short = command.code in {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
        name = command.fields.get("n" if is_short else "bname")
        return next((node for node in self._nodes if node.name == name), None)

    def _arrived(self, queue: Queue, rows: list[Row]) -> None:
        for node in self._nodes:
            if node.name == queue.broker:
                node.arrived(queue, rows)

    def _trouble(self, what: str) -> None:
        log.error("broker trouble", reason=what)


def _check_bind(host: str, auth: Sequence[User] | None) -> None:
    """Refuse to listen for other machines without credentials."""
    if not auth and not _is_loopback(host):
        raise BindOpen(
            f"bind {shorten(host)}: other machines reach it, so it needs credentials: --auth FILE, or bind 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reachable(host: str, world: World) -> str:
    """The address to advertise: what was bound, or this machine's own where that was all of them."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return world.identity.host if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return host


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _name_of(index: int, given: Sequence[str]) -> str:
    return given[index] if index < len(given) else f"broker-{chr(ord('a') + index)}"
