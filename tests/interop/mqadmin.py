"""mqadmin in a JVM that stays: a call takes a fraction of a second instead of five.

It knows how mqadmin says that it failed; it exits with 0 and prints the exception among its output.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer

# A class name with its package at a line's start, or a line of a stack trace. A name without a package may be a
# setting: consumerStatus prints `pullTimeDelayMillsWhenException`.
_FAILED = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b|^\s+at [\w.$/]+\(", re.MULTILINE)


class AdminError(Exception):
    """mqadmin printed an exception; the text is all it printed."""


class Admin:
    """mqadmin against one cluster."""

    def __init__(self, peer: JavaPeer, name_server: str) -> None:
        self._peer = peer
        self._name_server = name_server

    def run(self, command: str, *words: str) -> str:
        """What the command printed. `run("consumerProgress", "-g", "billing")`."""
        return self._run(command, "-n", self._name_server, *words)

    def paste(self, line: str) -> str:
        """The same, of a line as a user pastes it into a shell: `mqadmin updateTopic ...  # or something else`."""
        program, *words = shlex.split(line, comments=True)
        assert "mqadmin" == program, line
        return self._run(*words)

    def _run(self, *words: str) -> str:
        answer = self._peer.call("admin", words=list(words))
        printed: str = answer["printed"]
        if _FAILED.search(printed):
            raise AdminError(f"mqadmin {' '.join(words)}\n{printed}")
        return printed


@contextmanager
def changed(admin: Admin, cluster: Addresses, name: str, text: str, usual: str) -> Iterator[None]:
    """A setting of broker-a is another one meanwhile. It is everybody's who is there: in the group `lone_cluster`."""
    where = ("updateBrokerConfig", "-b", cluster.brokers["broker-a"], "-k", name, "-v")
    admin.run(*where, text)
    try:
        yield
    finally:
        admin.run(*where, usual)
