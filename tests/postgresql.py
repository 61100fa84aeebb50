"""A PostgreSQL of a test's own, started by the programs of Debian's package."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lacking import lacking


@contextmanager
def postgresql_at(folder: Path) -> Iterator[str]:
    """The URL of a server of our own, which listens on a socket in this folder and nowhere else."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if not shutil.which("initdb") else []
    path = os.pathsep.join([*map(str, found), os.environ["PATH"]])
    if shutil.which("initdb", path=path) is None:
        lacking("there is no PostgreSQL here; install Debian's package postgresql")
    _open_up(folder)
    as_who: dict[str, Any] = {"env": {**os.environ, "PATH": path}, "cwd": "/"}
    if os.geteuid() == 0:  # it refuses to run as root
        shutil.chown(folder, "postgres")
        as_who |= {"user": "postgres", "group": "postgres", "extra_groups": []}
    data = folder / "data"

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **as_who)

    run("initdb", "-D", data, "-U", "shop", "-A", "trust", "--no-sync")
    control = ("pg_ctl", "-D", data, "-w", "-t", "300")
    run(*control, "-o", f"-k {folder} -c listen_addresses=''", "-l", folder / "log", "start")
    try:
        yield f"postgresql://shop@/postgres?host={folder}"
    finally:
        _open_up(folder)  # pytest has closed them since, for another test's folder
        run(*control, "-m", "immediate", "stop")


def _open_up(folder: Path) -> None:
    """The server's user has to pass."""
    for each in (folder, *list(folder.parents)[:3]):
        each.chmod(stat.S_IMODE(each.stat().st_mode) | 0o755)
