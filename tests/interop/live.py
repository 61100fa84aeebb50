"""A running member of a group, as administrators know it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.interop.application import Application
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.mqadmin import Admin
from tests.patience import PATIENCE_S

NewTopic = Callable[..., str]

# A broker holds a long poll for 15 s, and looks for a reset only when it answers one.
ONE_LONG_POLL_S = 15 + PATIENCE_S


@dataclass
class Live:
    """A running application, as administrators know it."""

    application: Application
    admin: Admin
    topic: str
    group: str

    @property
    def client_id(self) -> str:
        found = clients(self.admin, self.group)
        assert 1 == len(found), found
        return found[0]

    def shown(self, *words: str) -> str:
        return self.admin.run("consumerStatus", "-g", self.group, "-i", self.client_id, *words)

    def is_even(self) -> bool:
        """All of four queues with something in each is committed; a group without any offset shows no rows at all."""
        progress = self.admin.run("consumerProgress", "-g", self.group)
        rows = re.findall(rf"^{self.topic}\s+broker-a\s+\d\s+([1-9]\d*)\s+\1\s+0\s", progress, re.MULTILINE)
        return len(rows) == 4 and "Consume Diff Total: 0" in progress


def fill_each(java: JavaPeer, cluster: Addresses, topic: str) -> None:
    """Ten messages in each of four queues."""
    for number in range(4):
        java.send(cluster.name_server, topic, [Outgoing(body=b"x")] * 10, queue=("broker-a", number))


def clients(admin: Admin, group: str) -> list[str]:
    lines = admin.run("consumerConnection", "-g", group).splitlines()
    return [line.split()[0] for line in lines[1 : lines.index("")]]
