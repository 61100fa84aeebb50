"""Transactions: half messages, which no consumer sees before they are committed, and the asking how they ended.

A half message lies in RocketMQ's topic for them, with where it is meant for in its properties. Its transaction is a row
beside it, so that a commit is one write of the disk: the message in its own queue, and the end of its row. That is why
a commit that is asked for twice, or asked for again after a crash, makes one message.

Who is asked is any member of the producer group, in turn. A half message that was asked about `transactionCheckMax`
times goes to the topic of those that were given up; a commit that comes after that is still obeyed, as in RocketMQ,
for as long as messages are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from framework.broker.answers import Client
from framework.broker.delays import Delays
from framework.broker.filters import tag_hash
from framework.broker.members import Members
from framework.broker.records import decode, encode
from framework.broker.rounds import ROUND_MAX, Rounds, Timers
from framework.broker.settings import BrokerSettings
from framework.broker.store import halves
from framework.broker.store.halves import Half
from framework.broker.store.store import Store
from framework.broker.store.writer import Stored, Transaction
from framework.broker.switches import Switches
from framework.errors import FrameworkError
from framework.model.message import TAGS, UNIQUE_KEY
from framework.model.reserved import GIVEN_UP_TOPIC, HALF_TOPIC
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.ids import offset_message_id
from framework.wire.requests.transaction import CheckTransactionRequest
from framework.wire.stored import Record

REAL_TOPIC, REAL_QUEUE = "REAL_TOPIC", "REAL_QID"
PREPARED, PRODUCER_GROUP, TRANSACTION_ID = "TRAN_MSG", "PGROUP", "__transactionId__"
CHECK_TIMES, IMMUNITY = "TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS"

# How a transaction ended is known for this long: whoever says it again is not told that there was none.
_ENDED_KEPT_MS = 3_600_000
_IMMUNITY_S_MAX = 10**9


def half_of(message: Record) -> Record:
    """The message as it waits for its transaction's end."""
    properties = {**message.properties, REAL_TOPIC: message.topic, REAL_QUEUE: str(message.queue_id)}
    if UNIQUE_KEY in properties:
        properties[TRANSACTION_ID] = properties[UNIQUE_KEY]
    return replace(message, topic=HALF_TOPIC, queue_id=0, properties=properties)


def whole_of(message: Record, checks: int = 0) -> Record:
    """A half message as it was meant; what was added to it stays."""
    properties = dict(message.properties)
    if checks:
        properties[CHECK_TIMES] = str(checks)
    return replace(message, topic=properties[REAL_TOPIC], queue_id=int(properties[REAL_QUEUE]), properties=properties)


