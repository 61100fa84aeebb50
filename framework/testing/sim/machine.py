"""Machine: a simulated computer with its disk, and the one process that runs on it, one life after another."""

from __future__ import annotations

import asyncio
from typing import Any

from framework.broker.server import Broker
from framework.runtime.app import App
from framework.testing.sim.disk import SimDisk
from framework.testing.sim.node import JOB_DELAY_MAX_S, Node

FIRST_PROCESS = 1000


class Machine:
    """What stays when its process dies: the name, the address, the disk."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.instance = name
        """What its process is called, where processes have names that stay."""
        self.disk = SimDisk()
        self.skew_ms = 0
        self.job_delay_max = JOB_DELAY_MAX_S
        """How late a worker's job may start: for a broker, how long a sync of its disk may take."""
        self.lives = 0
        self.node: Node | None = None
        """The present life; None before the first."""
        self.app: App | None = None
        self.broker: Broker | None = None
        self.task: asyncio.Task[Any] | None = None
        """The process's main task."""
        self.is_leaving = False

    def __repr__(self) -> str:
        return f"<Machine {self.name} {self.host} {'up' if self.is_alive else 'down'}>"

    @property
    def is_alive(self) -> bool:
        return self.node is not None and self.node.is_alive

    @property
    def is_steady(self) -> bool:
        """Alive and not on its way out: what a fault may be done to."""
        return self.is_alive and not self.is_leaving

    def next_life(self) -> Node:
        assert not self.is_alive, f"{self!r}: two processes at once would share one identity"
        self.lives += 1
        # Process numbers differ between machines too, as they would.
        process = FIRST_PROCESS + 100 * int(self.host.rpartition(".")[2]) + self.lives
        self.node = Node(f"{self.name}.{self.lives}", host=self.host, process=process, skew_ms=self.skew_ms)
        self.node.job_delay_max = self.job_delay_max
        self.is_leaving = False
        return self.node
