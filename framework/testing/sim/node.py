"""Node: one life of one simulated process.

Every step of the loop carries a context, and the node is a context variable in it: everything that a process starts
belongs to that process by itself. To kill a process, none of its steps run again; to suspend it, they are held. A
process that starts again is a new Node on the same machine.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from framework.testing.sim.steps import Step


JOB_DELAY_MAX_S = 0.002


class Endpoint(Protocol):
    """What the system closes when a process ends: connections and listening ports."""

    def owner_died(self, *, silently: bool) -> None: ...


class Node:
    """Dead nodes never run another step; held ones run theirs later, in order."""

    def __init__(self, name: str, *, host: str, process: int, skew_ms: int = 0) -> None:
        self.name = name
        self.host = host
        self.process = process
        self.skew_ms = skew_ms
        """How far this process's wall clock is off."""
        self.is_alive = True
        self.is_held = False
        self.held_until = 0.0
        self.held: list[Step] = []
        self.job_delay_max = JOB_DELAY_MAX_S
        """How late a worker's job may start, in seconds."""
        self.on_log: Callable[[str, Mapping[str, Any]], None] | None = None
        """Who hears what this process logs."""
        self.endpoints: dict[int, Endpoint] = {}
        """By creation number, so that they are closed in the same order in each run."""
        self.context = contextvars.Context()
        self.context.run(CURRENT_NODE.set, self)

    def __repr__(self) -> str:
        state = "dead" if not self.is_alive else "held" if self.is_held else "alive"
        return f"<Node {self.name} {self.host} pid={self.process} {state}>"


CURRENT_NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("framework_testing_node", default=None)
