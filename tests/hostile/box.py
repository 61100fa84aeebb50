"""A box in a process of its own, what it costs, and a good client that measures how long it is kept waiting."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.hostile import frames
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


class Box:
    """`framework-app broker` with a data folder, as a user starts it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / "log"
        self.most = 0
        """The most memory that it had, in bytes; known when it has ended."""
        ready = folder / "ready"
        command = [sys.executable, "-m", "framework", "broker", "--ready-file", str(ready), *options]
        if "--memory" not in options:
            command += ["--data", str(folder / "data")]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

        def is_ready() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return ready.exists() and ready.read_text().endswith("\n")

        try:
            wait_until(is_ready, f"a box that is ready ({self.log})")
        except AssertionError:
            self.stop()
            raise
        found = re.search(r"namesrv=\S+:(\d+)", ready.read_text())
        assert found
        self.port = int(found[1])

    def memory(self, what: str = "VmRSS") -> int:
        """Bytes of real memory: now, or the most there ever were (VmHWM)."""
        found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found
        return int(found[1]) * 1024

    def seconds_used(self) -> float:
        """Processor time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def box(folder: Path, *options: str) -> Iterator[Box]:
    made = Box(folder, *options)
    try:
        yield made
    finally:
        made.stop()


class GoodClient:
    """One connection that asks one thing after the other, and keeps what each took."""

    def __init__(self, port: int, *, key: str = "", secret: str = "", ca_file: Path | None = None) -> None:
        """By TLS where there is a `ca_file`."""
        self._port, self._key, self._secret = port, key, secret
        self._tls = None if ca_file is None else ssl.create_default_context(cafile=ca_file)
        self._socket: socket.socket | None = None
        self._frames = frames.Frames()
        self.took: list[float] = []
        self.codes: dict[int, int] = {}
        self.broken = 0

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> frames.Received | None:
        """The answer; None where the connection was lost."""
        began = time.monotonic()
        try:
            answer = self._ask(code, fields, body)
        except OSError:
            answer, self.broken = None, self.broken + 1
            self.close()
        self.took.append(time.monotonic() - began)
        if answer is not None:
            self.codes[answer.code] = self.codes.get(answer.code, 0) + 1
        return answer

    def _ask(self, code: int, fields: dict[str, str], body: bytes) -> frames.Received:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
            if self._tls is not None:
                self._socket = self._tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
            self._frames = frames.Frames()
        if self._key:
            fields = frames.signed(fields, body, self._key, self._secret)
        self._socket.sendall(frames.request(code, fields, body))
        while data := self._socket.recv(1 << 18):
            for received in self._frames.feed(data):
                return received
        raise ConnectionError("closed")

    def send(self, topic: str, body: bytes = b"good") -> frames.Received | None:
        return self.ask(310, frames.send_fields(topic), body)

    def pull(self, topic: str, offset: int) -> frames.Received | None:
        return self.ask(11, frames.pull_fields(topic, "good", offset=offset))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
