"""Orderly consumption: a line's messages one after the other, in offset order, while the queue's lease is valid.

A line is a whole queue, or one key of it. A lane with something to do waits for a worker. Its worker keeps it until
nothing is left, a message must wait for a while, or its turn is over. There are `size` workers, so that many lanes run
at once. `core/line.py` says which messages are one line, `core/line.py` which is first in it, `core/order_lease.py`
how long a lock is valid, `ends.py` what follows from a result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator

import structlog

from framework.core import limits
from framework.core.chunk import Chunk
from framework.core.line import Lanes, Portion
from framework.core.order_lease import OrderLease
from framework.core.queue_flow import QueueState
from framework.core.window import Window
from framework.hooks.listeners import NO_LISTENERS, Listeners
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import Clock, Workers
from framework.services.orderly.calls import OrderCalls
from framework.services.orderly.desk import Desk, InOrder, Lane
from framework.services.orderly.ends import OrderlyOutcomes
from framework.services.orderly.watch import LOOK_AROUND_MS, Alarms, Pulse, StuckWatch, why_blocked, why_full
from framework.services.pool.run import BREATH_S, Breath
from framework.services.queue.pull import PullLoop

log = structlog.get_logger()


class Orderly:
    """All queues of one orderly group. It takes chunks as a pool does."""

    def __init__(
        self,
        group: str,
        size: int,
        ends: OrderlyOutcomes,
        *,
        stuck_after_ms: int,
        clock: Clock,
        workers: Workers,
        tree: TaskTree,
        listeners: Listeners = NO_LISTENERS,
    ) -> None:
        self._group, self._size, self._clock, self._tree = group, size, clock, tree
        self._desks: dict[MessageQueue, Desk] = {}
        self._ready: deque[Lane] = deque()
        self._working, self._turn_ms = 0, limits.TURN_MS
        self._coming = 0
        """Workers that have no lane and will take one: those that have not begun, and those at a breath between two."""
        self._breath = Breath(clock.monotonic)
        self._is_inviting = False
        self._calls = OrderCalls(clock, workers, ends.tell)
        self.held = HeldLines(self)
        self._ends = ends
        self._alarms = Alarms(clock, self.stand_in_line)
        self._pulse = Pulse(clock, lambda: bool(self._desks))
        self._watch = StuckWatch(group, clock, stuck_after_ms, self.lanes, listeners)

    # Queues come and go

    def take(self, pull: PullLoop, lease: OrderLease, how: InOrder) -> None:
        """Have the queue's chunks handled while the lease is held."""
        desk = self._desks.get(pull.queue)
        if desk is None:
            self._desks[pull.queue] = Desk(pull, lease, how, Lanes(how.key_of, is_manual=how.is_manual))
        else:
            assert desk.is_left, f"{pull.queue} is taken already"
            # A handler of the last time still runs here: the new chunks of its line wait for it.
            desk.pull, desk.lease, desk.is_left, desk.is_told = pull, lease, False, False
        self._pulse.start()

    def clear(self, queue: MessageQueue) -> None:
        """The lease is gone: whatever waits is forgotten, what runs may end and changes nothing."""
        desk = self._desks[queue]
        desk.lanes.clear()
        desk.is_told = False
        for line in list(desk.lanes):
            lane: Lane = line.run
            lane.wakes_ms = 0
            self._drop_if_over(lane)

    def leave(self, queue: MessageQueue) -> None:
        """The queue is given back."""
        self.clear(queue)
        desk = self._desks[queue]
        if desk.running:
            desk.is_left = True
        else:
            self._close(desk)

    def _close(self, desk: Desk) -> None:
        """Nothing of the queue runs here any more; in a group without queues no timer is left."""
        self._desks.pop(desk.pull.queue, None)
        if not self._desks:
            self._alarms.stop()
            self._pulse.stop()
            self._watch.stop()

    # As the pool of its queues

    def offer(self, chunk: Chunk) -> None:
        desk = self._desks[chunk.run.queue]
        for line in desk.lanes.offer(chunk):
            if line.run is None:
                line.run = Lane(desk, line)
            lane: Lane = line.run
            if lane.wakes_ms:
                first = line.first
                batching = desk.how.batching
                is_filled = batching is not None and lane.lingers_ms and line.has(batching.count)
                if first is not None and first.chunk is not chunk and not is_filled:
                    continue
                lane.wakes_ms = 0  # what it waited for is gone: the queue was moved
            self.stand_in_line(lane)
        self._say_if_full(desk)

    def runs(self, window: Window) -> int:
        """How many handlers run on this window's queue, whichever window their messages are of."""
        return sum(desk.running for desk in self._desks.values() if desk.pull is window.run)

    def is_busy(self, queue: MessageQueue, until_ms: int = 0) -> bool:
        """Whether handlers run; or, of a queue that is being given back, are still to run, and may until then."""
        desk = self._desks.get(queue)
        return desk is not None and (desk.running > 0 or (until_ms > 0 and self._has_gaps(desk, until_ms)))

    def close_gaps(self, queue: MessageQueue) -> None:
        """The queue is to be given back. Keys that are behind others come to where those are; what these have handled
        would come again otherwise.
        """
        desk = self._desks[queue]
        if desk.lanes.is_by_key and not desk.pull.flow.window.is_closed:
            window, batching = desk.pull.flow.window, desk.how.batching
            count = batching.count if batching is not None else 1
            window.drains_to = window.end  # so that they tell what they are at
            running = [place for line in desk.lanes if line.run.is_running for place in line.take(count)]
            window.drains_to = 0
            window.close_gaps(max((each.messages[index].queue_offset + 1 for each, index in running), default=0))

    def _has_gaps(self, desk: Desk, until_ms: int) -> bool:
        """Whether some key that is behind others may still come to where those are."""
        now_ms = self._clock.monotonic_ms()
        is_held = desk.pull.flow.is_tripped
        if not desk.lanes.is_by_key or not self._size or is_held or not desk.lease.holds(now_ms):
            return False
        return any(
            line.first is not None
            and now_ms + line.wait_ms(now_ms) < until_ms
            and line.run.failed_leaving < limits.TRIES_LEAVING
            for line in desk.lanes
        )

    def blocked_because(self, queue: MessageQueue) -> str | None:
        """Why the queue's first message is not past, or which keys are blocked."""
        desk = self._desks.get(queue)
        if desk is None:
            return None
        full = why_full(desk)
        return why_blocked(desk) if full is None else f"nothing of a full window can start: {full}"

    @property
    def unsent(self) -> int:
        """Lanes whose dead letter no broker has taken yet, though it was tried."""
        return sum(lane.is_unsent and bool(lane.line.copies) for lane in self.lanes())

    def lanes(self) -> Iterator[Lane]:
        for desk in self._desks.values():
            for line in desk.lanes:
                yield line.run

    # Workers

    def stand_in_line(self, lane: Lane) -> None:
        if lane.is_ready or lane.is_running:
            return  # whoever runs it looks again when he is done
        lane.is_ready = True
        lane.desk.busy += 1
        self._ready.append(lane)
        self._hire(1)  # if its handler suspends, more are invited

    def resize(self, size: int) -> None:
        """At most `size` queues at work from now on, or none; a worker too many ends with the message that it is at."""
        self._size = size
        self._hire(len(self._ready))

    def _hire(self, lanes: int) -> None:
        """Workers for so many lanes, beside those that will come for the next one anyway."""
        for _ in range(min(lanes - self._coming, self._size - self._working)):
            self._working += 1
            self._coming += 1
            self._tree.start(self._work(), name=f"orderly {self._group}")

    def _invite(self) -> None:
        """Runs once the worker that asked for it suspends. If its handlers never did, there is nothing to share."""
        self._is_inviting = False
        if not self._coming:  # else that one goes along the lanes, and invites again if it suspends
            self._hire(len(self._ready))

    async def _work(self) -> None:
        """One worker: for as long as there is work, and then gone."""
        self._coming -= 1
        try:
            while self._ready and self._working <= self._size:
                lane = self._ready.popleft()
                if self._ready and not self._is_inviting:
                    self._is_inviting = True
                    asyncio.get_running_loop().call_soon(self._invite)
                desk = lane.desk
                lane.is_ready, lane.is_running = False, True
                desk.running += 1
                try:
                    await self._turn(lane)
                except Exception:  # border: the loop's; one queue's surprise must not stop the others
                    log.exception("loop failed", loop=f"orderly {self._group}", queue=str(desk.pull.queue))
                    lane.line.stay(self._clock.monotonic_ms(), limits.FAILURE_DELAY_MS, "internal error", counts=False)
                finally:
                    lane.is_running = False
                    desk.running -= 1
                    desk.busy -= 1
                    self._turn_over(lane)
                if self._ready and self._clock.monotonic() - self._breath.at >= BREATH_S:
                    self._coming += 1
                    try:
                        await self._breath.draw()
                    finally:
                        self._coming -= 1
        finally:
            self._working -= 1

    async def _turn(self, lane: Lane) -> None:
        """Run the line's messages, one after the other."""
        over_ms = self._clock.monotonic_ms() + self._turn_ms
        has_run = False
        line = lane.line
        while True:
            now = self._clock.monotonic()
            now_ms = int(now * 1000)
            first = self.startable(lane, now_ms)
            if first is None or now_ms >= over_ms or self._working > self._size or lane.is_held_back:
                return
            if now_ms < self._pulse.look_around(now_ms):
                await asyncio.sleep(LOOK_AROUND_MS / 1000)
                continue
            if has_run and now - self._breath.at >= BREATH_S:
                await self._breath.draw()  # now and then, or handlers that never suspend would starve the pulls
                has_run = False
                continue
            has_run = True
            if line.copies:
                await self._ends.bury(lane)
                continue
            is_trial = lane.desk.pull.flow.is_tripped
            if not is_trial and self._lingers(lane, now_ms):
                return
            if line.since_ms is None:
                self._watch.begun(lane, now_ms)
            batching = lane.desk.how.batching
            if batching is not None:
                places = line.take(1 if is_trial else batching.count)
                results = await self._calls.run_batch(lane, places, batching)
                if results is None:
                    self._ends.batch_went_well(lane, places)
                elif results:
                    self._ends.batch_came_home(lane, places, results)
                continue
            ended, result = await self._calls.run(lane, first, line.message)
            self._ends.came_home(lane, first, ended, result)

    def _lingers(self, lane: Lane, now_ms: int) -> bool:
        """Whether its batch may still fill. What is tried again waits for nobody."""
        batching, line = lane.desk.how.batching, lane.line
        if batching is not None and batching.linger_ms and not line.last_error and not line.has(batching.count):
            lane.lingers_ms = lane.lingers_ms or now_ms + batching.linger_ms
            if now_ms < lane.lingers_ms:
                return True
        lane.lingers_ms = 0
        return False

    def startable(self, lane: Lane, now_ms: int) -> Portion | None:
        """The portion whose next message may start now. A queue that was left has empty lines."""
        if not lane.desk.lease.holds(now_ms) or lane.line.wait_ms(now_ms):
            return None
        return lane.line.first

    # After a turn

    def _turn_over(self, lane: Lane) -> None:
        """Nobody runs it any more: let the group know, or see to it that somebody runs it again."""
        desk = lane.desk
        if desk.is_left:
            if not desk.running:
                self._close(desk)
            return
        now_ms = self._clock.monotonic_ms()
        if desk.pull.flow.state is QueueState.RETIRING:
            lane.failed_leaving += lane.line.wait_ms(now_ms) > 0
            if desk.lanes.is_by_key and desk.pull.flow.window.drains_to:
                desk.pull.flow.window.close_gaps()
            desk.pull.quiet.ring()
        if lane.line.first is None:
            self._drop_if_over(lane)
        elif lane.is_held_back:
            lane.lingers_ms = 0  # until it is its turn to be tried, or all go on
        elif desk.lease.holds(now_ms):  # else the next lease, and then the next chunk, will bring it back
            wait_ms = max(lane.line.wait_ms(now_ms), lane.lingers_ms - now_ms)
            if wait_ms > 0:
                self._alarms.put(lane, now_ms + wait_ms)
            else:
                self.stand_in_line(lane)
        self._say_if_full(desk)

    def _drop_if_over(self, lane: Lane) -> None:
        if not (lane.is_running or lane.is_ready) and lane.line.first is None:
            lane.desk.lanes.drop(lane.line)

    def _say_if_full(self, desk: Desk) -> None:
        """On entering the state and not while in it: nothing that was pulled can be started, and no more is pulled."""
        if not desk.pull.flow.is_full:
            desk.is_told = False
            return
        reason = None if desk.is_told else why_full(desk)
        if reason is not None:
            desk.is_told = True
            log.warning("queue held", group=self._group, queue=str(desk.pull.queue), reason=reason)

    def __repr__(self) -> str:
        busy = sum(desk.running > 0 for desk in self._desks.values())
        return f"<Orderly {self._group}: {busy} of {len(self._desks)} queues at work, {len(self._ready)} wait>"


