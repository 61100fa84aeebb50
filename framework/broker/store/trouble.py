"""What SQLite's errors mean for the user: what is wrong, and how to fix it. Knows no tables."""

from __future__ import annotations

import errno
import os
import sqlite3

RESTORE = "restore the folder from a copy, or recover what can be read as docs/broker.md says"

# What reading a damaged file raises: SQLite's errors may quote the damage, which may not be text.
DAMAGE = (sqlite3.Error, UnicodeDecodeError)

_NO_ROOM = "no room on the disk: make room, nothing else is needed"
_ADVICE = {
    "SQLITE_FULL": _NO_ROOM,
    "SQLITE_IOERR_WRITE": f"{_NO_ROOM}; with room, the disk itself or a limit on file sizes",
    "SQLITE_IOERR_SHMSIZE": _NO_ROOM,
    "SQLITE_IOERR_TRUNCATE": _NO_ROOM,
    "SQLITE_IOERR_FSYNC": "the disk refuses writes: look at the system's log",
    "SQLITE_IOERR_READ": "the disk cannot be read: look at the system's log",
    "SQLITE_BUSY": "another process has the file open: close it there",
    "SQLITE_READONLY": "the folder or the file is read-only: make both writable",
    "SQLITE_READONLY_DIRECTORY": "the folder is read-only: make it writable",
    "SQLITE_PERM": "no permission to open the file: change its owner to this user",
    "SQLITE_CORRUPT": RESTORE,
    "SQLITE_NOTADB": RESTORE,
}


def explained(error: sqlite3.Error | OSError) -> str:
    """The error in SQLite's or the system's words, and the remedy."""
    if isinstance(error, OSError):
        return f"{error.strerror or error}{_files_left(error.errno)}"
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR_SHMOPEN")):
        number = _trial()
        return f"{error}: {os.strerror(number)}{_files_left(number)}" if number else str(error)
    advice = _ADVICE.get(name) or _ADVICE.get("_".join(name.split("_")[:2]), "")
    return f"{error}; {advice}" if advice else str(error)


def _files_left(number: int | None) -> str:
    if number in {errno.EMFILE, errno.ENFILE}:
        return "; raise the limit (ulimit -n)"
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return f"; {_NO_ROOM}"
    if number in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return "; make this user the owner of the folder and its files, with write permission"
    return ""


def _trial() -> int | None:
    """SQLite does not say why a file cannot be opened; one more try of our own does where files have run out."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno
    return None
