"""What benchmarks on a real cluster of their own have in common: the cluster, and the exit codes."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.backlog import Wrong
from benchmarks.consumers import SideEnded
from benchmarks.dispatched import NotDispatched
from tests.interop import jars
from tests.interop.cluster import Cluster, Shape
from tests.interop.processes import Nursery

MEASURED, WRONG, MISSING = 0, 1, 3
Samples = TypeVar("Samples")


def on_a_cluster(measure: Callable[[Cluster, Nursery, Path], Samples], tell: Callable[[Samples], None]) -> int:
    """Measure, then tell when the cluster is gone. The exit code says what is missing or went wrong."""
    if reason := jars.missing():
        print(f"peer missing: {reason}", file=sys.stderr)
        return MISSING
    nursery = Nursery()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="benchmark-") as folder,
            Cluster(Path(folder, "cluster"), nursery, Shape(is_measured=True)) as cluster,
        ):
            samples = measure(cluster, nursery, Path(folder))
    except (NotDispatched, Wrong, SideEnded) as error:
        print(f"wrong: {error}", file=sys.stderr)
        return WRONG
    finally:
        nursery.close()
    tell(samples)
    return MEASURED
