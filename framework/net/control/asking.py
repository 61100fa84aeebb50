"""Asking: one request to control sockets, and their answers within a time. Blocking; imports little: probes use it."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from framework.net.real_clock import RealClock

Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]

ANSWER_BYTES_MAX = 16 * 1024 * 1024
READ_BYTES = 64 * 1024
CLOCK = RealClock()


class ControlFailed(Exception):
    """No answer that can be used."""


class NobodyListens(ControlFailed):
    """There is no such socket, or its process is gone."""


def ask(path: Path, request: Request, seconds: float) -> Answer:
    """Ask one. Raises ControlFailed, with a sentence for people; what the other side refuses is in `error`."""
    found = ask_all({0: path}, request, seconds)[0]
    if isinstance(found, ControlFailed):
        raise found
    return found


def ask_all(paths: Mapping[int, Path], request: Request, seconds: float) -> dict[int, Answer | ControlFailed]:
    """Ask several at once; each answers, or has a reason why it does not, within the time for all of them."""
    until = CLOCK.monotonic() + seconds
    line = json.dumps(request).encode() + b"\n"
    asked = {number: _sent(path, line, seconds) for number, path in paths.items()}
    answers: dict[int, Answer | ControlFailed] = {}
    for number, connection in asked.items():
        if isinstance(connection, ControlFailed):
            answers[number] = connection
            continue
        with connection:
            try:
                answers[number] = _answer(connection, until, seconds)
            except ControlFailed as failure:
                answers[number] = failure
    return answers


def _sent(path: Path, line: bytes, seconds: float) -> socket.socket | ControlFailed:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
        with suppress(BrokenPipeError):  # refused before it was asked: the answer says why
            connection.sendall(line)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return NobodyListens(f"nobody listens at {path}")
    except OSError as error:
        connection.close()
        return ControlFailed(f"{path}: {error.strerror or error}")
    return connection


def _answer(connection: socket.socket, until: float, seconds: float) -> Answer:
    pieces: list[bytes] = []
    size = 0
    try:
        while not pieces or not pieces[-1].endswith(b"\n"):
            connection.settimeout(max(until - CLOCK.monotonic(), 0.001))
            piece = connection.recv(READ_BYTES)
            if not piece:
                raise ControlFailed("it closed the connection before it had answered")
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise ControlFailed(f"its answer has more than {ANSWER_BYTES_MAX} bytes")
    except TimeoutError:
        raise ControlFailed(
            f"no answer within {seconds:g} s: the process is stopped, or code in it keeps every thread from running"
        ) from None
    except OSError as error:
        raise ControlFailed(f"the connection broke: {error.strerror or error}") from error
    try:
        answer = json.loads(b"".join(pieces))
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ControlFailed("its answer is not a JSON object: something else listens there")
    return answer


def workers_of(answer: Answer) -> list[dict[str, Any]]:
    """A parent's answer has one for each worker; an application that is alone is its own."""
    workers = answer.get("workers")
    if isinstance(workers, list):
        return [each for each in workers if isinstance(each, dict)]
    return [answer]


def named(worker: Answer, count: int) -> str:
    """How a line about one of so many workers begins."""
    return f"worker {worker.get('worker')}: " if count > 1 else ""
