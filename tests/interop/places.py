"""Where interop tests send to and consume from: a real cluster, or the broker in the box."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.reading import Reader, ReaderSettings
from tests.interop import probe
from tests.interop.processes import Nursery
from tests.patience import wait_until

ROOT = Path(__file__).parents[2]
QUICK_RETRIES = " ".join(["1s"] * 18)


@dataclass(frozen=True, slots=True)
class Place:
    """A name server, and names for topics that nobody had. Topics come into being when they are first sent to,
    or are made."""

    name_server: str
    _numbers: Callable[[], str]

    def new_topic(self) -> str:
        return f"topic-{self._numbers()}"

    def made_topic(self, *, queues: int, name: str = "") -> str:
        """One that is there before anything is sent to it."""
        topic = name or self.new_topic()
        brokers = probe.known_brokers(self.name_server)
        for broker in brokers:
            code, body = probe.ask(
                broker, probe.UPDATE_TOPIC, topic=topic, defaultTopic="TBW102", perm="6", readQueueNums=str(queues),
                writeQueueNums=str(queues), topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false",
            )  # fmt: skip
            assert 0 == code, body
        wait_until(lambda: probe.routed_brokers(self.name_server, topic) == brokers, f"the route of {topic}")
        return topic

    def shows(self, topic: str, count: int) -> None:
        """Wait until so many messages can be read: a real broker shows what it has stored some moments later."""
        with Reader(ReaderSettings((self.name_server,))) as reader:
            wait_until(lambda: sum(map(reader.max_offset, reader.queues(topic))) >= count, f"{count} in {topic}")


def start_box(nursery: Nursery, folder: Path) -> str:
    """Start the broker in the box as a process of its own; answers its name server's address. Retries take a second."""
    ready = folder / "ready"
    command = [sys.executable, "-m", "framework", "broker", "--memory", "--ready-file", str(ready)]
    nursery.start([*command, "--delay-levels", QUICK_RETRIES], cwd=ROOT, output=folder / "log")
    wait_until(lambda: ready.exists() and ready.read_text().endswith("\n"), f"the box ({folder})")
    found = re.search(r"namesrv=(\S+)", ready.read_text())
    assert found, ready.read_text()
    return found[1]
