"""Forks: what a child process must not have of its parent, and what tells whoever uses it there.

A child that was forked has the parent's sockets, locked files and event loop, but none of its threads. Bytes that it
read or wrote would be missing in the parent's streams; a socket that it merely kept open would keep a dead parent in
its groups; and its event loop shares the parent's epoll instance, where it would take away what the parent waits for.
So right behind a fork these are cut off in the child, and every owner of state is told. The parent notices nothing.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import suppress
from contextvars import copy_context
from itertools import count
from typing import Any, NoReturn, Protocol
from weakref import WeakValueDictionary

import structlog

from framework.errors import Forked

log = structlog.get_logger()

LEAVE = 70  # EX_SOFTWARE of sysexits.h
SAYING_SECONDS = 1.0
_SAID = "forked child ended"


class Owner(Protocol):
    """Whatever goes on in the parent and must not in a child."""

    def forked(self, parent: int) -> None:
        """Called in the child, right behind the fork and on the thread that forked: mark, and touch nothing."""
        ...


_numbers = count()
_owners: WeakValueDictionary[int, Owner] = WeakValueDictionary()
_files: dict[int, None] = {}
"""File numbers of locks."""
_transports: WeakValueDictionary[int, Any] = WeakValueDictionary()
_process = os.getpid()


def tell(owner: Owner) -> None:
    """Have it told of each fork, in the child."""
    _owners[next(_numbers)] = owner


def cut_off(transport: Any) -> None:
    """Have a child's copy of this connection lead nowhere."""
    _transports[next(_numbers)] = transport


def keep_file(number: int) -> None:
    """Have a child's copy of this open file be none, so that a lock on it ends with its owner."""
    _files[number] = None


def forget_file(number: int) -> None:
    """It is about to be closed, and its number may soon be another's."""
    _files.pop(number, None)


def misused(what: str, parent: int) -> Forked:
    return Forked(
        f"{what} belongs to process {parent}, and this one ({os.getpid()}) was forked from it: make another one here, "
        'or start processes by "spawn" (multiprocessing.get_context("spawn"))'
    )


def leave(what: str, parent: int) -> NoReturn:
    """A child went on where only its parent may: say so and end, at once and without any teardown of the parent's.

    Another thread may have been writing a line when this process was forked: then the logger's lock is taken for good,
    and the system is told directly, unless it would make us wait, too.
    """
    reason = str(misused(what, parent))
    said = threading.Event()

    def say() -> None:
        log.error(
            _SAID, parent=parent, code=LEAVE, reason=reason,
            remedy="a forked child must not return from the handler: end it by os._exit, or use multiprocessing",
        )  # fmt: skip
        said.set()

    speaker = threading.Thread(target=copy_context().run, args=(say,), daemon=True)
    with suppress(RuntimeError):  # there are no more threads to be had
        speaker.start()
        speaker.join(SAYING_SECONDS)
    if not said.is_set():
        with suppress(OSError, ValueError):
            if select.select([], [2], [], 0)[1]:
                os.write(2, f"{_SAID}: {reason}\n".encode())
    os._exit(LEAVE)  # nothing is flushed: what lies in buffers is the parent's, who writes it himself


def isolate(loop: Any) -> None:
    """Give a child's copy of a running loop an epoll of its own, empty: what is in it is the parent's."""
    selector = getattr(loop, "_selector", None)
    if isinstance(selector, object) and hasattr(selector, "fileno") and hasattr(select, "epoll"):
        with suppress(OSError), select.epoll() as empty:
            os.dup2(empty.fileno(), selector.fileno(), inheritable=False)


def _numbers_to_cut() -> Iterator[int]:
    yield from _files
    for transport in list(_transports.values()):
        socket = None if transport.is_closing() else transport.get_extra_info("socket")
        if socket is not None and socket.fileno() >= 0:
            yield socket.fileno()


def _in_child() -> None:
    global _process
    parent, _process = _process, os.getpid()
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in _numbers_to_cut():
        with suppress(OSError):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
    _files.clear()
    for owner in list(_owners.values()):
        owner.forked(parent)
    _owners.clear()
    _transports.clear()


os.register_at_fork(after_in_child=_in_child)
