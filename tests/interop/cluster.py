"""A real RocketMQ cluster on loopback: name server, one or more brokers, a proxy if wanted.

    python -m tests.interop.cluster start [--dir DIR] [--brokers N] [--proxy] [--set KEY=VALUE]
    python -m tests.interop.cluster stop [--dir DIR]
    python -m tests.interop.cluster admin [--dir DIR] consumerProgress -g GROUP

`Cluster` owns the processes and the folder with everything they write. It does not know what is sent through them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from tests.interop import probe, roles
from tests.interop.jars import InteropError
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, wait_until

AUTO_CREATE_TOPIC = "TBW102"
BOOTED = "boot success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a cluster consists of."""

    brokers: int = 1
    replica: bool = False
    """Whether each broker has one, as `broker-a-replica`; it copies the store and takes no messages."""
    proxy: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Lines of every broker's configuration, above our defaults."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Java's -D of every process: some choices, like the header encoding, are made there."""
    is_measured: bool = False
    """Whether brokers and proxies have the collector and the compiler of production; without they start sooner."""

    def roles(self) -> list[str]:
        """In the order of starting: each kind needs the one before."""
        masters = [f"broker-{letter}" for letter in "abcdefgh"[: self.brokers]]
        replicas = [f"{master}{roles.REPLICA}" for master in masters] if self.replica else []
        return ["namesrv", *masters, *replicas, *["proxy"] * self.proxy]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a running cluster is reached: all that a client of it needs to know."""

    name_server: str
    brokers: Mapping[str, str]
    """Broker name -> the address under which the name server knows it."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """`grpc` and `remoting` -> address; empty without a proxy."""


class Cluster:
    """The processes of one cluster and the folder they live in. Ports stay the same when a role is started again."""

    def __init__(self, directory: Path, nursery: Nursery, shape: Shape | None = None) -> None:
        self.directory = directory.resolve()
        self.shape = shape or Shape()
        self._nursery = nursery
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._ports: dict[str, int] = {}
        for role in self.shape.roles():
            self._ports[role] = roles.free_port(role, self._ports.values())

    def __repr__(self) -> str:
        return f"<Cluster {self.name_server} running={sorted(self._running)} in {self.directory}>"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    @property
    def name_server(self) -> str:
        return f"{roles.HOST}:{self._ports['namesrv']}"

    @property
    def addresses(self) -> Addresses:
        return Addresses(name_server=self.name_server, brokers=self._brokers(), proxies=self._proxies())

    def pids(self) -> dict[str, int]:
        return {role: child.pid for role, child in self._running.items()}

    def start(self, *, timeout_s: float = 5 * PATIENCE_S) -> None:
        """Start what does not run, and wait until a client that begins now finds everything."""
        deadline = time.monotonic() + timeout_s
        for kind in ("namesrv", "broker", "proxy"):
            # Brokers of one cluster come up side by side.
            starting = [role for role in self.shape.roles() if roles.kind(role) == kind and role not in self._running]
            for role in starting:
                self._start(role)
            for role in starting:
                patience_s = max(PATIENCE_S, deadline - time.monotonic())
                wait_until(partial(self._is_ready, role), f"{role} in {self.directory}", patience_s)

    def boot(self, role: str) -> None:
        """Start one broker and wait until it is up, whether a name server is there to hear of it or not."""
        booted = self._boots(role)
        self._start(role)
        wait_until(lambda: self._boots(role) > booted, f"{role} in {self.directory} to be up", 5 * PATIENCE_S)

    def _boots(self, role: str) -> int:
        output = self._output(role)
        return output.read_text(errors="replace").count(BOOTED) if output.exists() else 0

    def kill(self, role: str) -> None:
        """SIGKILL one role; `start` brings it back on the same port and the same store."""
        self._nursery.kill(self._running.pop(role))

    def end(self, role: str) -> None:
        """SIGTERM one role: it says goodbye, and stores what it knows."""
        child = self._running.pop(role)
        child.terminate()
        self._nursery.bury(child)

    def freeze(self, role: str) -> None:
        """SIGSTOP: as a machine that hangs, or a network that is cut; connections stay open."""
        self._running[role].send_signal(signal.SIGSTOP)

    def thaw(self, role: str) -> None:
        self._running[role].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill everything. What was stored is still in the folder."""
        for role in reversed(list(self._running)):
            self.kill(role)

    def _start(self, role: str) -> None:
        port = self._ports[role]
        # A process killed a moment ago may still hold its port.
        wait_until(lambda: roles.ports_are_free(role, port), f"free port {port} for {role}")
        configuration = self.directory / "conf" / f"{role}.{'json' if role == 'proxy' else 'conf'}"
        roles.write_configuration(
            configuration,
            role,
            port,
            name_server=self.name_server,
            store=self.directory / "store" / role,
            settings=self.shape.settings,
        )
        self._output(role).parent.mkdir(parents=True, exist_ok=True)
        self._running[role] = self._nursery.start(
            roles.command(
                role, self.directory, configuration, self.shape.properties, is_measured=self.shape.is_measured
            ),
            cwd=self.directory,
            output=self._output(role),
            environment={"ROCKETMQ_HOME": str(self.directory)},
        )

    def _is_ready(self, role: str) -> bool:
        if self._running[role].poll() is not None:
            lines = self._output(role).read_text(errors="replace").splitlines()[-20:]
            raise InteropError(
                "\n".join([f"{role} ended while starting; more in {self.directory}. Its last words:", *lines])
            )
        match roles.kind(role):
            case "namesrv":
                return probe.ask(self.name_server, probe.GET_CLUSTER)[0] == 0
            case "broker":
                # In this order: a broker registers before it has told of its topics.
                address = self._brokers()[role]
                if address not in probe.known_brokers(self.name_server):
                    # One that starts quickly has no name server yet when it registers, and tries again 10 s later.
                    if BOOTED in self._output(role).read_text(errors="replace"):
                        probe.register(f"{roles.HOST}:{self._ports[role]}")
                    return False
                makes_topics = self.shape.settings.get("autoCreateTopicEnable") != "false"
                topic = AUTO_CREATE_TOPIC if makes_topics else role.removesuffix(roles.REPLICA)
                return address in probe.routed_brokers(self.name_server, topic)
            case _:
                return probe.ask(self._proxies()["remoting"], probe.GET_ROUTE, topic=AUTO_CREATE_TOPIC)[0] == 0

    def _brokers(self) -> dict[str, str]:
        host = self.shape.settings.get("brokerIP1", roles.HOST)
        return {role: f"{host}:{port}" for role, port in self._ports.items() if roles.kind(role) == "broker"}

    def _proxies(self) -> dict[str, str]:
        port = self._ports.get("proxy")
        return {} if port is None else {"grpc": f"{roles.HOST}:{port}", "remoting": f"{roles.HOST}:{port + 1}"}

    def _output(self, role: str) -> Path:
        return self.directory / "out" / f"{role}.log"


def main() -> int:
    from tests.interop import command  # Not above: it needs this module.

    return command.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
