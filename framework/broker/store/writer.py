"""The one writer: changes gather into groups, a group is one transaction, and "done" is said after its commit only.

Changes that arrive while a commit runs share the next one (group commit). Rows are inserted on the event loop, which
touches memory only; the commit, with its sync, runs on a worker. Offsets and places are given out in the order in which
changes are written, and taken back when a group fails, so that they stay dense.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from struct import Struct
from types import GeneratorType
from typing import Any, NamedTuple, Protocol, TypeAlias

import structlog

from framework.broker.loans import Loan
from framework.broker.store import keys
from framework.broker.store.columns import LOG_END, QUEUES
from framework.broker.store.database import Database
from framework.broker.store.queues import OFFSET_MAX, Queue, Queues
from framework.broker.store.seals import sealed
from framework.broker.store.trouble import explained
from framework.errors import FrameworkError, StoreError
from framework.ports import Clock, Workers
from framework.wire.record import crc32

log = structlog.get_logger()

# One group's insertions hold the loop for about 5 us a row: 10 ms at most.
GROUP_ROWS_MAX = 2000
GROUP_BYTES_MAX = 8 * 1024 * 1024
STEP_ROWS = 500  # of these, before others have the loop for a while
_QUIET_MS = 60_000

_OFFSETS = Struct(">qq").pack_into  # queue offset and commit-log offset stand side by side
_OFFSETS_READ = Struct(">qq").unpack_from
_OFFSETS_AT = 20
_TIME, _TIME_READ = Struct(">q").pack_into, Struct(">q").unpack_from
_TIME_AT, _BORN_V6_EXTRA = 56, 12
_SYS_FLAG = Struct(">i").unpack_from
_SYS_FLAG_AT, _BORN_V6_BIT = 36, 0x10

STAMP_BYTES = _TIME_AT + _BORN_V6_EXTRA + 8
"""As many of a record's first bytes say where and when it was stored."""

_INSERT = "INSERT INTO messages (id, place, stored_ms, tag, checksum, record) VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_QUEUE = QUEUES.insert

Change: TypeAlias = "Callable[[Transaction], Any]"
"""May run twice: where another of its group could not be made, all of it is undone and the others are run again.

One of many rows is a generator function, which yields now and then; what it returns is the result."""
Row: TypeAlias = tuple[int, int, int, int, int, bytearray]
"""A message as it goes into the table: id, place, store time, tag, checksum, record."""
Done: TypeAlias = Callable[[Any, FrameworkError | None], None]


class Stored(NamedTuple):
    """Where a message was put."""

    queue: Queue
    offset: int
    place: int
    stored_ms: int


class Stamp(NamedTuple):
    """The same as the record itself says it."""

    offset: int
    place: int
    stored_ms: int


def stamp_of(head: bytes) -> Stamp | None:
    """What `append` has filled into a record; None where that is too short to be one."""
    if len(head) < _TIME_AT + 8:
        return None
    extra = _BORN_V6_EXTRA if _SYS_FLAG(head, _SYS_FLAG_AT)[0] & _BORN_V6_BIT else 0
    if len(head) < _TIME_AT + extra + 8:
        return None
    offset, place = _OFFSETS_READ(head, _OFFSETS_AT)
    return Stamp(offset, place, _TIME_READ(head, _TIME_AT + extra)[0])


class Saved(Protocol):
    """What is written along with every group."""

    @property
    def is_dirty(self) -> bool: ...
    def save(self, connection: sqlite3.Connection) -> None: ...
    def saved(self, *, committed: bool) -> None: ...


class Transaction:
    """What a change may do while its group is open. Not to be kept."""

    def __init__(self, connection: sqlite3.Connection, queues: Queues, place: int, now_ms: int, clock_ms: int) -> None:
        self.connection = connection
        self.now_ms = now_ms
        """The store time of this group; ahead of the clock where that was set back."""
        self.clock_ms = clock_ms
        self.place = place
        self.bytes = 0
        self.count = 0
        self.rows: list[Row] = []
        self.key_hashes: list[int] = []
        self.key_messages: list[int] = []
        self.arrived: dict[Queue, list[Row]] = {}
        """Queues written to, with what came."""
        self._queues = queues

    def append(
        self, broker: str, topic: str, number: int, record: bytes, tag: int, key_hashes: Iterable[int] = ()
    ) -> Stored:
        """Store an encoded record at the end of a queue; its offset, place and store time are filled in here."""
        queue = self._queues.obtain(broker, topic, number)
        arrived = self.arrived.get(queue)
        if arrived is None:
            arrived = self.arrived[queue] = []
            if not queue.is_saved:
                self.connection.execute(
                    _INSERT_QUEUE,
                    queue.row(0),
                )
        offset = queue.next
        if offset > OFFSET_MAX:
            raise StoreError(f"{queue}: full")
        queue.next = offset + 1
        place = self.place
        stamped = bytearray(record)
        _OFFSETS(stamped, _OFFSETS_AT, offset, place)
        extra = _BORN_V6_EXTRA if _SYS_FLAG(stamped, _SYS_FLAG_AT)[0] & _BORN_V6_BIT else 0
        _TIME(stamped, _TIME_AT + extra, self.now_ms)
        self.place = place + len(stamped)
        self.bytes += len(stamped)
        self.count += 1
        row = (queue.base + offset, place, self.now_ms, tag, ~tag << 32 | crc32(stamped), stamped)
        self.rows.append(row)
        for key_hash in key_hashes:
            self.key_hashes.append(key_hash)
            self.key_messages.append(queue.base + offset)
        arrived.append(row)
        return Stored(queue, offset, place, self.now_ms)

    @property
    def is_full(self) -> bool:
        """Whether a group is large enough."""
        return self.count >= GROUP_ROWS_MAX or self.bytes >= GROUP_BYTES_MAX

    def mark_end(self) -> None:
        """Note how far the log has come, where its last message may be deleted: no place is given out twice."""
        self.connection.execute(LOG_END.delete_all)
        self.connection.execute(LOG_END.insert, sealed((self.place, self.now_ms)))

    def flush(self) -> None:
        """Put appended messages into the table, so that the change can read them back."""
        if self.rows:
            self.connection.executemany(_INSERT, self.rows)
            self.rows = []
        if self.key_hashes:
            keys.write(self.connection, self.now_ms, self.key_hashes, self.key_messages)
            self.key_hashes, self.key_messages = [], []


