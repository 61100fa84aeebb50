"""A backlog that one consumer has to consume: how a topic is filled, and what a run of one side comes to.

A run counts only when every message was handled once and the committed offsets reached the end: else it is `Wrong`.
Which sides there are, and in which order they run, is not known here.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.consumers import SHARED, Side, Work, start_java, start_ours
from benchmarks.dispatched import wait_dispatched
from benchmarks.handlers.order import template
from benchmarks.process_tree import Watch
from tests.interop import probe
from tests.interop.cluster import Cluster
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import wait_until

STOCK_PULL, TUNED_PULL = 32, 1024  # A stock broker hands out 32 messages a pull, whatever is asked for.
JAVA_BATCH, TUNED_JAVA_BATCH = 1, 32
TUNED_BROKER = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(4 << 20)}
REPEATS_WAIT_S = 1.5
"""After the last message: a repeat that is under way comes within one pull."""
TOPIC_STATS = 202


class Wrong(Exception):
    """A run in which something was lost or came twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filler:
    """Fills topics of one cluster, by the Java producer in batches."""

    cluster: Cluster
    nursery: Nursery
    java: JavaPeer
    folder: Path
    fields: dict[str, Field] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, nursery: Nursery, folder: Path) -> Filler:
        return cls(cluster=cluster, nursery=nursery, java=JavaPeer(nursery), folder=folder)

    @property
    def admin(self) -> Admin:
        return Admin(self.java, self.cluster.name_server)

    def made(self, topic: str, queues: int, kind: str | None = None) -> None:
        """A new topic; `kind` is what a proxy wants to know of its messages."""
        wish = ["-r", str(queues), "-w", str(queues), *(["-a", f"+message.type={kind}"] if kind else [])]
        self.admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, *wish)

    def known(self, topic: str) -> Field:
        """One that was filled before."""
        return self.fields[topic]

    def filled(
        self,
        topic: str,
        *,
        messages: int,
        body: int,
        queues: int,
        handler: str = "async",
        is_tuned: bool = False,
        kind: str | None = None,
    ) -> Field:
        """A new topic with so many messages in it."""
        self.made(topic, queues, kind)
        began = time.monotonic()
        self.java.fill(self.cluster.name_server, topic, messages, batch=min(messages, 100), template=template(body))
        print(f"filled {topic}: {messages} messages in {time.monotonic() - began:.1f} s", file=sys.stderr)
        ends = wait_dispatched(lambda: self.ends(topic), messages, topic)
        work = Work(
            name_server=self.cluster.name_server,
            topic=topic,
            group="",
            count=messages,
            handler=handler,
            pull_batch=TUNED_PULL if is_tuned else STOCK_PULL,
            java_batch=TUNED_JAVA_BATCH if is_tuned else JAVA_BATCH,
        )
        offsets = sum(end * (end - 1) // 2 for end in ends)
        found = Field(work=work, admin=self.admin, offsets=offsets, nursery=self.nursery, folder=self.folder)
        self.fields[topic] = found
        return found

    def ends(self, topic: str) -> list[int]:
        """Of the queues that have messages."""
        broker = self.cluster.addresses.brokers["broker-a"]
        _, body = probe.ask(broker, TOPIC_STATS, topic=topic)
        return [int(end) for end in re.findall(r'"maxOffset":(\d+)', body.decode())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """What every run finds: a filled topic, and whom to ask about it."""

    work: Work
    admin: Admin
    offsets: int
    """The sum of all queue offsets in the topic."""
    nursery: Nursery
    folder: Path


def group_of(who: str, number: int, work: Work) -> str:
    return f"{who}-{work.topic}-{number}"


def started(who: str, number: int, work: Work, field: Field) -> tuple[Side, Work]:
    """A side at work, as a group that nobody had before."""
    work = replace(work, group=group_of(who, number, work))
    if work.handler == SHARED:
        work = replace(work, group=f"{work.group}-{work.groups}-{work.workers}")
    folder = field.folder / work.group
    folder.mkdir()
    return (start_java if who == "java" else start_ours)(work, field.nursery, folder), work


def consumed(who: str, number: int, work: Work, field: Field) -> dict[str, float]:
    """The figures of one backlog, consumed from the first to the last message."""
    side, work = started(who, number, work, field)
    watch = Watch(side.pid)
    try:
        reached = side.wait_reached(timeout_s=60 + work.total / 1000)
        time.sleep(REPEATS_WAIT_S)
    finally:
        watch.close()
    checked_end(who, side, work, field)
    elapsed_s = (reached.last_ns - reached.first_ns) / 1e9
    counted = work.total - work.pull_batch if work.total > work.pull_batch else work.total
    return {
        "rate": counted / elapsed_s,
        "cpu_per_message_us": watch.cpu_s(reached.first_ns, reached.last_ns) / work.total * 1e6,
        "peak_memory_mb": watch.peak_bytes / 1e6,
    }


def checked_end(who: str, side: Side, work: Work, field: Field) -> None:
    """Let a side end. It has committed everything, and has handled each message once.

    Workers join one after the other, and what one handles until it hears of the next comes again: of several it is
    asked that nothing is missing.
    """
    if work.workers > 1:
        for group in work.group_names():
            _check_committed(who, group, field.admin)
    left = side.end()
    offsets = field.offsets * work.groups
    is_right = (left.handled, left.offsets) == (work.total, offsets)
    if work.workers > 1:
        is_right = left.handled >= work.total and left.offsets >= offsets
    if not is_right:
        raise Wrong(
            f"{who} handled {left.handled} messages with offsets adding up to {left.offsets}; "
            f"there are {work.total} and {offsets}"
        )
    for group in work.group_names():
        _check_committed(who, group, field.admin)


def _check_committed(who: str, group: str, admin: Admin) -> None:
    def is_at_the_end() -> bool:
        behind = re.search(r"Consume Diff Total: (-?\d+)", admin.run("consumerProgress", "-g", group))
        return behind is not None and behind[1] == "0"

    try:
        wait_until(is_at_the_end, "commit", pause_s=0.5)
    except AssertionError:
        said = admin.run("consumerProgress", "-g", group)
        raise Wrong(f"{who} handled everything and did not commit it:\n{said}") from None
