"""Seeds out of what real brokers and Java clients wrote (`tests/golden/captures`), cut to each target's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from framework.model.queue import MessageQueue
from framework.wire import properties
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import decode
from tests.fuzz import fuzz_bodies
from tests.golden import captures
from tests.golden.captures import Entry
from tests.wire.frames import decode_frame

_ANSWERS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: "TopicRoute",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "ConsumerList",
    RequestCode.GET_BROKER_CLUSTER_INFO: "ClusterInfo",
    RequestCode.GET_CONSUME_STATS: "ConsumeStats",
    RequestCode.GET_CONSUMER_CONNECTION_LIST: "ConsumerConnections",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "RunningInfo",
    RequestCode.GET_TOPIC_STATS_INFO: "TopicStats",
}
_REQUESTS = {
    RequestCode.HEART_BEAT: "Heartbeat",
    RequestCode.LOCK_BATCH_MQ: "LockBatch",
    RequestCode.UNLOCK_BATCH_MQ: "LockBatch",
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: "ResetOffsets",
}
_NUMBERS = {kind.__name__: number for number, kind in enumerate(fuzz_bodies.BODIES)}


def seeds(name: str) -> list[bytes]:
    """What was recorded for a target, each once."""
    return list(dict.fromkeys(_CUTS[name]()))


def _recorded() -> Iterator[tuple[Entry, bytes, RemotingCommand]]:
    for name in captures.names():
        conversation = captures.load(name)
        for entry in conversation.entries:
            raw = conversation.raw(entry)
            yield entry, raw, decode_frame(raw[4:])


def _frames() -> Iterator[bytes]:
    for _, raw, _ in _recorded():
        yield b"\x05" + raw


def _headers(*, binary: bool) -> Iterator[bytes]:
    for entry, raw, command in _recorded():
        if binary == entry.binary:
            yield raw[8 : len(raw) - len(command.body)]


def _pulled() -> Iterator[bytes]:
    for entry, _, command in _recorded():
        if (entry.request, entry.kind, entry.code) == (RequestCode.PULL_MESSAGE, "answer", 0):
            yield command.body


def _records() -> Iterator[bytes]:
    for body in _pulled():
        yield b"\x01" + body


def _properties() -> Iterator[bytes]:
    for body in _pulled():
        for message in decode(body, MessageQueue("T", "b", 0)):
            yield properties.encode(message.properties).encode()


def _bodies() -> Iterator[bytes]:
    for entry, _, command in _recorded():
        kinds = _ANSWERS if entry.kind == "answer" else _REQUESTS
        kind = kinds.get(RequestCode(entry.request)) if command.body else None
        if kind is not None:
            yield bytes((_NUMBERS[kind],)) + command.body


_CUTS: dict[str, Callable[[], Iterator[bytes]]] = {
    "frame": _frames,
    "header_json": lambda: _headers(binary=False),
    "header_compact": lambda: _headers(binary=True),
    "records": _records,
    "properties": _properties,
    "bodies": _bodies,
}
