"""A scripted cluster in memory: name servers that know routes, brokers that answer by request code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import Record, encode_record
from tests.net.memory import MemoryNetwork, Peer, world_with

NS = "10.0.0.9:9876"
A = "10.0.0.1:10911"
B = "10.0.0.2:10911"
Script = Callable[[RemotingCommand], RemotingCommand | None]


def route_of(brokers: dict[str, dict[int, str]], *, read: int = 2, write: int = 2, perm: int = 6) -> bytes:
    return json.dumps({
        "queueDatas": [
            {"brokerName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm, "topicSysFlag": 0}
            for name in brokers
        ],
        "brokerDatas": [
            {
                "cluster": "c",
                "brokerName": name,
                "brokerAddrs": {str(number): address for number, address in addresses.items()},
            }
            for name, addresses in brokers.items()
        ],
        "filterServerTable": {},
    }).encode()  # fmt: skip


class ScriptedCluster:
    """One name server and brokers a and b; change `routes` and `scripts` at any time."""

    def __init__(self, **options: Any) -> None:
        self.network = MemoryNetwork()
        self.routes: dict[str, bytes] = {"orders": route_of({"a": {0: A}, "b": {0: B}})}
        self.scripts: dict[str, Script] = {}
        self.network.scripts[NS] = self.name_server
        for address in (A, B):
            self.network.scripts[address] = self.broker_at(address)
        self.world = world_with(self.network)
        self.options = ClusterOptions(**{"name_servers": (NS,), "client_id": "10.0.0.7@1", **options})
        self.client = Cluster(self.world, self.options)

    def name_server(self, peer: Peer, request: RemotingCommand) -> RemotingCommand:
        assert request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        route = self.routes.get(request.fields["topic"])
        return RemotingCommand(17, remark="No topic route info") if route is None else RemotingCommand(0, body=route)

    def broker_at(self, address: str) -> Callable[[Peer, RemotingCommand], RemotingCommand | None]:
        def answer(peer: Peer, request: RemotingCommand) -> RemotingCommand | None:
            script = self.scripts.get(address)
            return RemotingCommand(0) if script is None else script(request)

        return answer

    def both(self, script: Script) -> None:
        self.scripts[A] = self.scripts[B] = script

    def asked(self, address: str, code: int) -> list[RemotingCommand]:
        return [request for request in self.network.requests(address) if request.code == code]


def record(offset: int, *, tags: str = "", topic: str = "orders", body: bytes = b"hello") -> bytes:
    """One stored message."""
    properties = {"TAGS": tags} if tags else {}
    return encode_record(record_of(offset, topic=topic, body=body, properties=properties))


def record_of(offset: int, **fields: Any) -> Record:
    return Record(
        queue_id=0,
        queue_offset=offset,
        commit_log_offset=1000 + offset,
        born_ms=1_700_000_000_000,
        stored_ms=1_700_000_000_001,
        **fields,
    )
