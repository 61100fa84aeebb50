"""One logical broker: its topics, groups, offsets, members, locks and waiting pulls, and the store it shares.

It is put together here and used by the handlers; it knows no socket and no request code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from framework.broker.answers import Client
from framework.broker.delays import Delays
from framework.broker.holds import Holds
from framework.broker.locks import QueueLocks, load_locks
from framework.broker.members import Admission, Members
from framework.broker.notices import Notices
from framework.broker.pops import Pops
from framework.broker.rates import Throughput
from framework.broker.retention import Retention
from framework.broker.rounds import Timer, Timers
from framework.broker.settings import BrokerSettings
from framework.broker.store.offsets import Offsets
from framework.broker.store.progress import ProgressRecords
from framework.broker.store.queues import Queue
from framework.broker.store.store import Store
from framework.broker.store.topics import load_groups, load_topics
from framework.broker.store.writer import Row
from framework.broker.switches import Switches
from framework.broker.topic_rules import TopicRules
from framework.broker.transactions import Transactions
from framework.broker.users import Users
from framework.ports import World
from framework.wire.ids import UniqueKeys

K = TypeVar("K")
V = TypeVar("V")

# For administrators' figures, which name groups and topics by the hundred; made-up names cannot fill more than this.
_FIGURES_MAX = 20_000


class Node:
    """The state behind one broker address."""

    def __init__(
        self,
        name: str,
        *,
        world: World,
        timers: Timers,
        store: Store,
        delays: Delays,
        retention: Retention,
        settings: BrokerSettings,
        neighbours: Callable[[], list[Node]],
        trouble: Callable[[str], None],
        users: Users | None = None,
    ) -> None:
        self.name = name
        self.address = ""
        """host:port as clients reach it; known once the port is open."""
        self.world, self.timers = world, timers
        self.store = store
        self.delays = delays
        self.retention = retention
        self.settings = settings
        self.users = users
        """Who may ask for what; None where everybody may."""
        self.neighbours = neighbours
        """All logical brokers of the process, this one among them: what a name server knows."""
        connection = store.database.writing
        self.switches = Switches(store.values, name)
        self.rules = TopicRules(
            load_topics(connection, name), load_groups(connection, name), settings, self.switches, name
        )
        self.offsets = Offsets(connection, name, settings.offsets_max)
        self.progress = ProgressRecords(connection, name, store.values)
        locks = load_locks(connection, name) if settings.keeps_locks else None
        self.locks = QueueLocks(locks, now_ms=world.clock.monotonic_ms())
        saved = (self.offsets.table, self.offsets.resets, self.offsets.rewinds, self.progress.table)
        for table in (self.rules.topics, self.rules.groups, *saved, locks):
            if table is not None:
                store.writer.attach(table)
        self.started_ms, self.began_ms = world.clock.now_ms(), world.clock.monotonic_ms()
        self.is_write_wiped = False
        """Whether the name server shows none of our topics as writable."""
        self.puts = Throughput()
        """How many messages came."""
        self.stored: dict[str, Throughput] = {}
        """The same by topic."""
        self.pulled: dict[tuple[str, str, int], int] = {}
        """Where each group was last told to go on in each queue; of many, the last that were new."""
        self.rates: dict[tuple[str, str], Throughput] = {}
        """How many messages each group was given of each topic; of many, the last that were new."""
        self.members = Members(
            timers,
            Admission(timers, settings.admission_ms, settings.admission_ms_max),
            bytes_max=settings.heartbeat_bytes_max,
        )
        self._notices = Notices(timers, self.members.find, self._is_notified)
        self.members.arrived, self.members.departed = self._notices.arrived, self._notices.departed
        self.holds = Holds(timers, settings.waiting_pulls_max, settings.waiting_bytes_max)
        # Pops wait apart from pulls, under the same limits.
        self.pops = Pops(
            name, Holds(timers, settings.waiting_pulls_max, settings.waiting_bytes_max), store=store, rules=self.rules,
            offsets=self.offsets, delays=delays, timers=timers, chance=world.chance, trouble=trouble,
            bytes_max=settings.pull_bytes_max,
        )  # fmt: skip
        self.transactions = Transactions(name, store, delays, self.members, self.switches, timers, settings, trouble)
        identity = world.identity
        self.unique_keys = UniqueKeys(identity.host, identity.process, int.from_bytes(world.chance.token(4)))
        """For messages that came without one."""
        self._saving: Timer | None = None
        self._lock_watch: Timer | None = None
        self.watch_locks()

    def queue(self, topic: str, number: int) -> Queue | None:
        """The queue, where it ever got a message."""
        return self.store.queues.find(self.name, topic, number)

    def goes_on(self, group: str, topic: str, number: int, offset: int) -> None:
        """A group was told where to go on in a queue."""
        _keep(self.pulled, (group, topic, number), offset)

    def gave(self, group: str, topic: str, count: int, size: int) -> None:
        """A group was given messages by one pull."""
        rate = self.rates.get((group, topic))
        if rate is None:
            rate = Throughput()
            _keep(self.rates, (group, topic), rate)
        rate.add(count, size, 1, self.timers.time())

    def arrived(self, queue: Queue, rows: list[Row]) -> None:
        """Messages were committed to a queue of ours."""
        rate = self.stored.get(queue.topic)
        if rate is None:
            rate = self.stored[queue.topic] = Throughput()
        count, size, now_s = len(rows), sum([len(row[-1]) for row in rows]), self.timers.time()
        rate.add(count, size, count, now_s)
        self.puts.add(count, size, count, now_s)
        self.holds.arrived(queue, rows)
        self.pops.arrived(queue, rows)

    def gone(self, client: Client) -> None:
        """A connection ended."""
        self.holds.forget(client)
        self.pops.holds.forget(client)
        self.members.gone(client)

    def save_soon(self) -> None:
        """Something small changed that nobody waits for; it rides with the next write, or goes by itself shortly."""
        if self._saving is None:
            self._saving = self.timers.call_later(self.settings.offsets_saved_s, self._save)

    def watch_locks(self) -> None:
        """See to it that locks that run out are forgotten."""
        if self._lock_watch is None and len(self.locks):
            self._lock_watch = self.timers.call_later(self.locks.life_ms / 1000, self._look_at_locks)

    def _look_at_locks(self) -> None:
        self._lock_watch = None
        self.locks.forget_expired(self.world.clock.monotonic_ms())
        if not self.locks.is_saved:
            self.save_soon()
        self.watch_locks()

    def stop(self) -> None:
        """No more timers. Held pulls have been answered by now."""
        self.holds.clear()
        self.members.clear()
        self.transactions.rounds.stop()
        self.pops.stop()
        self._notices.clear()
        for timer in (self._saving, self._lock_watch):
            if timer is not None:
                timer.cancel()
        self._saving = self._lock_watch = None

    def _save(self) -> None:
        self._saving = None
        self.store.writer.save_tables()

    def _is_notified(self, group: str) -> bool:
        if not self.switches.notifies_members:
            return False
        settings = self.rules.groups.get(group)
        return settings is None or settings.notifies_members


def _keep(figures: dict[K, V], key: K, value: V) -> None:
    figures[key] = value
    if len(figures) > _FIGURES_MAX:
        del figures[next(iter(figures))]
