"""The two sides of `benchmarks.consume`: how each is started, how it says what it handled, how it is ended.

A side reports lines of JSON, `reached` when all were handled and `left` after it has ended. When it is measured, and
whether what it did was right, is not known here.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks.cells import Cells
from tests.interop import jars
from tests.interop.processes import Nursery
from tests.patience import wait_until

ROOT = Path(__file__).parents[1]
JAVA_SOURCES = Path(__file__).parent / "java"
HANDLERS = {
    "async": "benchmarks.handlers.async_handler",
    "sync": "benchmarks.handlers.sync_handler",
    "hooks3": "benchmarks.handlers.async_handler",
    "traced": "benchmarks.handlers.traced_handler",
    "pydantic": "benchmarks.handlers.pydantic_handler",
    "retry": "benchmarks.handlers.retry_handler",
    "full": "benchmarks.handlers.full_handler",
    "batch": "benchmarks.handlers.batch_handler",
    "batch-sync": "benchmarks.handlers.batch_sync_handler",
    "orderly": "benchmarks.handlers.orderly_handler",
    "orderly-sync": "benchmarks.handlers.orderly_sync_handler",
    "batch-typed": "benchmarks.handlers.batch_typed_handler",
    "shared": "benchmarks.handlers.shared_handler",
}
SHARED = "shared"
"""The handler whose processes count in one file: for several workers, and for several groups."""
FEATURES = ("async", "pydantic", "retry", "hooks3", "full")
"""What `--features` takes in turns: the plain handler, one thing more each, and all together."""
RELIABILITY: Mapping[str, Mapping[str, object]] = {
    "bare": {"progress": "none", "timeout": None},
    "kept": {"progress": "topic", "timeout": "15m"},
}
"""What `--reliability` takes in turns: settings of the group."""
OBSERVED: Mapping[str, str] = {"unobserved": "async", "observed": "traced"}
"""What `--observed` takes in turns, and the handler of each: without, and with metrics, traces and a dashboard."""
TRACED: Mapping[str, object] = {"enabled": True, "sample": 0.01}
"""The settings of plugins/otel there."""
WITH_HOOKS = frozenset({"hooks3", "full"})
HOOKS = [f"benchmarks.handlers.{place}_hooks" for place in ("first", "second", "third")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a side has to consume, and how."""

    name_server: str
    topic: str
    group: str
    count: int
    handler: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """More of our group's."""
    listen: int = 0
    """The port where it is observed; 0 for nowhere."""
    pull_batch: int
    """What one pull asks for."""
    java_batch: int
    """How many messages Java's listener is called with."""
    groups: int = 1
    """Each consumes all of it, in one process; more than one need a handler of `SHARED`."""
    workers: int = 1

    @property
    def total(self) -> int:
        """Calls that a run comes to."""
        return self.count * self.groups

    def group_names(self) -> list[str]:
        return [self.group, *(f"{self.group}-{number}" for number in range(1, self.groups))]


@dataclass(frozen=True, slots=True)
class Tale:
    """What a side says of itself."""

    handled: int
    offsets: int
    """The sum of the queue offsets of what was handled."""
    first_ns: int
    last_ns: int


class SideEnded(Exception):
    """A consumer that did not live until all was handled."""


class Side:
    """One running consumer."""

    def __init__(self, child: subprocess.Popen[str], nursery: Nursery, folder: Path, report: Path) -> None:
        self.pid = child.pid
        self._child = child
        self._nursery = nursery
        self._folder = folder
        self._report = report

    def wait_reached(self, timeout_s: float) -> Tale:
        wait_until(lambda: self._ended() or "reached" in self._lines(), f"the last message ({self._folder})", timeout_s)
        if "reached" not in self._lines():
            raise SideEnded(f"the consumer ended before it was told to; its last words:\n{self._last_words()}")
        return self._lines()["reached"]

    def end(self) -> Tale:
        """Let it drain and leave the group; what it handled by then."""
        self._child.send_signal(signal.SIGTERM)
        self._nursery.bury(self._child, timeout_s=60)
        return self._lines()["left"]

    def _last_words(self) -> str:
        logs = [self._folder / "log", self._report]
        return "\n".join(line for log in logs if log.exists() for line in log.read_text().splitlines()[-20:])

    def _ended(self) -> bool:
        return self._child.poll() is not None

    def _lines(self) -> dict[str, Tale]:
        if not self._report.exists():
            return {}
        # A JVM's warnings stand between them.
        text = self._report.read_text().splitlines()
        lines: list[dict[str, Any]] = [
            json.loads(line) for line in text if line.startswith('{"event"') and line[-1] == "}"
        ]
        return {line.pop("event"): Tale(**line) for line in lines}


