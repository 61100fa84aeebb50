"""A client of a few lines that writes its requests by hand, for what no Java client can be made to say."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Self

from tests.patience import PATIENCE_S

PULL = 11
SUBSCRIPTION_STANDS_IN_THE_REQUEST = 4


class RawClient:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._stream = self._socket.makefile("rb")
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stream.close()
        self._socket.close()

    def ask(self, code: int, *, version: int = 0, **fields: object) -> bytes:
        """One request; the answer's frame without its length bytes, nothing where the connection was closed."""
        self._number += 1
        header = {
            "code": code,
            "extFields": fields,
            "flag": 0,
            "language": "PYTHON",
            "opaque": self._number,
            "version": version,
        }
        text = json.dumps(header).encode()
        self._socket.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)
        return self._stream.read(int.from_bytes(self._stream.read(4)))

    def pull(self, topic: str, *, group: str, queue: int = 0) -> bytes:
        """Everything at the start of a queue."""
        return self.ask(
            PULL,
            version=477,
            consumerGroup=group,
            topic=topic,
            queueId=str(queue),
            queueOffset="0",
            maxMsgNums="32",
            sysFlag=str(SUBSCRIPTION_STANDS_IN_THE_REQUEST),
            commitOffset="0",
            suspendTimeoutMillis="0",
            subscription="*",
            subVersion=str(int(time.time() * 1000)),
            expressionType="TAG",
        )
