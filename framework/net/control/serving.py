"""Serving: the listening side of a control socket, on threads of its own, so that it answers while the loop cannot.

Whatever is sent to it, it answers a line and closes: requests are bounded in size and time, connections in number.
Only processes of the same user reach it, by the mode of the file; the system is asked who connected as well.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog

from framework.errors import ConfigurationError
from framework.net import forks
from framework.net.control.asking import CLOCK, Answer, Request
from framework.net.control.places import checked, is_heard
from framework.ports import Watchman

log = structlog.get_logger()

REQUEST_BYTES_MAX = 4096
CONNECTIONS_MAX = 16  # commands of people, and probes each few seconds
REQUEST_SECONDS = 5.0  # to send a line, and to take in the answer
_CREDENTIALS = struct.Struct("3i")

Answers = Callable[[Request], Answer]


class ControlSocket:
    """One a process. `answer` is called on a thread, several times at once; what it raises is answered as an error."""

    def __init__(self, path: Path, answer: Answers, watchman: Watchman) -> None:
        self.path = path
        self._answer, self._watchman = answer, watchman
        self._listening: socket.socket | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open = 0
        """Connections that are being answered."""

    def open(self) -> bool:
        """Listen; whether it does. Where it cannot, that is logged and no more: the application still consumes."""
        try:
            listening = self._bound()
        except (OSError, ConfigurationError) as error:
            log.warning("control socket not opened", path=str(self.path), reason=str(error))
            return False
        self._listening = listening
        forks.keep_file(listening.fileno())
        self._watchman.attend(lambda: self._serve(listening), "control")
        return True

    def _bound(self) -> socket.socket:
        """Bind beside the name and take it when it listens: whoever finds the name finds somebody behind it."""
        path = checked(self.path)
        beside = Path(f"{path}~")
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(BlockingIOError):  # whoever starts in this very moment
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_heard(path):
                raise OSError("another process listens there; give each application its own app.control")
            if path.exists() and not path.is_socket():
                raise OSError("there is a file that is no socket; remove it, or set app.control to another path")
            beside.unlink(missing_ok=True)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                listening.bind(str(beside))
                beside.chmod(0o600)  # nobody can connect before it listens
                listening.listen(CONNECTIONS_MAX)
                beside.rename(path)
            except OSError:
                listening.close()
                raise
            return listening
        finally:
            os.close(folder)

    def close(self) -> None:
        """Listen no more; requests that are being answered end by themselves."""
        listening, self._listening = self._listening, None
        if listening is None or os.getpid() != self._process:
            return
        self.path.unlink(missing_ok=True)
        forks.forget_file(listening.fileno())
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it

    # On threads

    def _serve(self, listening: socket.socket) -> None:
        with listening:
            while self._listening is listening:
                try:
                    connection, _ = listening.accept()
                except OSError as error:
                    if self._listening is not listening:
                        return
                    log.warning("control socket failed", path=str(self.path), reason=str(error))
                    threading.Event().wait(1.0)  # too many open files, most likely
                    continue
                self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(REQUEST_SECONDS)
        with self._lock:
            is_crowded = self._open >= CONNECTIONS_MAX
            self._open += not is_crowded
        if is_crowded:
            _say(connection, {"error": f"{CONNECTIONS_MAX} requests are being answered already; ask again"})
            connection.close()
            return
        try:
            self._watchman.attend(lambda: self._converse(connection), "control request")
        except RuntimeError:  # there are no more threads to be had
            connection.close()
            self._left()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                _say(connection, self._answered(connection))
        finally:
            self._left()

    def _left(self) -> None:
        with self._lock:
            self._open -= 1

    def _answered(self, connection: socket.socket) -> Answer:
        try:
            if not _is_ours(connection):
                return {"error": "this socket answers processes of its own user"}
            return self._answer(_request(connection))
        except _BadRequest as error:
            return {"error": str(error)}
        except Exception as error:  # border: the caller's, who is told; the thread ends either way
            log.exception("control request failed")
            return {"error": f"{type(error).__name__}: {error}"}


class _BadRequest(Exception):
    """What was sent cannot be read."""


def _is_ours(connection: socket.socket) -> bool:
    who = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(who)
    return user in {0, os.geteuid()}


def _request(connection: socket.socket) -> dict[str, Any]:
    received, until = b"", CLOCK.monotonic() + REQUEST_SECONDS
    while not received.endswith(b"\n"):
        try:
            connection.settimeout(max(until - CLOCK.monotonic(), 0.001))  # for all of it, and not for each piece
            piece = connection.recv(REQUEST_BYTES_MAX)
        except OSError as error:
            raise _BadRequest(f"no whole line came within {REQUEST_SECONDS:g} s") from error
        received += piece
        if len(received) > REQUEST_BYTES_MAX:
            raise _BadRequest(f"a request has {REQUEST_BYTES_MAX} bytes at most")
        if not piece:
            raise _BadRequest("the request ended before its line did")
    try:
        request = json.loads(received)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise _BadRequest("a request is one line with a JSON object")
    return request


def _say(connection: socket.socket, answer: Answer) -> None:
    with suppress(OSError):  # it has gone, or does not read
        connection.sendall(json.dumps(answer, default=str).encode() + b"\n")
