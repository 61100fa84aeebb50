"""Bounds before cost: what a connection may be before it has shown anything, names that are kept, and files."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from json import dumps
from pathlib import Path
from typing import Any

import pytest
import trustme
from structlog.testing import capture_logs

from framework.broker import members
from framework.broker.members import NAME_BYTES_MAX
from framework.broker.server import Broker
from framework.broker.settings import BrokerSettings
from framework.net.listener import REFUSED_MAX
from framework.net.pool import Pool
from framework.net.real_world import FILES_BESIDE, LISTEN_BACKLOG, RealNetwork, real_world
from framework.net.tls import TlsOptions
from framework.wire import frame
from framework.wire.bodies.group import ConsumerList
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.broker_lab import BrokerLab, send_command
from tests.broker.client_lab import FakeClient
from tests.broker.test_server import PATIENCE_MS, running
from tests.broker.test_tls import files
from tests.patience import until


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def _heartbeat(client_id: str, *groups: str, producers: tuple[str, ...] = ()) -> RemotingCommand:
    consumers = [{"groupName": group, "subscriptionDataSet": [{"topic": "t", "subString": "*"}]} for group in groups]
    names = [{"groupName": group} for group in producers]
    body = {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": names}
    return RemotingCommand(RequestCode.HEART_BEAT, None, dumps(body).encode())


def _listed(lab: BrokerLab, group: str = "g") -> list[str]:
    answer = lab.answer(RemotingCommand(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group}))
    assert len(frame.encode(answer)) <= frame.FRAME_BYTES_MAX
    return list(ConsumerList.decode(answer.body).consumer_ids)


# TLS


class _Handshakes:
    """Counts those that were begun: what each takes is what a bound is for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        begin = asyncio.BaseEventLoop.start_tls

        async def counted(loop: Any, *arguments: Any, **options: Any) -> Any:
            self.begun += 1
            return await begin(loop, *arguments, **options)

        patch.setattr(asyncio.BaseEventLoop, "start_tls", counted)


@asynccontextmanager
async def _by_tls(own: TlsOptions, **options: Any) -> AsyncIterator[Broker]:
    async with running(tls=TlsOptions(cert_file=own.cert_file), settings=BrokerSettings(**options)) as broker:
        yield broker


def _silent(address: str, count: int) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    for _ in range(count):
        yield socket.create_connection((host, int(port)))


