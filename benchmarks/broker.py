"""What the built-in broker takes and gives, beside a real RocketMQ in the same run.

    python -m benchmarks.broker --json broker.json

Both are given the very same bytes by the same generator (`benchmarks/load.py`), in turns, each with its files on the
same disk; the real one flushes before it answers (SYNC_FLUSH), as the box always does. A figure is the median of its
rounds. Processor time is seen from outside, also the generator's: where that has a core to itself, the figure is the
generator's (`--generators 2`). After the sends each side is asked how many messages it has. `--profile` runs the box
under cProfile instead, and says what its time goes to.

Exit 0: measured, whether or not a bar is met; 1: something was lost or refused; 3: Java is not to be had.
"""

from __future__ import annotations

import argparse
import json
import os
import pstats
import re
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.backlog import Wrong
from benchmarks.boxes import BARS, Figure, Start, box_started, report
from benchmarks.dispatched import NotDispatched, wait_dispatched
from benchmarks.load import Tally
from benchmarks.machine import host
from benchmarks.process_tree import Watch
from tests.interop import jars, probe
from tests.interop.cluster import Cluster, Shape
from tests.interop.processes import Nursery

MEASURED, WRONG, MISSING = 0, 1, 3

# As shipped it refuses what has waited 200 ms for its turn, which on a busy machine is all that it would do.
DURABLE = {"flushDiskType": "SYNC_FLUSH", "waitTimeMillsInSendQueue": "5000"}
FILL_BATCH = 256
_START_S = 600  # on a busy machine
LOADS = {
    # Connections, requests under way on each.
    "batch": (4, 8),
    "single": (4, 64),
    "pull": (2, 8),
}


class Side:
    """A broker that runs, and what was put into it."""

    def __init__(self, who: str, pid: int, address: str) -> None:
        self.who, self.address = who, address
        self.put: dict[str, int] = {}
        self._watch = Watch(pid)

    def prepare(self, topic: str, queues: int) -> None:
        code, _ = probe.ask(
            self.address, 17, topic=topic, defaultTopic="TBW102", readQueueNums=str(queues),
            writeQueueNums=str(queues), perm="6", topicFilterType="SINGLE_TAG", topicSysFlag="0", order="false",
        )  # fmt: skip
        if code != 0:
            raise Wrong(f"{self.who} made no topic: code {code}")
        self.put[topic] = 0

    def load(self, what: str, topic: str, options: argparse.Namespace, **more: float) -> Figure:
        """Have it loaded, by as many processes as were asked for."""
        connections, depth = LOADS[what]
        given = {"queues": options.queues, "body": options.body, "batch": options.batch, "connections": connections,
                 "depth": depth, "seconds": options.seconds, "warm-up": options.warm_up, **more}  # fmt: skip
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        commands = [
            [sys.executable, "-m", "benchmarks.load", what, self.address, topic, *words, "--first-key", key]
            for key in (str(time.monotonic_ns() + 10**18 * at) for at in range(options.generators))
        ]
        began = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
        said = [child.communicate()[0] for child in began]
        if any(child.returncode for child in began):
            raise Wrong(f"the generator failed at {what} on {self.who}")
        tallies = [Tally(**json.loads(each)) for each in said]
        refused = sum(each.refused for each in tallies)
        if refused and self.who == "box":  # the real one's are its own affair, and count as nothing sent
            raise Wrong(f"{self.who} refused {refused} requests of {what}")
        if what != "pull":
            self.put[topic] += sum(each.total for each in tallies)
        return self._figure(what, tallies, options)

    def _figure(self, what: str, tallies: list[Tally], options: argparse.Namespace) -> Figure:
        count = sum(each.counted for each in tallies)
        if not count:
            raise Wrong(
                f"{self.who} answered no {what} within the window: a longer one, --seconds, or a quieter machine"
            )
        first, last = min(each.first_ns for each in tallies), max(each.last_ns for each in tallies)
        window_s = (last - first) / 1e9
        cpu_s = self._watch.cpu_s(first, last)
        return Figure(
            what=what,
            who=self.who,
            value=count / window_s,
            cpu_us=cpu_s / count * 1e6,
            cores=cpu_s / window_s,
            generator_cores=max(each.cpu_s for each in tallies) / window_s,
            refused=sum(each.refused for each in tallies),
            load=os.getloadavg()[0],
        )

    def check(self) -> None:
        """See that it has what it acknowledged, and no more."""
        for topic, expected in self.put.items():
            wait_dispatched(partial(self._ends, topic), expected, f"{topic} of {self.who}")

    def _ends(self, topic: str) -> list[int]:
        _, body = probe.ask(self.address, 202, topic=topic)
        return [int(end) for end in re.findall(r'"maxOffset":(\d+)', body.decode())]

    def close(self) -> None:
        self._watch.close()


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if not options.alone and (reason := jars.missing()):
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    try:
        with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.dir) as folder:
            figures = _measured(options, nursery, Path(folder))
    except (NotDispatched, Wrong) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    print(report(figures, options))
    if options.json:
        settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
        content = {"schema": 1, "host": host(), "settings": settings, "bars": BARS, "figures": figures}
        options.json.write_text(json.dumps(content, indent=2, default=lambda figure: figure.plain()) + "\n")
    return MEASURED


