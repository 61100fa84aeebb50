"""The program in `java/Peer.java` from Python: RocketMQ's own producer, push consumer and admin tool in one JVM.

It owns the JVM and the words spoken with it. What a test sends or expects is not known here.
"""

from __future__ import annotations

import base64
import json
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop import jars
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S

STACKS_S = 20
FLAGS = (
    *("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    # With one processor RocketMQ's client has one thread for what it is asked and for answers alike: a member that is
    # asked for its running info asks its broker, waits on that thread for the answer, and hangs until its time is over.
    "-XX:ActiveProcessorCount=2",
    "-Drocketmq.client.rebalance.waitInterval=1000",  # 20 s as shipped: too long for tests to wait.
)


class User(NamedTuple):
    """Whom a client says to be."""

    name: str
    password: str


class PeerError(Exception):
    """The Java side refused a command, or its JVM ended; the text is Java's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message as a producer is told to send it."""

    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    level: int | None = None
    delay_ms: int | None = None
    deliver_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        given = {
            "tags": self.tags, "keys": self.keys, "level": self.level, "delay_ms": self.delay_ms,
            "deliver_ms": self.deliver_ms, "properties": dict(self.properties),
        }  # fmt: skip
        text = base64.b64encode(self.body).decode()
        return {"body": text, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What the Java producer answered."""

    status: str
    message_id: str
    offset_message_id: str | None
    broker: str
    queue: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message as the Java consumer's listener was given it."""

    topic: str
    body: bytes
    message_id: str
    broker: str
    queue: int
    offset: int
    at_ms: int
    """When the listener was called."""
    reconsumed: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Share:
    """What a Java member owns of a topic, by the queues' numbers."""

    client_id: str
    owned: list[int]
    shares: Mapping[str, list[int]]
    """Of each member that a broker lists, as the Java member's strategy divides."""


class JavaPeer:
    """One JVM, one command at a time; its consumers work on between commands."""

    def __init__(self, nursery: Nursery, *, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are Java's -D: the header encoding is chosen by one, once for the life of a JVM."""
        self._nursery = nursery
        self._home = tempfile.TemporaryDirectory(prefix="interop-java-")
        home = self.home = Path(self._home.name)
        """What its JVM takes for the user's home."""
        self._errors = home / "errors.log"
        flags = [*FLAGS, f"-Duser.home={home}", *(f"-D{name}={value}" for name, value in (properties or {}).items())]
        command = jars.java("Peer", classes=jars.compiled(), flags=flags)
        environment = {"ROCKETMQ_HOME": str(home)}
        self._jvm: subprocess.Popen[str] = nursery.start(
            command, cwd=home, output=self._errors, environment=environment, talks=True
        )

    def call(self, do: str, *, timeout_s: float = 2 * PATIENCE_S, **words: Any) -> dict[str, Any]:
        """One command and its answer. A JVM that is late is killed: nothing that it says later could be placed."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        try:
            self._jvm.stdin.write(json.dumps({"do": do, **words}) + "\n")
            self._jvm.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"the JVM ended before {do!r}:\n{self._last_words()}") from None
        if not select.select([self._jvm.stdout], [], [], timeout_s)[0]:
            threads = self._threads()
            self._nursery.kill(self._jvm)
            raise PeerError(f"no answer to {do!r} within {timeout_s:g} s:\n{self._last_words()}\n{threads}")
        line = self._jvm.stdout.readline()
        if not line:
            raise PeerError(f"the JVM ended during {do!r}:\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise PeerError(answer["error"])
        return answer

    def send(
        self,
        name_server: str,
        topic: str,
        messages: Sequence[Outgoing],
        *,
        how: str = "one",
        compress: str | None = None,
        over: int | None = None,
        queue: tuple[str, int] | None = None,
        namespace: str | None = None,
        user: User | None = None,
        vip: bool = False,
        traced: bool = False,
    ) -> list[Sent]:
        """By DefaultMQProducer: `one`, `async`, `ordered` by keys, `one-way` (no answer) or `batch` (one for all).

        With `vip` over the broker's other port, two lower. With `traced` it writes a trace of each.
        """
        place = None if queue is None else {"broker": queue[0], "number": queue[1]}
        answer = self.call(
            "send",
            names=name_server,
            topic=topic,
            how=how,
            compress=compress,
            over=over,
            queue=place,
            namespace=namespace,
            user=None if user is None else user._asdict(),
            vip=vip,
            traced=traced,
            messages=[message.to_json() for message in messages],
        )
        return [Sent(**result) for result in answer["results"]]

    def fill(
        self,
        name_server: str,
        topic: str,
        count: int,
        *,
        body_bytes: int = 100,
        batch: int = 100,
        template: str | None = None,
    ) -> None:
        """Send `count` numbered messages, m0 and on, as quickly as batches allow; keys are their numbers too.

        With a `template` that is the body, with the number for each @ in it.
        """
        words = {} if template is None else {"template": template}
        self.call(
            "fill", names=name_server, topic=topic, count=count, bytes=body_bytes, batch=batch, timeout_s=600, **words
        )

    def consume(
        self,
        name_server: str,
        group: str,
        topic: str,
        *,
        tags: str = "*",
        sql: str | None = None,
        orderly: bool = False,
        broadcast: bool = False,
        strategy: str | None = None,
        queues: Sequence[int] = (),
        failures: int = 0,
        namespace: str | None = None,
        user: User | None = None,
        divided_by_broker: bool = False,
        as_shipped: bool = False,
        vip: bool = False,
        traced: bool = False,
    ) -> Member:
        """Start a DefaultMQPushConsumer from the first offset; it fails each message's first `failures` attempts.

        `as_shipped`, it begins where Java's default says: at the last offset.
        `queues` are what the strategy `by_config` lists for it, on broker-a.
        """
        words: dict[str, Any] = {"tags": tags} if sql is None else {"sql": sql}
        words |= {"names": name_server, "group": group, "topic": topic, "orderly": orderly, "failures": failures}
        words |= {"divided_by_broker": divided_by_broker, "as_shipped": as_shipped, "vip": vip, "traced": traced}
        words |= {"broadcast": broadcast, "namespace": namespace, "user": None if user is None else user._asdict()}
        if strategy is not None:
            words |= {"strategy": strategy, "queues": list(queues)}
        answer = self.call("consume", **words)
        return Member(self, answer["member"])

    def pop(self, name_server: str, group: str, topic: str, *, broker: str, count: int, invisible_ms: int) -> int:
        """Pop and never acknowledge: after the time the messages stand in `%RETRY%group_topic`. Answers how many."""
        place: dict[str, Any] = {"names": name_server, "group": group, "topic": topic, "broker": broker}
        popped: int = self.call("pop", count=count, invisible_ms=invisible_ms, **place)["count"]
        return popped

    def pull(self, name_server: str, group: str, topic: str, *, user: User) -> str:
        """One pull from a queue's beginning, as this user; its status."""
        words: dict[str, Any] = {"names": name_server, "group": group, "topic": topic, "user": user._asdict()}
        status: str = self.call("pull", broker="broker-a", queue=0, **words)["status"]
        return status

    def lite(
        self,
        name_server: str,
        group: str,
        topic: str,
        *,
        count: int,
        tags: str = "*",
        timeout_s: float = PATIENCE_S,
        user: User | None = None,
    ) -> list[bytes]:
        """Join by DefaultLitePullConsumer, poll so many messages or until the time is over, commit and leave."""
        words: dict[str, Any] = {"names": name_server, "group": group, "topic": topic, "tags": tags, "count": count}
        words |= {"user": None if user is None else user._asdict()}
        answer = self.call("lite", timeout_ms=int(timeout_s * 1000), timeout_s=timeout_s + PATIENCE_S, **words)
        return [base64.b64decode(body) for body in answer["bodies"]]

    def offsets(self, name_server: str, topic: str, *, broker: str, queue: int, time_ms: int) -> dict[str, int]:
        """A queue's first offset `min`, next offset `max`, and the offset `at_time`."""
        place: dict[str, Any] = {"names": name_server, "topic": topic, "broker": broker}
        answer = self.call("offsets", queue=queue, time_ms=time_ms, **place)
        return {name: answer[name] for name in ("min", "max", "at_time")}

    def close(self) -> None:
        self._nursery.kill(self._jvm)
        self._home.cleanup()

    def _threads(self) -> str:
        """What the JVM is at, for whoever wants to know why it says nothing."""
        tool = shutil.which("jstack")
        if tool is None:
            return "no jstack here, so nobody knows what it is at"
        try:
            ended = subprocess.run(
                [tool, str(self._jvm.pid)], capture_output=True, text=True, timeout=STACKS_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"it does not even say within {STACKS_S:g} s what its threads are at"
        return ended.stdout or ended.stderr

    def _last_words(self) -> str:
        return "\n".join(self._errors.read_text(errors="replace").splitlines()[-30:])


class Member:
    """One push consumer inside the peer's JVM."""

    def __init__(self, peer: JavaPeer, number: int) -> None:
        self._peer = peer
        self._number = number

    def received(self, count: int, *, timeout_s: float = PATIENCE_S) -> list[Incoming]:
        """What its listener was given since the last call, as soon as that is `count`; or fewer, after the time."""
        timeout_ms = int(timeout_s * 1000)
        answer = self._peer.call(
            "received", member=self._number, count=count, timeout_ms=timeout_ms, timeout_s=timeout_s + PATIENCE_S
        )
        return [Incoming(**{**each, "body": base64.b64decode(each["body"])}) for each in answer["messages"]]

    def share(self, topic: str) -> Share:
        answer = self._peer.call("share", member=self._number, topic=topic)
        return Share(answer["client"], answer["owned"], answer["shares"])

    def queues(self, topic: str) -> list[int]:
        """The queues of a topic that its routes show it."""
        found: list[int] = self._peer.call("queues", member=self._number, topic=topic)["queues"]
        return found

    def leave(self) -> None:
        self._peer.call("leave", member=self._number)
