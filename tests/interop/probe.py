"""Asks a name server whether a cluster is ready, and a broker for a topic, with the fewest bytes that do it.

On purpose without `framework.wire`: the fixture must not depend on what it is there to test.
"""

from __future__ import annotations

import json
import re
import socket
import struct

from tests.patience import PATIENCE_S

UPDATE_TOPIC = 17
UPDATE_BROKER_CONFIG = 25
GET_ROUTE = 105
GET_CLUSTER = 106


def known_brokers(name_server: str) -> set[str]:
    """The addresses of the brokers that a name server knows; empty when it does not answer."""
    code, body = ask(name_server, GET_CLUSTER)
    return _addresses(body) if code == 0 else set()


def routed_brokers(name_server: str, topic: str) -> set[str]:
    """The addresses of the brokers on a topic's route; empty when there is none."""
    code, body = ask(name_server, GET_ROUTE, topic=topic)
    return _addresses(body) if code == 0 else set()


def register(broker: str) -> None:
    """Have a broker register with its name servers now: it does when it is told what it may do, also what it knows."""
    ask(broker, UPDATE_BROKER_CONFIG, b"brokerPermission=6\n")


def ask(address: str, code: int, body: bytes = b"", /, **fields: str) -> tuple[int, bytes]:
    """One request on a connection of its own: the answer's code and body, or -1 when nobody answers."""
    header = {"code": code, "language": "PYTHON", "version": 0, "opaque": 1, "flag": 0, "extFields": fields}
    text = json.dumps(header).encode()
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body)
            with connection.makefile("rb") as stream:
                frame = stream.read(struct.unpack(">I", stream.read(4))[0])
    except (OSError, struct.error):
        return -1, b""
    body_at = 4 + int.from_bytes(frame[1:4])
    # A server answers in the encoding it was told to use, whatever it was asked in.
    is_binary = frame[0] == 1
    status = int.from_bytes(frame[4:6]) if is_binary else int(json.loads(frame[4:body_at])["code"])
    return status, frame[body_at:]


def _addresses(body: bytes) -> set[str]:
    # No JSON that a strict reader takes: the numbers that are keys of brokerAddrs stand without quotes.
    return set(re.findall(r'\d+:"([^"]+:\d+)"', body.decode()))
