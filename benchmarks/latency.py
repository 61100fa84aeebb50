"""How long a message alone takes from its sending to its handler, on a real broker: ours beside Java's push consumer.

    python -m benchmarks.latency --rates 20,1000,10000 --seconds 30 --runs 3

One sender for both sides (`benchmarks.paced`) stamps each message as its frame is written; the handler reads the same
clock. The sides take turns, each with a topic and a group of its own, and both begin when each queue has brought a
probe. What comes in the first seconds (`--warm`) is handled and not counted: it warms Java's compiler. Processor time
is that of the consumer's processes while messages were sent, a second. Exit 0: measured; 1: something did not come; 3:
Java or the cluster is not to be had.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import positive, several
from benchmarks.backlog import Filler, Wrong
from benchmarks.consumers import JAVA_SOURCES, ROOT, configured
from benchmarks.on_a_cluster import on_a_cluster
from benchmarks.process_tree import Watch
from benchmarks.turns import Sample, in_turns, table, write_json
from tests.interop import jars
from tests.interop.cluster import Cluster
from tests.interop.processes import Nursery
from tests.patience import wait_until

RATES = (20, 1_000, 10_000)
QUEUES = 8
SIDES = ("java", "ours")
HANDLER = "benchmarks.handlers.latency_handler"
SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


class Field:
    """A cluster, and what one side does with one rate of it."""

    def __init__(self, filler: Filler, options: argparse.Namespace) -> None:
        self._filler, self._options = filler, options

    def measured(self, case: str, who: str, number: int) -> dict[str, float]:
        rate, options = int(case), self._options
        warm, counted = max(rate * options.warm, 1), rate * options.seconds
        topic = f"latency-{case}-{who}-{number}"
        self._filler.made(topic, QUEUES)
        folder = self._filler.folder / topic
        folder.mkdir()
        child = self._started(who, topic, warm + counted, folder)
        self._send(topic, first=-QUEUES, messages=QUEUES, rate=0)
        wait_until(lambda: child.poll() is not None or _here(folder) == QUEUES, f"a probe of each queue ({folder})", 90)
        watch = Watch(child.pid)
        first_ns = time.monotonic_ns()
        try:
            latest_ms = self._send(topic, first=0, messages=warm + counted, rate=rate)
            last_ns = time.monotonic_ns()
            wait_until(lambda: child.poll() is not None or (folder / "taken").exists(), f"all of {folder}", 60)
        except (AssertionError, jars.InteropError) as error:
            raise Wrong(f"{who} at {rate} a second: {error}\n{(folder / 'log').read_text()[-2_000:]}") from None
        finally:
            watch.close()
        child.send_signal(signal.SIGTERM)
        self._filler.nursery.bury(child, timeout_s=60)
        taken = array("q", (folder / "taken").read_bytes())[warm:]
        return {
            **percentiles(taken),
            "cpu_ms_a_second": watch.cpu_s(first_ns, last_ns) * 1e12 / (last_ns - first_ns),
            "sender_latest_ms": latest_ms,
        }

    def _started(self, who: str, topic: str, count: int, folder: Path) -> subprocess.Popen[str]:
        names, group, taken = self._filler.cluster.name_server, f"readers-of-{topic}", folder / "taken"
        nursery = self._filler.nursery
        if who == "java":
            flags = ("-Xmx512m", f"-Duser.home={folder}")
            words = (names, group, topic, str(count), str(taken))
            command = jars.java("LatencyBench", *words, classes=jars.compiled(JAVA_SOURCES), flags=flags)
            return nursery.start(command, cwd=folder, output=folder / "log")
        settings = configured(folder, names, {group: {"start": "first"}})
        environment = {"TOPIC": topic, "GROUP": group, "COUNT": str(count), "REPORT": str(taken)}
        return nursery.start(
            [sys.executable, "-m", "framework", "run", HANDLER, "--config", str(settings)],
            cwd=ROOT, output=folder / "log",
            environment={f"BENCHMARK_{name}": value for name, value in environment.items()},
        )  # fmt: skip

    def _send(self, topic: str, *, first: int, messages: int, rate: int) -> float:
        address = self._filler.cluster.addresses.brokers["broker-a"]
        words = ["--queues", str(QUEUES), "--rate", str(rate), f"--first={first}", "--messages", str(messages)]
        sent = subprocess.run(
            [sys.executable, "-m", "benchmarks.paced", address, topic, *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if sent.returncode:
            raise Wrong(f"the sender to {topic} ended with {sent.returncode}: {sent.stdout}{sent.stderr}")
        latest_ms: float = json.loads(sent.stdout)["latest_ms"]
        return latest_ms


def percentiles(taken_ns: Sequence[int]) -> dict[str, float]:
    """The least that so large a share of the messages did not pass, in milliseconds; and the most."""
    ordered = sorted(taken_ns)
    shares = {name: ordered[math.ceil(share * len(ordered)) - 1] / 1e6 for name, share in SHARES.items()}
    return {**shares, "most_ms": ordered[-1] / 1e6}


def _here(folder: Path) -> int:
    """How many queues brought their probe."""
    return len({line for line in (folder / "log").read_text(errors="replace").splitlines() if line.startswith("here ")})


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)

    def measure(cluster: Cluster, nursery: Nursery, folder: Path) -> list[Sample]:
        field = Field(Filler.of(cluster, nursery, folder), options)
        sides = SIDES if options.against == "java" else SIDES[1:]
        return in_turns([str(rate) for rate in options.rates], sides, options.runs, field.measured)

    def tell(samples: list[Sample]) -> None:
        print(table(samples))
        if options.json:
            write_json(options.json, "latency", samples, vars(options))

    return on_a_cluster(measure, tell)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", choices=["java", "none"], default="java", help="the peer; default %(default)s")
    parser.add_argument("--rates", type=several, default=list(RATES), metavar="N,N", help="messages a second")
    parser.add_argument("--seconds", type=positive, default=30, metavar="S", help="that are counted")
    parser.add_argument("--warm", type=positive, default=10, metavar="S", help="before them")
    parser.add_argument("--runs", type=positive, default=3, metavar="R", help="of each side; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one run of 3 s after 1 s: whether it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seconds, options.warm, options.runs = 3, 1, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
