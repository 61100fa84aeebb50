"""Leaves: looks each second at processes that were asked to stop, and at queues on their way to another member.

Each has a limit, whatever else goes on; the run fails at the first one that goes beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.core import limits
from framework.core.limits import stop_ms
from framework.core.queue_flow import QueueState
from framework.runtime.group.progressing import PATIENCE_SECONDS
from framework.testing.errors import Violation
from framework.testing.sim.node import Node

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

NAME = "every leave ends"
MORE_S = PATIENCE_SECONDS
"""A store of progress may take so long to fail, beside what a stop is said to take."""


class Leaves:
    """One a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._taken: dict[object, float] = {}
        """How long each has taken so far; a process that is suspended spends no time of its own."""
        self._looked_at = 0.0

    def look(self) -> None:
        """Raises a Violation that names what has not ended in time."""
        now = self._cluster.loop.now
        passed, self._looked_at = now - self._looked_at, now
        before, self._taken = self._taken, {}
        for key, node, what, most_s in self._under_way():
            taken = self._taken[key] = before[key] + (0.0 if node.is_held else passed) if key in before else 0.0
            if taken > most_s:
                raise Violation(NAME, f"{what} of {node.name} goes on since {taken:.0f}s, {most_s:g}s at most", now)

    def _under_way(self) -> Iterator[tuple[object, Node, str, float]]:
        """Each with the process that it is of, and how long it may take."""
        for machine in self._cluster.apps:
            node, app = machine.node, machine.app
            if node is None or app is None or not machine.is_alive:
                continue
            settings = app.settings
            if machine.is_leaving:
                most_ms = stop_ms(settings.app.drain, settings.cluster.request_timeout)
                yield node, node, "the stop", most_ms / 1000 + MORE_S
            most_ms = stop_ms(limits.DRAIN_MS, settings.cluster.request_timeout)
            for group in app._groups:  # a picture does not tell two leaves of a queue apart
                for pull in group.owned.values():
                    if pull.flow.state is QueueState.RETIRING:
                        yield pull, node, f"the leave of {pull.queue} by {group.plan.name}", most_ms / 1000 + MORE_S