class SharedSide(Side):
    """Several processes, or several groups, that count in one file. When all is handled is looked at here."""

    def __init__(
        self, child: subprocess.Popen[str], nursery: Nursery, folder: Path, report: Path, cells: Cells, total: int
    ) -> None:
        super().__init__(child, nursery, folder, report)
        self._cells, self._total, self._last_ns = cells, total, 0

    def wait_reached(self, timeout_s: float) -> Tale:
        def is_over() -> bool:
            return self._ended() or self._cells.handled() >= self._total

        wait_until(is_over, f"the last message ({self._folder})", timeout_s, pause_s=0.002)
        self._last_ns = time.monotonic_ns()
        if self._cells.handled() < self._total:
            raise SideEnded(f"the consumer ended before it was told to; its last words:\n{self._last_words()}")
        return self._tale()

    def end(self) -> Tale:
        self._child.send_signal(signal.SIGTERM)
        self._nursery.bury(self._child, timeout_s=60)
        return self._tale()

    def _tale(self) -> Tale:
        cells = self._cells
        return Tale(cells.handled(), cells.offsets(), first_ns=cells.first_ns(), last_ns=self._last_ns)


def start_ours(work: Work, nursery: Nursery, folder: Path) -> Side:
    """`framework-app run` as shipped. Its settings say where to begin, how much to pull in a tuned run, and no more."""
    report = folder / "report.jsonl"
    of_group = {"start": "first", "pull_batch": work.pull_batch, **work.settings}
    hooks = HOOKS if work.handler in WITH_HOOKS else []
    groups = dict.fromkeys(work.group_names(), of_group)
    configuration = configured(folder, work.name_server, groups, hooks, work.listen)
    environment = {
        "BENCHMARK_TOPIC": work.topic,
        "BENCHMARK_GROUP": work.group,
        "BENCHMARK_COUNT": str(work.count),
        "BENCHMARK_REPORT": str(report),
        "BENCHMARK_GROUPS": str(work.groups),
    }
    command = [sys.executable, "-m", "framework", "run", HANDLERS[work.handler], "--config", str(configuration)]
    if work.workers > 1:
        command += ["--workers", str(work.workers)]
    if work.handler == SHARED:
        cells = Cells(report)
        child = nursery.start(command, cwd=ROOT, output=folder / "log", environment=environment)
        return SharedSide(child, nursery, folder, report, cells, work.total)
    assert (work.groups, work.workers) == (1, 1), "only shared counts add up"
    child = nursery.start(command, cwd=ROOT, output=folder / "log", environment=environment)
    return Side(child, nursery, folder, report)


def configured(
    folder: Path,
    name_server: str,
    groups: Mapping[str, Mapping[str, object]],
    plugins: Sequence[str] = (),
    listen: int = 0,
) -> Path:
    """The settings of ours, and no more: a plugin that happens to be installed would be measured, too. Who is observed
    at a port writes traces.
    """
    used = ["otel"] if listen else []
    block = [entry.name for entry in entry_points(group="framework_app.plugins") if entry.name not in used]
    path = folder / "settings.yaml"
    settings: dict[str, object] = {
        **({"observe": {"listen": f"127.0.0.1:{listen}"}} if listen else {}),
        "cluster": {"name_servers": [name_server]},
        "consumers": groups,
        "plugins": {"block": block, "local": list(plugins), "settings": dict.fromkeys(used, TRACED)},
    }
    path.write_text(json.dumps(settings))
    return path


def start_java(work: Work, nursery: Nursery, folder: Path) -> Side:
    """DefaultMQPushConsumer with its own defaults, and a listener in order where our handler is one."""
    report = folder / "report.jsonl"
    words = [work.name_server, work.group, work.topic, str(work.count), str(work.pull_batch), str(work.java_batch)]
    if work.handler.startswith("orderly"):
        words.append("orderly")
    flags: Sequence[str] = ("-Xmx512m", f"-Duser.home={folder}")
    command = jars.java("ConsumeBench", *words, classes=jars.compiled(JAVA_SOURCES), flags=flags)
    child = nursery.start(command, cwd=folder, output=report)
    return Side(child, nursery, folder, report)
