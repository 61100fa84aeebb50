"""What the tests of `doctor` look at: a box whose brokers may be set wrong, and the words of what is found."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from framework.admin.cluster import Admin
from framework.admin.doctor import Diagnosis, diagnose
from framework.broker.handlers.groups import put_group
from framework.broker.handlers.topics import put_topic
from framework.broker.node import Node
from framework.client.options import ClusterOptions
from framework.net.real_clock import RealClock
from framework.wire.bodies.config import GroupConfig, TopicConfig
from tests.admin.members import Member, online
from tests.reading.threads import ThreadBox

NOW_MS = RealClock().now_ms


class Lab:
    """A box, whose brokers a test may set as it likes, and the doctor."""

    def __init__(self, box: ThreadBox, stack: ExitStack) -> None:
        self.box, self._stack = box, stack

    def node(self, number: int = 0) -> Node:
        return self.box.broker.nodes[number]

    def switch(self, name: str, text: str, number: int = 0) -> None:
        self.box.call(lambda: self.node(number).switches.put(name, text))

    def at(self, number: int = 0) -> str:
        """How mqadmin is told of a broker."""
        return f"-n {self.box.address} -b {self.node(number).address}"

    def topic(self, name: str, queues: int = 2, perm: int = 6) -> None:
        wanted = TopicConfig(name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
        for node in self.box.broker.nodes:
            self.box.call(partial(put_topic, node.rules, wanted, ""))

    def group(self, name: str = "billing", **options: Any) -> None:
        for node in self.box.broker.nodes:
            self.box.call(partial(put_group, node.rules, GroupConfig(name=name, **options)))

    def join(self, *members: Member) -> None:
        self._stack.enter_context(online(self.box.address, *members))

    def look(self, group: str | None = "billing", *, name_servers: tuple[str, ...] = (), **options: Any) -> Diagnosis:
        credentials = options.pop("credentials", None)
        now_ms = options.pop("now_ms", NOW_MS)
        servers = name_servers or (self.box.address,)
        wanted = ClusterOptions(name_servers=servers, credentials=credentials, request_timeout_ms=60_000)
        with Admin(wanted) as admin:
            return diagnose(admin, now_ms, group=group, **{"stuck_s": 0.0, **options})


def member(client_id: str = "m1", **options: Any) -> Member:
    return Member(**{"client_id": client_id, "group": "billing", "wants": {"orders": "*"}, **options})


def told(found: Diagnosis) -> list[tuple[str, str]]:
    return [(each.severity, each.where) for each in found.findings]


def only(found: Diagnosis, severity: str, *words: str) -> str:
    """The one finding of this severity that has these words, all of it in a line."""
    lines = [f"{each.what} | {each.where} | {each.remedy}" for each in found.findings if each.severity == severity]
    (line,) = [line for line in lines if all(word in line for word in words)]
    return line