def immunity_ms(message: Record) -> int | None:
    """How long its producer wants to be asked nothing; None where it does not say."""
    text = message.properties.get(IMMUNITY, "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and int(text) <= _IMMUNITY_S_MAX else None


class Transactions:
    """Those of one logical broker."""

    def __init__(
        self,
        broker: str,
        store: Store,
        delays: Delays,
        members: Members,
        switches: Switches,
        timers: Timers,
        settings: BrokerSettings,
        trouble: Callable[[str], None],
    ) -> None:
        self._broker, self._store, self._delays, self._members = broker, store, delays, members
        self._switches, self._settings, self._trouble = switches, settings, trouble
        self._asked: dict[str, int] = {}
        """How many questions each group got: the next member is asked by it."""
        self._questions: list[tuple[Half, bytes]] = []
        """With their half messages, of the last round, for when it is on disk."""
        self.rounds = Rounds(
            timers, store.writer, delays.now_ms, self._round, "transactions could not be looked at", trouble,
            self._ask_all,
        )  # fmt: skip

    def start(self) -> None:
        """Take up the transactions that the store has open."""
        self.rounds.start(halves.next_due_ms(self._store.database.writing, self._broker))

    def prepare(self, message: Record) -> Callable[[Transaction], tuple[Stored, int]]:
        """A change that stores the message as a half one; and when its producers are to be asked."""
        half = half_of(message)
        record, tag = encode(half), tag_hash(message.properties.get(TAGS))
        group = message.properties[PRODUCER_GROUP]
        wait_ms = immunity_ms(message)

        def change(transaction: Transaction) -> tuple[Stored, int]:
            # Nobody finds it by its keys before it is committed.
            stored = transaction.append(self._broker, HALF_TOPIC, 0, record, tag)
            return stored, self._open(transaction, stored.place, stored.offset, group, wait_ms).due_ms

        return change

    def open_again(self, transaction: Transaction, half: Record) -> Half:
        """Begin anew with one that was given up, where it lies."""
        group = half.properties[PRODUCER_GROUP]
        return self._open(transaction, half.commit_log_offset, half.queue_offset, group, immunity_ms(half))

    def _open(
        self, transaction: Transaction, place: int, queue_offset: int, group: str, wait_ms: int | None
    ) -> Half:  # fmt: skip
        now_ms = self._delays.now_ms()
        due_ms = now_ms + (self._switches.transaction_timeout_ms if wait_ms is None else wait_ms)
        half = Half(self._broker, place, queue_offset, group, now_ms, 0, due_ms, halves.OPEN)
        halves.put(transaction.connection, half)
        return half

    def is_late(self, half: Half, message: Record) -> bool:
        """Whether its producer said how long it needs, and that is over: only an answer to a check counts then."""
        wait_ms = immunity_ms(message)
        return wait_ms is not None and self._delays.now_ms() - half.begun_ms > wait_ms

    def end(self, transaction: Transaction, half: Half, state: int) -> None:
        """Note how it ended, in the write that does what follows from it."""
        halves.put(transaction.connection, half._replace(state=state, due_ms=self._delays.now_ms()))

    def _round(self, transaction: Transaction) -> int | None:
        """Count a check of each that is due, or give it up; in one write, before anybody is asked."""
        transaction.flush()
        connection, now_ms = transaction.connection, self._delays.now_ms()
        halves.forget_ended(
            connection, self._broker, now_ms - _ENDED_KEPT_MS, now_ms - max(_ENDED_KEPT_MS, self._settings.kept_ms)
        )
        self._questions = []
        for half in halves.due(connection, self._broker, now_ms, ROUND_MAX):
            record = halves.record_of(connection, half)
            if record is None:
                self._trouble(f"half message at {half.place} is gone or damaged: its transaction is given up")
                self.end(transaction, half, halves.GIVEN_UP)
            elif (
                half.checks >= self._switches.transaction_checks_max or now_ms - half.begun_ms > self._settings.kept_ms
            ):
                self._give_up(transaction, half, record)
            else:
                asked = half._replace(checks=half.checks + 1, due_ms=now_ms + self._switches.transaction_interval_ms)
                halves.put(connection, asked)
                self._questions.append((asked, record))
        return halves.next_due_ms(connection, self._broker)

    def _give_up(self, transaction: Transaction, half: Half, record: bytes) -> None:
        message = replace(decode(record), topic=GIVEN_UP_TOPIC, queue_id=0)
        properties = {**message.properties, CHECK_TIMES: str(half.checks)}
        # RocketMQ leaves the place out. By it 323 opens this transaction again, and makes no second one.
        kept = encode(replace(message, properties=properties, prepared_transaction_offset=half.place))
        transaction.append(self._broker, GIVEN_UP_TOPIC, 0, kept, tag_hash(properties.get(TAGS)))
        self.end(transaction, half, halves.GIVEN_UP)

    def _ask_all(self) -> None:
        questions, self._questions = self._questions, []
        for half, record in questions:
            try:
                self._ask(half, record)
            except FrameworkError as refused:  # one that cannot be asked about is no reason to ask about no other
                self._trouble(f"half message at {half.place}: its producer cannot be asked: {refused}")

    def _ask(self, half: Half, record: bytes) -> None:
        """Ask one member of the producer group; where none is connected, the next check may find one."""
        client = self._member(half.group)
        if client is None:
            return
        whole = whole_of(decode(record), half.checks)
        key = whole.properties.get(UNIQUE_KEY)
        header = CheckTransactionRequest(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.place,
            topic=whole.topic,
            msg_id=key,
            transaction_id=key,
            offset_msg_id=offset_message_id(whole.store_host, half.place),
            broker_name=self._broker,
        )
        place = replace(whole, queue_offset=half.queue_offset, commit_log_offset=half.place)
        command = RemotingCommand(CheckTransactionRequest.CODE, to_fields(header), encode(place), flag=ONE_WAY_BIT)
        client.send(command)

    def _member(self, group: str) -> Client | None:
        found = self._members.producers(group)
        if not found:
            self._asked.pop(group, None)
            return None
        turn = self._asked[group] = self._asked.get(group, -1) + 1
        return found[turn % len(found)].client
