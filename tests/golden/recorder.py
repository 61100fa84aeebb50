"""A TCP proxy that keeps every RocketMQ frame that passes it, in both directions.

It finds the frames' borders by their lengths and looks at nothing else but code, number and flag, with a reader of its
own: the captures are there to test `framework.wire`, which must therefore have no part in choosing them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from dataclasses import dataclass

CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame as it was on the wire, with its four length bytes."""

    sender: str
    """`client`, or the name of the side that the proxy leads to."""
    connection: int
    code: int
    number: int
    flag: int
    binary: bool
    raw: bytes

    @property
    def kind(self) -> str:
        return "answer" if self.flag & 1 else "one-way" if self.flag & 2 else "request"


class Recorder:
    """Listens where told and forwards; everything recorded stands in `frames`, in the order in which it passed."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._lock = threading.Lock()
        self._connections = 0
        self._listeners: list[socket.socket] = []

    def lead(self, name: str, target: tuple[str, int], *, listen: tuple[str, int] = ("127.0.0.1", 0)) -> str:
        """Stand before a target; answers the address to connect to instead."""
        listener = socket.create_server(listen)
        self._listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener, name, target), daemon=True).start()
        host, port = listener.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        for listener in self._listeners:
            with listener:
                listener.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closing does not

    def _accept(self, listener: socket.socket, name: str, target: tuple[str, int]) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # The listener was closed.
                return
            far = socket.create_connection(target)
            self._connections += 1
            for source, sink, sender in ((near, far, CLIENT), (far, near, name)):
                pump = threading.Thread(target=self._pump, args=(source, sink, sender, self._connections), daemon=True)
                pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket, sender: str, connection: int) -> None:
        held = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                held += data
                while len(held) >= 4 and len(held) >= (end := 4 + int.from_bytes(held[:4])):
                    self._keep(sender, connection, held[:end])
                    held = held[end:]
                sink.sendall(data)
        for end_of in (source, sink):
            with contextlib.suppress(OSError):
                end_of.shutdown(socket.SHUT_RDWR)

    def _keep(self, sender: str, connection: int, raw: bytes) -> None:
        header_bytes = int.from_bytes(raw[5:8])
        binary = raw[4] == 1
        if binary:
            code, number, flag = struct.unpack_from(">hxxxii", raw, 8)
        else:
            header = json.loads(raw[8 : 8 + header_bytes])
            code, number, flag = header["code"], header["opaque"], header["flag"]
        with self._lock:
            self.frames.append(
                Frame(
                    sender=sender,
                    connection=connection,
                    code=code,
                    number=number,
                    flag=flag,
                    binary=binary,
                    raw=raw,
                )
            )