class HeldLines:
    """What an orderly group tries while the handlers of one of its topics fail all: one line at a time.

    The messages stay where they are; a line that is held back (`Lane.is_held_back`) starts nothing.
    """

    def __init__(self, pool: Orderly) -> None:
        self._pool, self._trials = pool, 0

    def hold(self, pull: PullLoop) -> None:
        """Its lines find out by themselves."""

    def put(self, pull: PullLoop, chunk: Chunk) -> None:
        """It goes to its lines."""
        pull.pool.offer(chunk)

    def start_one(self, pulls: Iterable[PullLoop], now_ms: int) -> Lane | None:
        """The first message of the line that was tried longest ago, or never."""
        wanted, pool = set(pulls), self._pool
        ready = [
            lane
            for lane in pool.lanes()
            if lane.desk.pull in wanted and not (lane.is_running or lane.is_ready) and pool.startable(lane, now_ms)
        ]
        if not ready:
            return None
        lane = min(ready, key=lambda each: each.trial)
        self._trials += 1
        lane.trial, lane.wakes_ms = self._trials, 0
        pool.stand_in_line(lane)
        return lane

    def is_over(self, trial: object) -> bool:
        assert isinstance(trial, Lane), "these trials are lanes"
        return not (trial.is_running or trial.is_ready)

    def release(self, pull: PullLoop) -> None:
        for lane in self._pool.lanes():
            if lane.desk.pull is pull and lane.line.first is not None:
                self._pool.stand_in_line(lane)
