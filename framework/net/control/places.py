"""Places: where control sockets lie, and which of them somebody listens at. Imports little: probes use it."""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from framework.mistakes import FolderUnusable

PATH_BYTES_MAX = 100
"""Linux allows 107. The rest is for what is added: the number of a worker, and a sign while the file is being made."""
FOLDER = "framework-app"
SUFFIX = ".sock"
NAME_MAX = 40
CONNECT_SECONDS = 1.0


def folders(environment: Mapping[str, str]) -> list[Path]:
    """Where applications of this user put their sockets, the first choice first.

    A service has often no XDG_RUNTIME_DIR where its user's shell has one: whoever looks, looks at both.
    """
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    own = [Path(runtime) / FOLDER] if runtime.startswith("/") else []
    return [*own, Path(tempfile.gettempdir()) / f"{FOLDER}-{os.geteuid()}"]


def default_place(name: str, environment: Mapping[str, str]) -> Path:
    """A path of this process's own, in a folder that was made where there was none. OSError where there can be none."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:NAME_MAX].lstrip(".") or "app"
    refusals: list[OSError] = []
    for folder in folders(environment):
        try:
            _make(folder)
        except OSError as error:
            refusals.append(error)
            continue
        _sweep(folder)
        for number in ("", *(f"-{each}" for each in range(2, 10))):
            path = folder / f"{plain}-{os.getpid()}{number}{SUFFIX}"
            if not is_heard(path):  # in containers that share a folder, processes have one number
                return path
    raise refusals[0] if refusals else OSError(f"too many sockets of process {os.getpid()}")


def checked(path: Path) -> Path:
    """The path, if a socket can have it."""
    size = len(os.fsencode(path))
    if size > PATH_BYTES_MAX:
        raise FolderUnusable(
            f"control socket {path}: the path has {size} bytes, and a Unix socket's {PATH_BYTES_MAX} at most; set "
            'app.control to a shorter one, or to "" for none'
        )
    return path


def is_heard(path: Path) -> bool:
    """Whether somebody listens there. What a process left behind that is gone refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(str(path))
        except TimeoutError:
            return True  # it is there, and has no time
        except OSError:
            return False
        return True


def sockets(environment: Mapping[str, str]) -> Iterator[Path]:
    """Every socket of this user's applications, heard or not; those of workers are their parents' to ask."""
    for folder in folders(environment):
        try:
            _check(folder)
            yield from sorted(folder.glob(f"*{SUFFIX}"))
        except OSError:
            continue


def _make(folder: Path) -> None:
    """The last folder only: nobody else's is made here."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _check(folder)


def _check(folder: Path) -> None:
    """In a folder that others may write to, a name could be theirs."""
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a folder that only this user may write to")


def _sweep(folder: Path) -> None:
    """Take away what processes left behind that were killed."""
    for path in folder.glob(f"*{SUFFIX}*"):
        is_being_made = path.name.endswith("~")  # by another process, this very moment
        if not is_being_made and path.is_socket() and not is_heard(path):
            path.unlink(missing_ok=True)