def _measured(options: argparse.Namespace, nursery: Nursery, folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for number in range(options.rounds):
        child, start = box_started(nursery, folder / f"start-{number}")
        figures += start.figures()
        child.send_signal(signal.SIGTERM)
        nursery.bury(child)
    profile = folder / "profile" if options.profile else None
    child, start = box_started(nursery, folder / "box", profile=profile)
    small, of_small = box_started(nursery, folder / "small", profile=profile and folder / "profile-small")
    box, beside = Side("box", child.pid, start.address), Side("box", small.pid, of_small.address)
    sides = [box]
    cluster = Cluster(folder / "cluster", nursery, Shape(settings=DURABLE, is_measured=True))
    try:
        if not options.alone:
            began = time.monotonic()
            cluster.start(timeout_s=_START_S)
            figures.append(Figure(what="start", who="rocketmq", value=time.monotonic() - began))
            pid = cluster.pids()["broker-a"]
            figures.append(Figure(what="memory", who="rocketmq", value=Start.memory_mb_of(pid)))
            sides.append(Side("rocketmq", pid, cluster.addresses.brokers["broker-a"]))
        figures += _sent_and_pulled(options, sides, beside)
        for side in (*sides, beside):
            side.check()
    finally:
        for side in (*sides, beside):
            side.close()
        cluster.stop()
    child.send_signal(signal.SIGTERM)
    nursery.bury(child)
    if profile is not None:
        pstats.Stats(str(profile)).sort_stats("tottime").print_stats(30)
    return figures


def _sent_and_pulled(options: argparse.Namespace, sides: list[Side], beside: Side) -> list[Figure]:
    figures: list[Figure] = []

    def measure(side: Side, what: str, topic: str, name: str = "") -> None:
        figure = side.load(what, topic, options)
        figures.append(figure.named(name or what))
        print(f"{figures[-1]}", file=sys.stderr)

    for side in sides:
        side.prepare("sent", options.queues)
    for _ in range(options.rounds):
        for what in ("batch", "single"):
            for side in sides:
                measure(side, what, "sent")
    for side, count in (*((side, options.stored) for side in sides), (beside, options.few)):
        side.prepare("stored", options.queues)
        began = time.monotonic()
        side.load("batch", "stored", options, messages=count, batch=FILL_BATCH)
        print(f"{side.who}: filled with {count} messages in {time.monotonic() - began:.1f} s", file=sys.stderr)
    for _ in range(options.rounds):
        measure(beside, "pull", "stored", "pull few")
        for side in sides:
            measure(side, "pull", "stored")
    return figures


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alone", action="store_true", help="the box only, where there is no Java")
    parser.add_argument("--rounds", type=int, default=3, metavar="R", help="of each figure; default %(default)s")
    parser.add_argument("--seconds", type=float, default=3.0, help="that a round measures; default %(default)s")
    parser.add_argument("--warm-up", type=float, default=1.0, metavar="SECONDS", help="before it; default %(default)s")
    parser.add_argument("--stored", type=int, default=1_000_000, metavar="N", help="pulled from; default %(default)s")
    parser.add_argument("--few", type=int, default=20_000, metavar="N", help="and beside it; default %(default)s")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="messages a batch; default %(default)s")
    parser.add_argument("--body", type=int, default=100, metavar="BYTES", help="default %(default)s")
    parser.add_argument("--queues", type=int, default=8, metavar="Q", help="default %(default)s")
    parser.add_argument(
        "--generators", type=int, default=1, metavar="P", help="processes that load; default %(default)s"
    )
    parser.add_argument("--dir", type=Path, help="where both keep their files; by default the temporary folder")
    parser.add_argument("--profile", action="store_true", help="say what the box's time goes to; slows it down")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