class _Group:
    """Changes that share a transaction."""

    def __init__(self, transaction: Transaction, most: int) -> None:
        self.transaction = transaction
        self.most = most
        self.taken: list[tuple[Change, Done | None]] = []
        self.made: list[tuple[Any, Done | None]] = []
        """What came of these, in their order; of one less while the last is under way."""
        self.steps: Generator[None, None, Any] | None = None
        """The rest of the last change, where it goes in steps."""

    @property
    def has_room(self) -> bool:
        return len(self.taken) < self.most and not self.transaction.is_full

    def make(self, change: Change, done: Done | None) -> None:
        """Run a change, or the first step of it."""
        self.taken.append((change, done))
        result = change(self.transaction)
        if isinstance(result, GeneratorType):
            self.steps = result
        else:
            self.made.append((result, done))

    def go_on(self, steps: Generator[None, None, Any]) -> None:
        try:
            next(steps)
        except StopIteration as end:
            self.steps = None
            self.made.append((end.value, self.taken[-1][1]))
        else:
            self.transaction.flush()  # what such a change has made need not wait here for all of it


class Writer:
    """Owns the writing connection, the queues' next offsets and the log's next place."""

    def __init__(
        self,
        database: Database,
        queues: Queues,
        clock: Clock,
        workers: Workers,
        soon: Callable[[Callable[[], None]], Any],
    ) -> None:
        self._database = database
        self._queues = queues
        self._clock = clock
        self._workers = workers
        self._soon = soon
        self._waiting: deque[tuple[Change, Done | None]] = deque()
        self._sound = 0
        """How many of those who wait first are known to go through, for they are run again; they go by themselves."""
        self._tables: list[Saved] = []
        self._is_busy = False
        self._is_dead = False
        self._quiet_ms: int | None = None
        self._idle: list[Callable[[], None]] = []
        self.on_arrival: Callable[[Queue, list[Row]], None] | None = None
        """Told of each queue with new committed messages, and of these, after those who wrote them."""
        self.groups = 0
        """Transactions committed: writes a group is what group commit is about."""
        rows = database.writing.execute(
            "SELECT * FROM (SELECT place + length(record), stored_ms FROM messages ORDER BY place DESC LIMIT 1)"
            " UNION ALL SELECT place, stored_ms FROM log_end"
        ).fetchall()
        self._place = max((int(row[0]) for row in rows), default=0)
        self._last_ms = max((int(row[1]) for row in rows), default=0)

    @property
    def place(self) -> int:
        """Where the log ends."""
        return self._place

    @property
    def is_busy(self) -> bool:
        """Whether changes are made or committed, or those who wait for a commit are still to be told."""
        return self._is_busy

    def attach(self, table: Saved) -> None:
        """Write this table's changes along with every group."""
        self._tables.append(table)

    def submit(self, change: Change, done: Done | None = None) -> None:
        """Run `change` in the next group; `done(its result, None)` after the commit, or `done(None, error)`."""
        if self._is_dead:
            if done is not None:
                done(None, StoreError("the store is closed"))
            return
        self._waiting.append((change, done))
        if not self._is_busy:
            self._is_busy = True
            self._soon(self._run)

    def save_tables(self) -> None:
        """See to it that changed tables are written, should no other change come."""
        if any(table.is_dirty for table in self._tables):
            self.submit(_nothing)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once everything submitted until now, and since, is committed or failed."""
        if self._is_busy:
            self._idle.append(callback)
        else:
            callback()

    def kill(self) -> None:
        """Stop as a crash would: nothing more is written, a commit still to come does nothing, nobody is told."""
        self._is_dead = True
        self._waiting.clear()

    def _run(self) -> None:
        """Write one group, and go on with its commit."""
        if self._is_dead:
            return
        if not self._waiting:
            self._is_busy = False
            idle, self._idle = self._idle, []
            for callback in idle:
                callback()
            return
        clock_ms = self._clock.now_ms()
        now_ms = max(clock_ms, self._last_ms)  # never back: searching by time relies on it
        transaction = Transaction(self._database.writing, self._queues, self._place, now_ms, clock_ms)
        group = _Group(transaction, self._sound or GROUP_ROWS_MAX)
        self._sound = 0
        try:
            self._database.writing.execute("BEGIN IMMEDIATE")
        except Exception as error:  # noqa: BLE001  # a border: as below
            # No transaction could be begun: nobody who waits can be served.
            group.taken, self._waiting = list(self._waiting), deque()
            self._give_up(group, error)
        else:
            self._fill(group)

    def _fill(self, group: _Group) -> None:
        """Write some rows of the group; the rest when others have had the loop."""
        if self._is_dead:
            return
        transaction = group.transaction
        until = transaction.count + STEP_ROWS
        try:
            while transaction.count < until:
                if group.steps is not None:
                    group.go_on(group.steps)
                elif self._waiting and group.has_room:
                    group.make(*self._waiting.popleft())
                else:
                    break
            else:
                self._soon(partial(self._fill, group))
                return
            transaction.flush()
            for table in self._tables:
                table.save(self._database.writing)
        except Exception as error:  # noqa: BLE001  # a border: its group is undone, and the next one goes on
            if len(group.made) < len(group.taken) and not isinstance(error, sqlite3.OperationalError):
                # Not the disk's refusal, which all would meet: the others need not share one change's fate.
                self._sound = len(group.taken) - 1
                self._waiting.extendleft(reversed(group.taken[:-1]))
                group.taken = group.taken[-1:]
            self._give_up(group, error)
        else:
            self._commit(transaction, group.made)

    def _give_up(self, group: _Group, error: Exception) -> None:
        self._failed(group.transaction, [done for _, done in group.taken], error)
        if not isinstance(error, (sqlite3.Error, FrameworkError)):
            raise error  # a mistake of ours: for the event loop's own report

    def _commit(self, transaction: Transaction, group: list[tuple[Any, Done | None]]) -> None:
        def job() -> None:
            if not self._is_dead:
                self._database.writing.execute("COMMIT")

        def ended(_: None, error: BaseException | None) -> None:
            if self._is_dead:
                return
            if error is None:
                self._committed(transaction, group)
                return
            self._failed(transaction, [done for _, done in group], error)
            if not isinstance(error, sqlite3.Error):
                raise error  # a mistake of ours, as in `_give_up`

        if not self._database.commits_inline:
            self._workers.submit(job, ended)
            return
        try:
            job()
        except Exception as error:  # noqa: BLE001  # a border: as a worker's
            ended(None, error)
        else:
            ended(None, None)

    def _committed(self, transaction: Transaction, group: list[tuple[Any, Done | None]]) -> None:
        with Loan(partial(self._soon, self._run)):  # whatever a listener does, the next group is written
            self.groups += 1
            self._place, self._last_ms = transaction.place, transaction.now_ms
            for queue in transaction.arrived:
                queue.end = queue.next
                queue.is_saved = True
            for table in self._tables:
                table.saved(committed=True)
            for result, done in group:
                _tell(done, result, None)
            if self.on_arrival is not None:
                for queue, rows in transaction.arrived.items():
                    _tell(self.on_arrival, queue, rows)

    def _failed(self, transaction: Transaction, waiting: list[Done | None], cause: BaseException) -> None:
        with Loan(partial(self._soon, self._run)):
            try:
                if self._database.writing.in_transaction:
                    self._database.writing.execute("ROLLBACK")
            except sqlite3.Error as another:
                cause = another
            for queue in transaction.arrived:
                queue.next = queue.end
            for table in self._tables:
                table.saved(committed=False)
            if isinstance(cause, FrameworkError):
                error = cause
            else:
                said = explained(cause) if isinstance(cause, sqlite3.Error) else str(cause) or type(cause).__name__
                error = StoreError(f"{self._database.place}: {said}")
                self._hear_of(error)
            for done in waiting:
                _tell(done, None, error)

    def _hear_of(self, error: StoreError) -> None:
        """Log once a minute, however many writes fail; each sender gets an error."""
        now_ms = self._clock.monotonic_ms()
        if self._quiet_ms is None or now_ms >= self._quiet_ms:
            self._quiet_ms = now_ms + _QUIET_MS
            log.error("writes failed", remedy="check the disk of the data folder", reason=str(error))


def _tell(callback: Callable[..., None] | None, *told: object) -> None:
    """Tell one of those who waited."""
    try:
        if callback is not None:
            callback(*told)
    except Exception:  # border: one listener's mistake must not silence the others, nor stop the writer
        log.exception("write listener failed")


def _nothing(transaction: Transaction) -> None:
    """A change of nothing but the tables that ride along."""
