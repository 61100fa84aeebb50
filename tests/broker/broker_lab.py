"""A logical broker without sockets: requests go in, answers come out, time is turned by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.broker.delays import TIMER_TOPIC, Delays
from framework.broker.dispatch import Dispatch, Verify
from framework.broker.handlers import table_with
from framework.broker.intercept import Interceptors
from framework.broker.node import Node
from framework.broker.quotas import Quotas
from framework.broker.request import Request
from framework.broker.retention import Retention
from framework.broker.sending import deliver_due
from framework.broker.settings import BrokerSettings
from framework.broker.store.database import Database, open_memory
from framework.broker.users import Users
from framework.model.box import BoxHandler
from framework.model.reserved import HALF_TOPIC, SCHEDULE_TOPIC
from framework.ports import World
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pull import PullRequest
from framework.wire.requests.send import SendBackRequest, SendRequestV2
from framework.wire.stored import Record, decode_records
from tests.broker.client_lab import FakeClient
from tests.broker.store_lab import Lab

ADDRESS = "127.0.0.1:10911"


class HandChance:
    """Always the first choice."""

    def random(self) -> float:
        return 0.0

    def below(self, limit: int) -> int:
        return 0

    def token(self, count: int) -> bytes:
        return bytes(count)


@dataclass(frozen=True)
class HandIdentity:
    host: str = "10.0.0.1"
    process: int = 1


class BrokerLab(Lab):
    """One node on its own store, with the real dispatch and the real handlers."""

    def __init__(
        self,
        *,
        settings: BrokerSettings | None = None,
        database: Database | None = None,
        verify: Verify | None = None,
        is_prompt: bool = True,
        skew_ms: int = 0,
        users: Users | None = None,
        handlers: Mapping[int, BoxHandler] | None = None,
    ) -> None:
        super().__init__(database or open_memory(), is_prompt=is_prompt, skew_ms=skew_ms)
        self.settings = settings or BrokerSettings()
        self.troubles: list[str] = []
        self.interceptors = Interceptors()
        quotas = Quotas(self.settings, self.clock.monotonic)
        self.dispatch = Dispatch(self.interceptors, verify, quotas, self.troubles.append, table_with(handlers))
        missing: Any = None  # nothing here opens a connection or a file
        world = World(
            clock=self.clock, network=missing, workers=self.workers, chance=HandChance(), identity=HandIdentity(),
            files=missing,
        )  # fmt: skip
        delays = Delays(
            self.store, self.timers, self.clock, settings=self.settings, deliver=deliver_due,
            trouble=self.troubles.append,
        )  # fmt: skip
        self.retention = Retention(
            self.store,
            self.timers,
            self.clock,
            self.settings,
            waiting=frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC}),
        )
        self.node = Node(
            "broker-a", world=world, timers=self.timers, store=self.store, delays=delays, retention=self.retention,
            settings=self.settings, neighbours=lambda: [self.node], trouble=self.troubles.append,
            users=users,
        )  # fmt: skip
        self.node.address = ADDRESS
        self.store.writer.on_arrival = self.node.arrived
        delays.start()
        self.node.transactions.start()
        self.node.pops.start()
        self.client = FakeClient()

    def request(self, command: RemotingCommand) -> Request:
        return Request(command, self.client, self.node)

    def ask(self, command: RemotingCommand, client: FakeClient | None = None) -> None:
        """Send a request; the answer, if any, is at the client."""
        self.dispatch.serve(Request(command, client or self.client, self.node))
        self.timers.turn()

    def answer(self, command: RemotingCommand, client: FakeClient | None = None) -> RemotingCommand:
        """Send a request that is answered at once."""
        client = client or self.client
        before = len(client.answers)
        self.ask(command, client)
        assert len(client.answers) == before + 1, "no answer yet"
        return client.answers[-1]

    def send(self, topic: str = "t", body: bytes = b"hello", **changes: Any) -> RemotingCommand:
        return self.answer(send_command(topic, body, **changes))

    def records(self, topic: str, number: int = 0) -> list[Record]:
        """Everything in a queue."""
        queue = self.node.queue(topic, number)
        if queue is None or queue.end == 0:
            return []
        found = self.store.log.read(queue, 0, count_max=10_000, bytes_max=1 << 30)
        return decode_records(b"".join(found.records))


def send_command(topic: str = "t", body: bytes = b"hello", **changes: Any) -> RemotingCommand:
    header = SendRequestV2(
        **{
            "producer_group": "p",
            "topic": topic,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": 1_600_000_000_000,
            "flag": 0,
            **changes,
        }
    )
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, to_fields(header), body)


def pull_command(offset: int, topic: str = "t", group: str = "g", **changes: Any) -> RemotingCommand:
    """A pull that brings its own subscription and does not wait."""
    header = PullRequest(
        **{
            "consumer_group": group,
            "topic": topic,
            "queue_id": 0,
            "queue_offset": offset,
            "max_msg_nums": 32,
            "sys_flag": 4,
            "commit_offset": 0,
            "suspend_timeout_millis": 0,
            "sub_version": 0,
            "subscription": "*",
            **changes,
        }
    )
    return RemotingCommand(RequestCode.PULL_MESSAGE, to_fields(header))


def send_back_command(record: Record, group: str = "g", level: int = 0, **changes: Any) -> RemotingCommand:
    header = SendBackRequest(offset=record.commit_log_offset, group=group, delay_level=level, **changes)
    return RemotingCommand(RequestCode.CONSUMER_SEND_MSG_BACK, to_fields(header))


def one_way(command: RemotingCommand) -> RemotingCommand:
    command.flag |= ONE_WAY_BIT
    return command


def texts(**properties: str) -> str:
    """Properties as a send's header has them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
