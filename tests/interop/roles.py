"""What a name server, a broker and a proxy are started with: ports, configuration, command line.

Pure apart from looking for free ports and writing a configuration file. When something is started, and when it is
ready, is `cluster.py`'s affair.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.interop import jars
from tests.interop.jars import InteropError
from tests.ports import CHANCE

HOST = "127.0.0.1"
REPLICA = "-replica"
CLUSTER_NAME = "DefaultCluster"

MAINS = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
    "proxy": "org.apache.rocketmq.proxy.ProxyStartup",
}
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A collector and a compiler with which a JVM is up sooner, and slower from then on."""
NO_TLS = "-Dtls.server.mode=disabled"
"""As shipped, a server makes itself a certificate when it starts: a second of a core."""
MEMORY = {
    "namesrv": ("-Xms64m", "-Xmx64m", *QUICK),
    "broker": ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m"),
    "proxy": ("-Xms256m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m"),
}
PATIENT_QUEUES = ("Send", "Pull", "LitePull", "Heartbeat", "Transaction", "Ack", "AdminBroker")
BROKER_SETTINGS: Mapping[str, str] = {
    "brokerClusterName": CLUSTER_NAME,
    "brokerId": "0",
    "brokerIP1": HOST,
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "true",
    "flushDiskType": "ASYNC_FLUSH",
    # Small files: as shipped, one commit log is 1 GiB and one index file 400 MiB.
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 100_000),
    "mappedFileSizeTimerLog": str(8 << 20),
    "maxHashSlotNum": "100000",
    "maxIndexNum": "400000",
    # Writes must not be refused because the disk of a shared machine is nearly full.
    "diskMaxUsedSpaceRatio": "99",
    # Nor because it is busy: as shipped, a send that waited for 200 ms is refused.
    **{f"waitTimeMillsIn{queue}Queue": "60000" for queue in PATIENT_QUEUES},
    "osPageCacheBusyTimeOutMills": "60000",
    # Once a transaction has ended, 5.5.0 keeps a core busy for ever (apache/rocketmq issue 10966), unless each end is
    # written at once and the next look is an hour away.
    "transactionOpBatchInterval": "3600000",
    "transactionOpMsgMaxSize": "1",
    # As long as this (10 s as shipped) 5.5.0 keeps a core busy when it has started: it waits in a loop.
    "transactionMetricFlushInterval": "250",
    # Each time (once a second as shipped) it compares two tables of 38 MB, a byte at a time: half a second of a core.
    "timerFlushIntervalMs": "600000",
}


def kind(role: str) -> str:
    """`broker` for `broker-a`."""
    return role.partition("-")[0]


def write_configuration(
    path: Path, role: str, port: int, *, name_server: str, store: Path, settings: Mapping[str, str]
) -> None:
    """Write what a role reads when it starts; `settings` are a broker's own, above ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if role == "proxy":
        # Its two ports cannot be bound to one address; in 5.5.0 they listen on all.
        values = {
            "rocketMQClusterName": CLUSTER_NAME,
            "proxyMode": "CLUSTER",
            "namesrvAddr": name_server,
            "localServeAddr": HOST,
            "grpcServerPort": port,
            "remotingListenPort": port + 1,
        }
        path.write_text(json.dumps(values))
        return
    lines = {"listenPort": str(port), "bindAddress": HOST}
    if kind(role) == "broker":
        lines |= {"brokerName": role.removesuffix(REPLICA), "namesrvAddr": name_server, "storePathRootDir": str(store)}
        lines |= {**BROKER_SETTINGS, **settings}
        if role.endswith(REPLICA):
            lines |= {"brokerId": "1", "brokerRole": "SLAVE"}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))


def command(
    role: str, home: Path, configuration: Path, properties: Mapping[str, str], *, is_measured: bool
) -> list[str]:
    """The command line of a role. `home` stands in for the user's home, where RocketMQ writes its logs."""
    flags = [
        *MEMORY[kind(role)],
        *(() if is_measured else QUICK),
        *(() if role == "proxy" else (NO_TLS,)),
        f"-Duser.home={home}",
        "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
        f"-DbrokerLogDir={role}",
        *(f"-D{name}={value}" for name, value in properties.items()),
    ]
    option = "-pc" if role == "proxy" else "-c"
    return jars.java(MAINS[kind(role)], option, str(configuration), classes=f"{jars.resolve()}/*", flags=flags)


def ports_of(role: str, port: int) -> list[int]:
    """All ports a role listens on: a broker has a quick one 2 below its known one, and one for replicas above it."""
    return {"namesrv": [port], "proxy": [port, port + 1]}.get(role, [port - 2, port, port + 1])


def free_port(role: str, taken: Collection[int]) -> int:
    """A port below the system's own range, a multiple of ten, so that no two roles overlap."""
    for _ in range(200):
        port = CHANCE.randrange(20_000, 32_000, 10)
        if port not in taken and ports_are_free(role, port) and _claimed(port):
            return port
    raise InteropError("no free ports between 20000 and 32000; something on this machine holds them all")


def _claimed(port: int) -> bool:
    """What listens here comes later: until this process ends, no other one that asks is given the port."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0interop-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def ports_are_free(role: str, port: int) -> bool:
    return all(_can_bind(each) for each in ports_of(role, port))


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Else connections in TIME_WAIT would count.
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
