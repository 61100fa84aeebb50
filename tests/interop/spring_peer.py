"""The program in `java_spring/SpringPeer.java` from Python: rocketmq-spring's template in a Spring application."""

from __future__ import annotations

import json
import select
import tempfile
from pathlib import Path
from typing import Any

from tests.interop import jars
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S

SOURCES = Path(__file__).parent / "java_spring"
FLAGS = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ActiveProcessorCount=2"),  # see `java_peer.py`
    "-Drocketmq.client.rebalance.waitInterval=1000",  # 20 s as shipped: too long for tests to wait.
)


class SpringPeer:
    """One application, one command at a time. It reads a topic of its own, and replies on another one."""

    def __init__(self, nursery: Nursery, name_server: str, *, group: str, reads: str, replies: str) -> None:
        self._nursery = nursery
        self._home = tempfile.TemporaryDirectory(prefix="interop-spring-")
        home = Path(self._home.name)
        self._errors = home / "errors.log"
        settings = {
            "rocketmq.name-server": name_server,
            "rocketmq.producer.group": f"desk-of-{group}",
            "rocketmq.producer.send-message-timeout": "60000",
            "peer.topic": reads,
            "peer.asked": replies,
            "peer.group": group,
        }
        command = jars.java(
            "SpringPeer",
            *(f"--{name}={value}" for name, value in settings.items()),
            classes=jars.compiled(SOURCES, jars.resolve_spring()),
            flags=[*FLAGS, f"-Duser.home={home}"],
        )
        self._jvm = nursery.start(command, cwd=home, output=self._errors, talks=True)

    def do(self, how: str, topic: str, text: str = "-", *more: str, timeout_s: float = 2 * PATIENCE_S) -> Any:
        """One command and what it answers; InteropError where it failed."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(" ".join((how, topic, text, *more)) + "\n")
        self._jvm.stdin.flush()
        ready = select.select([self._jvm.stdout], [], [], timeout_s)[0]
        line = self._jvm.stdout.readline() if ready else ""
        if not line:
            lines = self._errors.read_text(errors="replace").splitlines()[-30:]
            raise jars.InteropError("\n".join([f"no answer to {how!r} from Spring:", *lines]))
        answer = json.loads(line)
        if "error" in answer:
            raise jars.InteropError(f"{how}: {answer['error']}")
        return answer["answer"]

    def received(self, count: int, *, timeout_s: float = PATIENCE_S) -> list[str]:
        """What its listener was given since the last call, as soon as that is `count`; or fewer, after the time."""
        how_long = str(int(timeout_s * 1000))
        texts: list[str] = self.do("received", "-", how_long, str(count), timeout_s=timeout_s + PATIENCE_S)
        return texts

    def close(self) -> None:
        self._nursery.kill(self._jvm)
        self._home.cleanup()
