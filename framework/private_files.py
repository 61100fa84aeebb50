"""Files and folders of this user alone, whatever the umask says: what is kept there says what was sold to whom.

Only regular files are opened. A pipe would be waited for, and a start that waits in a system call hears no signal.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_KINDS = {
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


def make_folder(folder: Path) -> None:
    """It and those above it, where they are not there; what is there stays as its owner made it."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def open_file(path: Path, flags: int) -> int:
    """Its descriptor, made if `flags` say so. OSError, and no waiting, for anything but a regular file.

    What others may do to a file of ours that is there, they may no longer, where it is opened to be kept (O_CREAT).
    """
    if path.exists():
        _check(path, path.stat().st_mode)
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    try:
        found = os.fstat(file)
        _check(path, found.st_mode)  # it may have been put there in between
        if flags & os.O_CREAT and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(file, FILE_MODE)
    except BaseException:
        os.close(file)
        raise
    return file


def make_file(path: Path) -> None:
    """An empty one, in place of what a process that was killed may have left there."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))


def _check(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"{path} is {kind} and not a file: take it away")
