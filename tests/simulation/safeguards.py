"""Safeguards: what the code is without each of them, as changes of its source. `left_out.py` puts them in."""

from __future__ import annotations

from tests.simulation.change import Change
from tests.simulation.dialogue_safeguards import DIALOGUE_SAFEGUARDS

SAFEGUARDS: dict[str, tuple[Change, ...]] = {
    "commits stop at the first gap": (
        Change(
            "framework.core.window",
            "max(self.committable, chunks[0].low_offset)",
            "max(self.committable, *(chunk.low_offset for chunk in chunks))",
        ),
    ),
    "what moved during a flush stays dirty": (
        Change(
            "framework.core.offsets",
            "        if queue in self._told and offset <= self._committable[queue]:\n",
            "        if queue in self._told and offset <= self._committable[queue]:\n"
            "            offset = self._committable[queue]\n",
        ),
    ),
    "a lease is counted from its request": (
        Change("framework.core.order_lease", "        since_ms = asking.sent_ms\n", "        since_ms = now_ms\n"),
    ),
    "a key is in one line at a time": (
        Change("framework.core.line", "        line = self._lines.get(key)\n", "        line = None\n"),
    ),
    "offsets wait for the commit": (
        Change(
            "framework.core.line",
            "        portion.next = begin + count\n        if not self.is_manual:\n",
            "        portion.next = begin + count\n        if True:\n",
        ),
    ),
    "messages are compared before they are passed over": (
        Change(
            "framework.core.ranges", "    if at_low != found.low:\n", "    return None\n    if at_low != found.low:\n"
        ),
    ),
    "the last message passed over is compared, too": (
        Change("framework.core.ranges", "    if at_last != found.last:\n", "    if False:\n"),
    ),
    "who leaves while we join keeps its seat": (
        Change(
            "framework.core.group_members", "dict.fromkeys((*self._absent, *listed))", "dict.fromkeys(self._absent)"
        ),
    ),
    "a seat is kept through a restart": (
        Change("framework.core.group_members", "now_ms + grace_of(member)):\n", "now_ms):\n"),
    ),
    "a newcomer expects no broker back": (
        Change(
            "framework.core.group_members",
            "        return self._newest_ms + limits.KNOWN_MS <= gone_ms\n",
            "        return True\n",
        ),
    ),
    "a broker that was restarted takes nobody off the list": (
        Change("framework.core.member_lists", "        if not is_same:\n", "        if False:\n"),
        Change(
            "framework.services.rebalance",
            "        brokers = self._routes.brokers_of(topic)\n        missing",
            "        brokers = self._routes.brokers_of(topic)[:1]\n        missing",
        ),
    ),
    "queues that stay are left alone": (
        Change("framework.core.assignment", ".intersection(now)", ".intersection(now if now == before else ())"),
    ),
    "an outdated epoch is refused": (
        Change(
            "framework.broker.store.progress",
            "        return kept is not None and epoch < kept.epoch\n",
            "        return False\n",
        ),
    ),
    "a restart takes up the schedule": (
        Change(
            "framework.broker.delays",
            "        self.rounds.start(delayed.next_due_ms(self._store.database.writing))\n",
            "",
        ),
    ),
    "what is due sooner moves the timer": (
        Change(
            "framework.broker.rounds",
            "        if self._next_ms is None or due_ms < self._next_ms:\n",
            "        if self._next_ms is None:\n",
        ),
    ),
    "send-back makes one copy": (
        Change(
            "framework.broker.handlers.send_back",
            "        if sent_back.is_repeated(transaction.connection, key, now_ms):\n",
            "        if False:\n",
        ),
    ),
    "attempts are counted": (
        Change(
            "framework.broker.handlers.send_back",
            "original.reconsume_times + 1\n",
            "original.reconsume_times\n",
        ),
        Change(
            "framework.broker.pops",
            "        attempts = record.reconsume_times + 1\n",
            "        attempts = record.reconsume_times\n",
        ),
    ),
    "a lock outlives a restart": (
        Change(
            "framework.broker.locks",
            "        if table is not None:\n            for (group",
            "        if False:\n            for (group",
        ),
    ),
    "a step of the wall clock moves no delay": (
        Change("framework.broker.delays", "        if abs(step_ms) > STEP_MS:\n", "        if False:\n"),
    ),
    "a commit reaches the disk": (
        Change("framework.broker.store.database", "{'NORMAL' if is_relaxed else 'FULL'}", "NORMAL"),
    ),
    "an answer leaves after the commit": (
        Change(
            "framework.broker.store.writer",
            "        def job() -> None:\n            if not self._is_dead:\n",
            "        for result, done in group:\n"
            "            _tell(done, result, None)\n"
            "        group = [(result, None) for result, _ in group]\n"
            "\n"
            "        def job() -> None:\n"
            "            if not self._is_dead:\n",
        ),
    ),
    "a send-back that nobody keeps is found": (
        Change(
            "framework.client.retry_rooms",
            "        if (group, broker) in self._mute:\n            return\n        key = group, broker\n",
            "        return\n        key = group, broker\n",
        ),
    ),
    "a broker that answers is not given up with its route": (
        Change(
            "framework.client.routes",
            "        route = doubt.resolve(before, route, self._contact, asyncio.get_running_loop().time())\n",
            "",
        ),
    ),
    "each acquisition has an epoch of its own": (
        Change(
            "framework.hooks.builtin.progress.progress_topic",
            "        place, epoch = await self._send(queue, content, None)\n        self._looked[place]",
            "        await self._send(queue, content, 0)\n        return 0\n        self._looked[place]",
        ),
    ),
    "requests time out": (
        Change(
            "framework.net.channel_timer",
            "        silence: float | None = None\n        for number, deadline in [entry",
            "        self.deadlines.clear()\n"
            "        silence: float | None = None\n"
            "        for number, deadline in [entry",
        ),
    ),
    "a file is on the disk before it takes its name": (
        Change(
            "framework.net.real_world",
            "            os.fsync(file.fileno())\n        beside.replace(target)\n",
            "        beside.replace(target)\n",
        ),
    ),
    "a broker that restarts is expected back": (
        Change(
            "framework.net.route",
            "                is_kept = now < gone + AWAY_SECONDS\n",
            "                is_kept = False\n",
        ),
    ),
    "a name belongs to one process": (
        Change(
            "framework.runtime.joining", "        if grace_of(member) and member in listed:\n", "        if False:\n"
        ),
        Change(
            "framework.runtime.joining",
            "        self._asked_at[name] = now\n",
            "        self._asked_at[name] = now\n        return\n",
        ),
    ),
    "a flapper waits before it joins": (
        Change(
            "framework.runtime.joining",
            "        if wait_ms:\n            self.held[name]",
            "        if False:\n            self.held[name]",
        ),
    ),
    "a quarantine ends": (
        Change(
            "framework.runtime.joining",
            "        if self.is_over:\n            await asyncio.Event().wait()\n        del self.held",
            "        if True:\n            await asyncio.Event().wait()\n        del self.held",
        ),
    ),
    "a name gives back its locks before it waits": (
        Change(
            "framework.runtime.joining",
            "    for topic in (*(each.topic for each in group.plan.subscriptions), retry_topic(group.plan.name)):\n"
            "        try:\n"
            "            queues = await",
            "    for topic in ():\n        try:\n            queues = await",
        ),
    ),
    "a key is recorded after success only": (
        Change(
            "framework.services.call.once",
            "            if _is_success(value) and not delivery.is_expired:\n",
            "            if True:\n",
        ),
    ),
    "durations are measured by a clock that nobody sets": (
        Change(
            "framework.services.clocks",
            "        self.monotonic = clock.monotonic\n",
            "        began, wall_ms = clock.monotonic(), clock.now_ms()\n"
            "        self.monotonic = lambda: began + (clock.now_ms() - wall_ms) / 1000\n",
        ),
    ),
    "what is dated goes by the clock of the brokers": (
        Change(
            "framework.services.clocks",
            "        if not self.brokers.brokers:\n            return wall_ms\n",
            "        if True:\n            return wall_ms\n",
        ),
    ),
    "a limit counts from the start of the handler": (
        Change(
            "framework.services.pool.expiry",
            "                at = due(slot, limit)\n                if at is not None and at <= now:\n",
            "                at = due(slot, limit)\n"
            "                if at is not None and slot.chunk is not None:\n"
            "                    at = slot.chunk.run.pulled_at + limit\n"
            "                if at is not None and at <= now:\n",
        ),
    ),
    "the result of an expired handler changes nothing": (
        Change(
            "framework.services.pool.tasks",
            "    if not slot.has_expired((chunk, index)):\n        if result is not None",
            "    if True:\n        if result is not None",
        ),
        Change(
            "framework.services.pool.threads",
            "    late = [index for index in ended if slot.has_expired((chunk, index))]\n",
            "    late = []\n",
        ),
        Change(
            "framework.services.pool.threads",
            "    if slot.verdicts is not None and slot.has_expired((chunk, index)):\n",
            "    if False:\n",
        ),
    ),
    "an owner says its offset again": (
        Change(
            "framework.services.offsets.commit",
            "            if pull.flow.state is not QueueState.RETIRING:\n"
            "                self._offsets.mark_unsent(pull.queue)\n",
            "            pass\n",
        ),
    ),
    "a hand-over is awaited": (
        Change(
            "framework.services.offsets.handover",
            "            return None\n        return last.owner\n",
            "            return None\n        return None\n",
        ),
    ),
    "who comes second waits again": (
        Change("framework.services.offsets.handover", "        return not self._is_over\n", "        return False\n"),
    ),
    "saves go to two files in turn": (
        Change("framework.services.offsets.local_offsets", "files[sequence % 2]", "files[0]"),
    ),
    "a record that is not applied is voided": (
        Change(
            "framework.services.offsets.progress",
            "            await self._take_first(found)\n",
            "            if reason is None:\n                await self._take_first(found)\n",
        ),
    ),
    "a take that was cut off is released": (
        Change(
            "framework.services.offsets.progress",
            "        if not self._is_taking:\n            return None\n        last =",
            "        if True:\n            return None\n        last =",
        ),
    ),
    "a reset voids what was kept": (
        Change(
            "framework.services.offsets.progress",
            "        if self._may_stand:\n"
            "            try:\n"
            "                async with self._is_writing:\n"
            "                    if await",
            "        if False:\n"
            "            try:\n"
            "                async with self._is_writing:\n"
            "                    if await",
        ),
    ),
    "the low end is confirmed before its ranges are kept": (
        Change(
            "framework.services.offsets.progress",
            '            await self._confirm()\n            await marks.stretched("ranges are to be written")\n',
            '            await marks.stretched("ranges are to be written")\n',
        ),
    ),
    "an owner that was superseded takes its queue anew": (
        Change(
            "framework.services.offsets.progress",
            "        must_wait = window.is_draining or",
            "        return False\n        must_wait = window.is_draining or",
        ),
    ),
    "a take-over looks for records": (
        Change(
            "framework.services.offsets.progress_use",
            "        if self.is_open:\n            return True\n        members",
            "        if True:\n            return self.is_open\n        members",
        ),
    ),
    "a leaver by key closes its gaps": (
        Change(
            "framework.services.orderly.pool",
            "        if desk.lanes.is_by_key and not desk.pull.flow.window.is_closed:\n            window, batching",
            "        if False:\n            window, batching",
        ),
    ),
    "a late result changes nothing": (
        Change(
            "framework.services.orderly.ends",
            "        return portion.window.is_closed or not lane.desk.lease.holds(now_ms)\n",
            "        return False\n",
        ),
    ),
    "a lost connection leaves no lease": (
        Change(
            "framework.services.orderly.lease",
            "            if lease.where == address and lease.unconfirmed(now_ms):\n",
            "            if False:\n",
        ),
    ),
    "a lock that is refused is not had": (
        Change(
            "framework.services.orderly.lease",
            "        elif queue in held:\n            self._waiting_for",
            "        elif True:\n            self._waiting_for",
        ),
    ),
    "the copy is durable before the source is settled": (
        Change(
            "framework.services.outcome.retry_sender",
            ".get(chunk.window, 0) + 1\n        self._enqueue(job)\n",
            ".get(chunk.window, 0) + 1\n        settled(job)\n        self._enqueue(job)\n",
        ),
        Change(
            "framework.services.outcome.retry_sender",
            "        self._done_with(job, is_sent=True)\n        job.settled(job)\n",
            "        self._done_with(job, is_sent=True)\n",
        ),
    ),
    "a parked message is sent again": (
        Change(
            "framework.services.outcome.retry_sender",
            "        if job.chunk.window.is_closed:\n            self._give_up(job)\n        else:",
            "        if True:\n            self._give_up(job)\n        else:",
        ),
    ),
    "an open breaker holds its queues": (
        Change(
            "framework.services.outcome.trials",
            "            if not pull.flow.is_tripped:\n                pull.flow.is_tripped = True\n",
            "            if False:\n                pull.flow.is_tripped = True\n",
        ),
    ),
    "running handlers are waited for": (
        Change(
            "framework.services.queue.leaving",
            "        clock, busy = self._clock, self._pool.busy\n",
            "        clock, busy, deadline = self._clock, self._pool.busy, 0.0\n",
        ),
    ),
    "the last offset is confirmed": (
        Change(
            "framework.services.queue.leaving",
            "        await self._commits.flush(pull.queue)\n        if pull.popped",
            "        if pull.popped",
        ),
    ),
    "what is held is renewed": (
        Change(
            "framework.services.queue.popped",
            "        if self.held.find(entry.message) is not entry:\n            return None  # it has ended",
            "        if True:\n            return None  # it has ended",
        ),
    ),
    "a renewal moves when a message comes back": (
        Change("framework.broker.handlers.pop", "connection, [row])\n", "connection, [row._replace(due_ms=now_ms)])\n"),
    ),
    "a failed query is no reset": (
        Change(
            "framework.services.queue.position",
            "    stored = await brokers.query_offset(group, queue)\n"
            '    await marks.stretched("a stored offset is known")\n',
            "    try:\n"
            "        stored = await brokers.query_offset(group, queue)\n"
            "    except Exception:\n"
            "        stored = await brokers.max_offset(queue)\n"
            '    await marks.stretched("a stored offset is known")\n',
        ),
    ),
    "an owner goes on where it was": (
        Change(
            "framework.services.queue.position",
            '    return replace(start, offset=reached, reason=f"handled up to {reached}, {start.reason}")\n',
            "    return start\n",
        ),
    ),
    "members that start together wait for each other": (
        Change(
            "framework.services.rebalance",
            "        if self._is_gathered:\n            return await self._ask(topic)\n",
            "        return await self._ask(topic)\n",
        ),
    ),
} | DIALOGUE_SAFEGUARDS
