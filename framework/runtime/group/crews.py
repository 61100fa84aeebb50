"""Crews: who runs the handlers of one concurrent group: tasks, threads, and a crew for each handler of batches."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import structlog

from framework.core.expiry import Slot
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.runtime.group.plan import GroupPlan, Handling
from framework.runtime.report.stacks import place_of
from framework.services.call.batch_calls import Batching
from framework.services.crew.batches import BatchCrew
from framework.services.crew.expiry import Expiry, WatchedCrew
from framework.services.crew.tasks import Crew
from framework.services.crew.threads import ThreadCrew
from framework.services.queue.pull import TakesChunks
from framework.services.recurring import Recurring
from framework.services.supervise import supervise

log = structlog.get_logger()

PLACES_MAX = 5  # where some of them hang says where all do


class Crews:
    """One per group that is not orderly. Each of its crews runs as many handlers at once as the group may."""

    def __init__(
        self,
        plan: GroupPlan,
        handlings: Iterable[Handling],
        world: World,
        tree: TaskTree,
        lines: Recurring | None = None,
    ) -> None:
        self._name, self._world, self._tree = plan.name, world, tree
        self._size = plan.settings.concurrency
        self._has_tasks = self._is_started = False
        self._tasks = Crew(self._size, world.clock, self._employ)
        self._threads = ThreadCrew(self._size, world.clock, world.workers)
        self._batches: dict[Batching, BatchCrew] = {}
        self._watched: list[WatchedCrew] = [self._tasks, self._threads]
        """All of them; the expiry looks at what is in here."""
        self.serve(handlings)
        self._was_hanging = 0
        self.expiry = Expiry(
            plan.name, self._watched, world.clock, plan.expiry, plan.settings.timeout, self._looked, plan.listeners,
            lines,
        )  # fmt: skip

    def serve(self, handlings: Iterable[Handling]) -> None:
        """Have a crew for each of these. Those of others stay: what was begun may still end."""
        world, had_tasks = self._world, self._has_tasks
        for each in handlings:
            if each.batching is None:
                self._has_tasks = self._has_tasks or each.is_async
            elif each.batching not in self._batches:
                crew = self._batches[each.batching] = BatchCrew(
                    self._name, self._size, each.batching, clock=world.clock, workers=world.workers, tree=self._tree
                )
                self._watched.append(crew)
        if self._is_started and self._has_tasks and not had_tasks:
            self._employ(self._tasks.slots)
            self._employ(self._tasks.resize(self._size))  # who is one too many by now leaves at his first step

    def start(self) -> None:
        self._is_started = True
        if self._has_tasks:
            self._employ(self._tasks.slots)

    def adopt(self, plan: GroupPlan, size: int) -> None:
        """Run so many handlers at once from now on (none, where the group is paused), each within this plan's limit."""
        self.expiry.adopt(plan.expiry, plan.settings.timeout)
        self._size = size
        self._threads.resize(size)
        for crew in self._batches.values():
            crew.resize(size)
        if self._has_tasks:
            new = self._tasks.resize(size)
            if self._is_started:  # else the start employs them, and a place would have two workers
                self._employ(new)

    def of(self, handling: Handling) -> TakesChunks:
        """Who runs this handler."""
        if handling.batching is not None:
            return self._batches[handling.batching]
        return self._tasks if handling.is_async else self._threads

    @property
    def hanging(self) -> int:
        """Places that are empty because handlers that were given up do not end; nothing starts in them."""
        return sum(crew.missing for crew in self._watched)

    def _looked(self) -> None:
        """After each expiry, and while places are empty: say so on entering and on leaving that state."""
        hanging = self.hanging
        if hanging and not self._was_hanging:
            slots = [slot for crew in self._watched for slot in crew.fenced]
            log.error(
                "handlers hung",
                group=self._name, missing=hanging, hanging=len(slots),
                places=[place_of(slot.worker) for slot in slots[:PLACES_MAX]],
                remedy="`places` shows where they hang; handlers that return free their workers",
            )  # fmt: skip
        elif self._was_hanging and not hanging:
            log.info("handlers recovered", group=self._name)
        self._was_hanging = hanging

    def _employ(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            supervise(self._tree, f"worker {self._name}", partial(self._tasks.work, slot), self._world.chance)

    def __repr__(self) -> str:
        return f"<Crews {self._name}: {self._tasks} {self._threads} {list(self._batches.values())}>"
