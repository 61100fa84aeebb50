"""Kafka beside it: a broker of one node with a filled topic, and Spark's own source for it. Maven brings the jars."""

from __future__ import annotations

import base64
import subprocess
import uuid
from pathlib import Path

from tests.interop import jars
from tests.interop.processes import Nursery
from tests.interop.roles import free_port
from tests.patience import wait_until

KAFKA = "3.9.1"
CONNECTOR, TOKENS = "4.2.0", "4.0.0"  # the newest of each that Maven Central had
_BROKER = (
    f"org.apache.kafka:kafka_2.13:{KAFKA}", f"org.apache.kafka:kafka-tools:{KAFKA}",
    "org.slf4j:slf4j-reload4j:1.7.36",
)  # fmt: skip
_SOURCE = (  # Spark has all else; and what these name as their repository cannot be reached everywhere
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{TOKENS}",
    f"org.apache.kafka:kafka-clients:{KAFKA}",
    "org.apache.commons:commons-pool2:2.12.0",
)
_MEMORY = ("-Xmx512m", "-XX:+UseSerialGC")


def missing() -> str | None:
    """Why there is no Kafka here, or None."""
    try:
        source_jars()
    except jars.InteropError as error:
        return str(error).partition("\n")[0]
    return broker_missing()


def broker_missing() -> str | None:
    try:
        jars.brought(f"kafka-{KAFKA}", _BROKER)
    except jars.InteropError as error:
        return str(error).partition("\n")[0]
    return None


def source_jars() -> str:
    """What `spark.jars` has to be."""
    folder = jars.brought(f"spark-kafka-{CONNECTOR}", _SOURCE, alone=True)
    return ",".join(str(path) for path in sorted(folder.glob("*.jar")))


class Kafka:
    """One node, on loopback."""

    def __init__(self, folder: Path, nursery: Nursery, partitions: int) -> None:
        folder.mkdir()
        self._folder = folder
        port = free_port("kafka", [])
        self.address = f"127.0.0.1:{port}"
        self._settings = folder / "server.properties"
        given = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "logs"),
            "num.partitions": str(partitions),
            "offsets.topic.replication.factor": "1",
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._settings))
        log = folder / "kafka.log"
        words = self._words("kafka.Kafka", str(self._settings))
        self._process = nursery.start(words, cwd=folder, output=log)
        wait_until(lambda: "Kafka Server started" in log.read_text(), "Kafka", 120)

    def fill(self, topic: str, messages: int, body: int, *, bodies: Path | None = None) -> None:
        """With letters, or with lines of a file, drawn."""
        what = ("--record-size", str(body)) if bodies is None else ("--payload-file", str(bodies))
        self._run(
            *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(messages)),
            *(*what, "--throughput", "-1", "--producer-props"),
            f"bootstrap.servers={self.address}",
        )

    def _run(self, *words: str) -> None:
        done = subprocess.run(self._words(*words), cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise jars.InteropError(f"{words[0]} failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _words(self, main: str, *arguments: str) -> list[str]:
        log4j = self._folder / "log4j.properties"
        log4j.write_text(
            "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
        )
        flags = (*_MEMORY, f"-Dlog4j.configuration=file:{log4j}")
        return jars.java(main, *arguments, classes=f"{jars.brought(f'kafka-{KAFKA}', _BROKER)}/*", flags=flags)