def test_silent_connections_to_a_tls_port_count_and_give_way_to_who_speaks(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stood outside the limit: 3,000 of them took 956 MB."""
    own = files(ca, tmp_path)
    handshakes = _Handshakes(monkeypatch)

    async def story() -> tuple[int, list[int], int]:
        async with _by_tls(own, channels_max=8) as broker:
            (listener,) = broker._listeners
            known, most = Pool(real_world(), tls=TlsOptions(ca_file=own.ca_file)), 0
            assert 0 == (await known.request(broker.address, send_command(), timeout_ms=PATIENCE_MS)).code
            with ExitStack() as stack:
                for each in _silent(broker.address, 200):
                    stack.enter_context(each)
                    await asyncio.sleep(0)
                    most = max(most, len(listener.channels))
                await until(lambda: handshakes.begun >= 200, "the last of them")
                newcomer = Pool(real_world(), tls=TlsOptions(ca_file=own.ca_file))
                codes = [
                    (await pool.request(broker.address, send_command(), timeout_ms=PATIENCE_MS)).code
                    for pool in (known, newcomer)
                ]
                left = len(listener.channels)
            await known.close()
            await newcomer.close()
            await until(lambda: not listener.channels, "the end of all")
            return most, codes, left

    most, codes, left = asyncio.run(story())

    assert most <= 8
    assert [0, 0] == codes
    assert 8 == left


def test_of_many_that_come_at_once_who_has_given_way_begins_no_handshake(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stayed for the ten seconds of a handshake, though its connection had ended: 3,000 silent ones took 2 GB."""
    own = files(ca, tmp_path)
    handshakes = _Handshakes(monkeypatch)

    async def story() -> tuple[int, int]:
        async with _by_tls(own, channels_max=8) as broker:
            (listener,) = broker._listeners
            with ExitStack() as stack:
                ours = [stack.enter_context(each) for each in _silent(broker.address, 60)]  # accepted in one turn
                for each in ours[:-8]:
                    each.settimeout(0)
                    with suppress(ConnectionResetError):
                        assert b"" == await asyncio.get_running_loop().sock_recv(each, 1)
                most = len(listener.channels)
            await until(lambda: not listener.channels, "the end of all")
            return most, handshakes.begun

    most, begun = asyncio.run(story())
    assert 8 == most
    assert begun <= 16, "those that stay, and no other"


def test_where_all_are_at_work_a_newcomer_to_a_tls_port_costs_no_handshake(
    ca: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = files(ca, tmp_path)
    handshakes = _Handshakes(monkeypatch)

    async def story() -> int:
        async with _by_tls(own, channels_max=1) as broker:
            pool = Pool(real_world(), tls=TlsOptions(ca_file=own.ca_file))
            await pool.request(broker.address, send_command(), timeout_ms=PATIENCE_MS)
            with ExitStack() as stack:
                late = [stack.enter_context(each) for each in _silent(broker.address, REFUSED_MAX + 50)]
                for each in late[REFUSED_MAX:]:
                    each.settimeout(0)
                    assert b"" == await asyncio.get_running_loop().sock_recv(each, 1), "closed without a word"
            await pool.close()
            return handshakes.begun

    assert 1 + REFUSED_MAX == asyncio.run(story())


def test_a_handshake_that_fails_gives_its_place_back(ca: trustme.CA, tmp_path: Path) -> None:
    own = files(ca, tmp_path)

    async def story() -> int:
        async with _by_tls(own) as broker:
            (listener,) = broker._listeners
            with ExitStack() as stack:
                for i, each in enumerate(_silent(broker.address, 30)):
                    stack.enter_context(each)
                    if i % 3 == 0:
                        each.sendall(b"no handshake, by any means")
                    elif i % 3 == 1:
                        each.sendall(b"\x16\x03\x01\x02\x00\x01")
                await until(lambda: len(listener.channels) >= 20, "those who may still speak")
            await until(lambda: not listener.channels, "the end of all")
            return len(listener._strangers)

    assert 0 == asyncio.run(story())


# Names


@pytest.mark.parametrize("name", ["x" * 256, "\u00e9" * 128, "x" * 4_000_000], ids=["ascii", "wide", "huge"])
def test_a_client_id_that_is_too_long_is_refused_by_name(name: str) -> None:
    """Twenty honest members got no list at all, since one of these was in it."""
    lab = BrokerLab()
    for i in range(20):
        assert 0 == lab.answer(_heartbeat(f"honest-{i}", "g"), FakeClient()).code
    answers = [
        lab.answer(_heartbeat(name, "g"), FakeClient()),
        lab.answer(_heartbeat(name, producers=("p",)), FakeClient()),
        lab.answer(_heartbeat("c", producers=(name,)), FakeClient()),
        lab.answer(_lock(clientId=name), FakeClient()),
        lab.answer(_lock(consumerGroup=name), FakeClient()),
        lab.answer(_lock(mqSet=[{"topic": name, "brokerName": "broker-a", "queueId": 0}]), FakeClient()),
    ]

    assert [29] * 6 == [answer.code for answer in answers]
    assert all(f"{NAME_BYTES_MAX} at most" in str(answer.remark) for answer in answers)
    assert all(len(str(answer.remark)) < 500 for answer in answers)
    assert [f"honest-{i}" for i in range(20)] == _listed(lab)
    assert [] == lab.node.members.producer_groups()
    assert 0 == len(lab.node.locks)


def test_the_longest_ids_of_all_connections_fit_a_list() -> None:
    lab = BrokerLab()
    ids = [f"{i:03d}".ljust(NAME_BYTES_MAX, "\x01") for i in range(BrokerSettings().channels_max)]
    assert {0} == {lab.answer(_heartbeat(each, "g"), FakeClient()).code for each in ids}

    assert ids == _listed(lab)


def test_a_member_with_whom_the_list_fits_no_frame_is_refused_and_the_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "LISTING_BYTES_MAX", 100)
    lab = BrokerLab()
    clients = [FakeClient() for _ in range(12)]
    codes = [lab.answer(_heartbeat(f"member-{i:02d}", "g"), client).code for i, client in enumerate(clients)]
    again = lab.answer(_heartbeat("member-00", "g"), clients[0]).code
    lab.node.gone(clients[0])
    renamed = lab.answer(_heartbeat("member-aa", "g"), clients[1]).code
    late = lab.answer(_heartbeat("member-11", "g"), clients[11])

    assert [0] * 8 + [2] * 4 == codes
    assert (0, 0, 0) == (again, renamed, late.code)
    assert 8 == len(_listed(lab))
    assert 2 == lab.answer(_heartbeat("member-10", "g"), clients[10]).code


def test_a_producer_that_takes_ever_new_ids_leaves_none_behind() -> None:
    lab, client = BrokerLab(), FakeClient()
    for i in range(1000):
        assert 0 == lab.answer(_heartbeat(f"name-{i}", producers=("p", "q")), client).code

    assert {"name-999"} == set(lab.node.members._producer_ids)
    lab.node.gone(client)
    assert {} == lab.node.members._producer_ids


# Files


class _Files:
    """A process that may open so many."""

    def __init__(self, patch: pytest.MonkeyPatch, soft: int, hard: int, opened: int = 20) -> None:
        self.soft, self.hard = soft, hard
        patch.setattr(resource, "getrlimit", lambda _: (self.soft, self.hard))
        patch.setattr(resource, "setrlimit", self._set)
        patch.setattr("framework.net.real_world.Path.iterdir", lambda _: iter(["0"] * opened))

    def _set(self, _: int, limits: tuple[int, int]) -> None:
        if limits[1] != self.hard or (self.hard != resource.RLIM_INFINITY and limits[0] > self.hard):
            raise ValueError("not allowed to raise maximum limit")
        self.soft = limits[0]


BESIDE = 20 + FILES_BESIDE + LISTEN_BACKLOG


@pytest.mark.parametrize(
    ("soft", "hard", "most", "then"),
    [
        (1024, 1 << 20, 5000, 5000 + BESIDE),
        (1024, resource.RLIM_INFINITY, 5000, 5000 + BESIDE),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 5000, resource.RLIM_INFINITY),
        (1024, 4096, 4096 - BESIDE, 4096),
        (1 << 19, 1 << 20, 5000, 1 << 19),
        (8, 8, 1, 8),
    ],
)
def test_as_many_sockets_as_are_wanted_or_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, then: int
) -> None:
    system = _Files(monkeypatch, soft, hard)

    assert (most, then) == (RealNetwork().sockets_max(5000), system.soft)


