"""Probes: what the answers of one or several processes come to. It knows no HTTP, and asks nobody.

An answer is one of `Control`'s to `health`, or says in `error` why there is none. A process that is only starting, or
has drained and is about to end, lives and is not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from framework.net.control.asking import named

Worker: TypeAlias = dict[str, Any]
Probe: TypeAlias = Literal["live", "ready", "startup"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of all processes together; no reason: all is well."""

    reasons: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        return not self.reasons


def verdict(probe: Probe, workers: Sequence[Worker]) -> Verdict:
    reasons = [
        f"{named(each, len(workers))}{' '.join(reason.split())}"
        for each in workers
        for reason in reasons_of(each, probe)
    ]
    return Verdict(tuple(reasons) if workers or probe == "live" else ("no process runs any more",))


def reasons_of(worker: Worker, probe: Probe) -> list[str]:
    """Why this process is not as asked for."""
    if "error" in worker:
        is_on_its_way = worker.get("is_starting") or worker.get("is_stopping")
        return [] if is_on_its_way and probe == "live" else [str(worker["error"])]
    if probe == "startup":
        blocked = worker.get("is_blocked")
        return [str(each) for each in worker["reasons"]] if blocked else []
    return [str(each) for each in worker.get("reasons", ["its answer has no reasons: it is of another version"])]
