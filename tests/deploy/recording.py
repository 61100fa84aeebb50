"""What /metrics says of an application in virtual time, each 15 s as a scraper has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from framework.broker.intercept import Interceptor
from framework.hooks.host import PluginHost
from framework.model.snapshot import Snapshot
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import text_of
from framework.runtime.observe.sums import Sums
from framework.testing import Harness
from framework.testing.sim.machine import Machine
from framework.wire.command import RemotingCommand
from tests.runtime.observe.asking import series

STEP_S = 15
JOB = 'job="order-desk"'
WHO, OTHER = f'{JOB},instance="10.0.4.7:9464"', 'instance="10.0.4.8:9464"'
LISTEN: Mapping[str, Any] = {"observe": {"listen": "127.0.0.1:9464"}}


@dataclass(slots=True)
class Recording:
    """Each series with its values, None where it had none."""

    series: dict[str, list[float | None]] = field(default_factory=dict)
    scrapes: int = 0
    sums: Sums = field(default_factory=Sums)
    _began_s: float | None = None

    def add(self, *workers: dict[str, Any]) -> None:
        """A scrape. No worker: nobody answers."""
        found = series(text_of(families(workers, "1.0", sums=self.sums))) if workers else {}
        found["up"] = float(bool(workers))
        for name in found:
            self.series.setdefault(name, [None] * self.scrapes)
        self.scrapes += 1
        for name, values in self.series.items():
            value = found.get(name)
            # Promtool's clock begins at 0, and so do the instants that it compares with it.
            values.append(value - self._base(workers) if value is not None and _is_instant(name) else value)

    def of(self, snapshot: Snapshot) -> None:
        self.add({"worker": 0, "snapshot": asdict(snapshot)})

    def _base(self, workers: tuple[dict[str, Any], ...]) -> float:
        if self._began_s is None:
            self._began_s = min(each["snapshot"]["taken_ms"] for each in workers if "snapshot" in each) / 1000
        return self._began_s

    def known(self, name: str, *labels: str) -> list[float]:
        """All values of a metric; with labels, of the series that have them."""
        return [
            value
            for each, values in self.series.items()
            if each.partition("{")[0] == name and all(label in each for label in labels)
            for value in values
            if value is not None
        ]


def _is_instant(name: str) -> bool:
    return name.partition("{")[0].endswith("_timestamp_seconds")


class _Over(Exception):
    """The recording is made; nothing has to be put in order for a stop."""


@contextmanager
def desk(
    handler: Any, *, plugins: PluginHost | None = None, outbox: Mapping[str, Any] | None = None, **settings: Any
) -> Iterator[Harness]:
    group = {"consumers": {"billing": settings}} if settings else {}
    of_plugins = {"plugins": {"settings": {"outbox": outbox}}} if outbox else {}
    with suppress(_Over), Harness(handler, settings={**LISTEN, **group, **of_plugins}, plugins=plugins) as opened:
        yield opened
        raise _Over


def steps(opened: Harness, recording: Recording, count: int, messages: int = 1) -> None:
    """So many scrapes, and so many messages before each."""
    for _ in range(count):
        for _ in range(messages):
            opened.send("orders", "tea")
        opened.sleep(f"{STEP_S}s")
        recording.of(opened.snapshot())


@contextmanager
def refusing(opened: Harness, *codes: int) -> Iterator[None]:
    broker = opened._cluster.broker.broker
    assert broker is not None
    answer = RemotingCommand(1, remark="not today")
    removers = [broker.intercept(Interceptor(code=code, answer=answer, times=None)) for code in codes]
    try:
        yield
    finally:
        for remove in removers:
            remove()


def scrape(machine: Machine, recording: Recording) -> None:
    if machine.is_alive and machine.app is not None:
        recording.of(machine.app.snapshot())
    else:
        recording.add()
