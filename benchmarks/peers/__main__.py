"""What a message costs other clients that do nothing with it, each on its own kind of broker, beside ours.

    python -m benchmarks.peers --messages 1000000 --runs 3

`ours` and Java's push and lite consumers and the gRPC client (through the proxy) read from RocketMQ; aiokafka and
FastStream from Kafka; Dramatiq from Redis. Those that are dear get a fiftieth of the messages. The sides take turns; a
rate is messages between the first and the last handled, processor time that of the consumer's processes between them.
Brokers differ in what they do, so processor time says more than a rate. `make bench-peers` makes the environment of the
Python peers. Exit 0: measured; 1: a side ended early; 3: Java, a broker or that environment is not to be had.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import spark_kafka
from benchmarks.arguments import positive
from benchmarks.backlog import Wrong, consumed
from benchmarks.consumers import JAVA_SOURCES, ROOT, Side, SideEnded, Work
from benchmarks.dispatched import NotDispatched
from benchmarks.peers.places import PROGRAMS, Amounts, Places
from benchmarks.process_tree import Watch
from benchmarks.turns import in_turns, table, write_json
from tests.interop import jars
from tests.interop.processes import Nursery

MEASURED, WRONG, MISSING = 0, 1, 3
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
DEAR = 50
"""A dear side gets one of so many messages."""
END_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """How one is started: on which topic, by which command."""

    topic: str
    place: Callable[[Places], str]
    words: tuple[str, ...]
    """Of its own Python; of Java where they begin with the name of a class."""

    @property
    def is_java(self) -> bool:
        return self.words[0] == "LiteBench"


def _brokers(places: Places) -> str:
    return places.rocketmq.cluster.name_server


def _proxy(places: Places) -> str:
    return places.rocketmq.cluster.addresses.proxies["grpc"]


WORKER = ("-m", "dramatiq", "dramatiq_actor", "--processes", "1", "--threads", "8", "--path", str(PROGRAMS))
PEERS = {
    "java lite": Peer(topic="many", place=_brokers, words=("LiteBench",)),
    "rocketmq grpc": Peer(topic="few", place=_proxy, words=("grpc_push.py",)),
    "aiokafka getmany": Peer(topic="many", place=lambda places: places.kafka, words=("kafka_raw.py", "many")),
    "aiokafka": Peer(topic="many", place=lambda places: places.kafka, words=("kafka_raw.py", "each")),
    "faststream batch": Peer(topic="many", place=lambda places: places.kafka, words=("fast_stream.py", "batch")),
    "faststream": Peer(topic="few", place=lambda places: places.kafka, words=("fast_stream.py", "each")),
    "dramatiq": Peer(topic="", place=lambda places: places.redis, words=WORKER),
}
OURS = {"ours": "async", "ours batch": "batch", "ours pydantic": "pydantic", "java push": "async"}
"""What `benchmarks.consume` measures, too, by its handler."""
SIDES = (*OURS, *PEERS)


def measured(who: str, number: int, places: Places) -> Mapping[str, float]:
    if who in OURS:
        filler = places.rocketmq
        field = filler.known("many")
        work: Work = replace(field.work, handler=OURS[who])
        return consumed("java" if who == "java push" else who.replace(" ", "-"), number, work, field)
    peer = PEERS[who]
    address = peer.place(places)
    topic = peer.topic or places.enqueued()
    count = places.amounts.of(topic)
    folder = places.folder / f"{who.replace(' ', '-')}-{number}"
    folder.mkdir()
    report = folder / "report.jsonl"
    child = _started(peer, address, topic, f"{folder.name}", count, folder, report, places)
    side, watch = Side(child, places.nursery, folder, report), Watch(child.pid)
    try:
        reached = side.wait_reached(timeout_s=120 + count / 500)
    finally:
        watch.close()
        _ended(child, places.nursery)
    elapsed_s = (reached.last_ns - reached.first_ns) / 1e9
    return {
        "rate": count / elapsed_s,
        "cpu_per_message_us": watch.cpu_s(reached.first_ns, reached.last_ns) / count * 1e6,
        "peak_memory_mb": watch.peak_bytes / 1e6,
    }


def _started(
    peer: Peer, address: str, topic: str, group: str, count: int, folder: Path, report: Path, places: Places
) -> subprocess.Popen[str]:
    if peer.is_java:
        words = (address, group, topic, str(count))
        flags = ("-Xmx512m", f"-Duser.home={folder}")
        command = jars.java(peer.words[0], *words, classes=jars.compiled(JAVA_SOURCES), flags=flags)
        return places.nursery.start(command, cwd=folder, output=report)
    given = {"ADDRESS": address, "TOPIC": topic, "GROUP": group, "COUNT": str(count), "REPORT": str(report)}
    own: tuple[str, ...] = peer.words if peer.words[0] == "-m" else (str(PROGRAMS / peer.words[0]), *peer.words[1:])
    return places.nursery.start(
        [str(places.python), *own], cwd=folder, output=folder / "log",
        environment={f"BENCHMARK_{name}": value for name, value in given.items()} | {"HOME": str(folder)},
    )  # fmt: skip


def _ended(child: subprocess.Popen[str], nursery: Nursery) -> None:
    """By SIGTERM, or after a while by force: how it leaves is not what is measured."""
    child.terminate()
    until = time.monotonic() + END_S
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    nursery.kill(child)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if reason := missing(options):
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
            amounts = Amounts(many=options.messages, few=max(options.messages // DEAR, 100))
            places = Places(Path(folder), nursery, amounts, options.python)
            try:
                samples = in_turns(
                    ["backlog"], options.sides, options.runs, lambda _, who, number: measured(who, number, places)
                )
            finally:
                places.close()
    except (NotDispatched, Wrong, SideEnded) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    print(table(samples))
    if options.json:
        write_json(options.json, "peers", samples, vars(options))
    return MEASURED


def missing(options: argparse.Namespace) -> str | None:
    """Why what was asked for cannot be measured here."""
    if reason := jars.missing():
        return reason
    if any("kafka" in who or "stream" in who for who in options.sides) and (reason := spark_kafka.broker_missing()):
        return reason
    if any(who in PEERS and not PEERS[who].is_java for who in options.sides) and not os.access(options.python, os.X_OK):
        return "the environment of the Python peers is not made; `make bench-peers` makes it"
    return None


def _sides(text: str) -> list[str]:
    sides = text.split(",")
    if unknown := [side for side in sides if side not in SIDES]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(SIDES)}")
    return sides


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", type=_sides, default=list(SIDES), metavar="NAME,NAME", help="default: all")
    parser.add_argument("--messages", type=positive, default=1_000_000, metavar="N")
    parser.add_argument("--runs", type=positive, default=3, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--python", type=Path, default=PYTHON, metavar="FILE", help="of the Python peers")
    parser.add_argument("--quick", action="store_true", help="one run of 50,000 messages: whether it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args(arguments)
    if options.quick:
        options.messages, options.runs = 50_000, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
