"""Clusters that the processes of one test run share: the first that asks starts one, and it ends with the last.

A broker costs more processor time than most tests, at its start and while nobody asks it. So workers stand on a few.
Whoever uses one holds the pipe of its keeper open; when nobody does, however they ended, the keeper kills it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.interop import jars
from tests.interop.cluster import Addresses, Cluster
from tests.interop.processes import Nursery, start_keeper

CLUSTERS = 2
"""With one, its broker's threads wait for each other; each more costs its start and its idling."""
WORKER = "PYTEST_XDIST_WORKER"
_HELD: list[object] = []
"""Pipes and clusters, until this process ends: whoever lets go of them says that nobody needs them any more."""


def chosen(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the cluster that this process shares with others; None where it is the only one of its run."""
    number = re.fullmatch(r"gw(\d+)", environment.get(WORKER, ""))
    return None if number is None else folder / f"shared-cluster-{int(number[1]) % CLUSTERS}"


def start(folder: Path) -> Addresses:
    """The addresses of the cluster in a folder, which is started where none runs."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "addresses.json"
    with jars.locked(folder / ".lock"):
        if (pipe := joined(folder / "keeper")) is None:
            pipe = kept(folder / "keeper")
            cluster = Cluster(folder, Nursery(keeper=pipe))
            try:
                cluster.start()
            except BaseException:
                cluster.stop()
                pipe.close()
                raise
            state.write_text(json.dumps(dataclasses.asdict(cluster.addresses)))
            _HELD.append(cluster)
    _HELD.append(pipe)
    return Addresses(**json.loads(state.read_text()))


def joined(path: Path) -> IO[str] | None:
    """The pipe of a keeper that is there."""
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "w")
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENXIO}:
            return None
        raise


def kept(path: Path) -> IO[str]:
    """The pipe of a keeper that is started, for whom else it may be."""
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without waiting for somebody who writes
    writing = os.open(path, os.O_WRONLY)
    os.set_blocking(reading, True)
    try:
        _HELD.append(start_keeper(reading))
    finally:
        os.close(reading)
    return os.fdopen(writing, "w")