def test_more_connections_than_there_can_be_files_are_fewer_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 1,024 files were taken, so that nobody was let in, or told why."""
    monkeypatch.setattr(RealNetwork, "sockets_max", lambda _, wanted: min(wanted, 24))

    async def story() -> tuple[int, list[int], int]:
        async with running(settings=BrokerSettings(channels_max=5000), brokers=2) as broker:
            listener = broker._listeners[0]
            pools = [Pool(real_world()) for _ in range(listener._channels_max + 1)]
            codes = [
                (await pool.request(broker.address, send_command(), timeout_ms=PATIENCE_MS)).code for pool in pools
            ]
            for pool in pools:
                await pool.close()
            return listener._channels_max, codes, listener._refused_max

    with capture_logs() as lines:
        most, codes, refused = asyncio.run(story())

    assert (9, 3) == (most, refused)
    assert [0] * 9 + [2] == codes
    (line,) = [line for line in lines if line["event"] == "connections limited"]
    assert (9, 5000, "raise the limit (ulimit -n) by 10104") == (line["limit"], line["wanted"], line["remedy"])


def _lock(**changes: Any) -> RemotingCommand:
    queues = [{"topic": "t", "brokerName": "broker-a", "queueId": 0}]
    body = {"consumerGroup": "g", "clientId": "c", "mqSet": queues, **changes}
    return RemotingCommand(RequestCode.LOCK_BATCH_MQ, None, dumps(body).encode())
