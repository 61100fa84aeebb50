"""Ports for servers that tests start, where the number must be known before the server listens."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from random import SystemRandom

CHANCE = SystemRandom()
"""Tests that run beside each other draw other numbers, whatever seed they share."""


def free_port(count: int = 1) -> int:
    """The first of so many in a row that nobody has. Below those that the system itself gives to connections, so that
    none takes it before its server does."""
    while True:
        port = CHANCE.randrange(10_000, 32_000)
        with ExitStack() as held:
            try:
                for each in range(port, port + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", each))
            except OSError:
                continue
        return port
