"""The JSON that Java writes as a body: its dialect read and written to the byte, its meaning by our typed bodies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.model.queue import MessageQueue
from framework.wire import dialect
from framework.wire.bodies.config import GroupConfig, TopicConfig
from framework.wire.bodies.connections import ConsumerConnections, ProducerConnections
from framework.wire.bodies.group import (
    AssignmentQuery,
    Assignments,
    ConsumerList,
    LockBatch,
    LockedQueues,
    RequestMode,
)
from framework.wire.bodies.heartbeat import CheckClientConfig, Heartbeat
from framework.wire.bodies.progress import ConsumeStats, ResetOffsets, TopicStats
from framework.wire.bodies.route import ClusterInfo, TopicRoute
from framework.wire.bodies.running import RunningInfo
from framework.wire.bodies.shape import Body
from tests.golden import captures
from tests.wire.frames import decode_frame

ALL = {name: captures.load(name) for name in captures.names()}

KINDS: dict[tuple[int, str], type[Body]] = {
    (34, "request"): Heartbeat,
    (38, "answer"): ConsumerList,
    (41, "answer"): LockedQueues,
    (41, "request"): LockBatch,
    (42, "request"): LockBatch,
    (46, "request"): CheckClientConfig,
    (105, "answer"): TopicRoute,
    (106, "answer"): ClusterInfo,
    (202, "answer"): TopicStats,
    (203, "answer"): ConsumerConnections,
    (204, "answer"): ProducerConnections,
    (208, "answer"): ConsumeStats,
    (222, "answer"): ResetOffsets,
    (307, "answer"): RunningInfo,
    (351, "answer"): TopicConfig,
}
OF_POPS: dict[tuple[int, str], type[Body]] = {
    (200, "request"): GroupConfig,
    (400, "request"): AssignmentQuery,
    (400, "answer"): Assignments,
    (401, "request"): RequestMode,
}


def json_bodies(name: str) -> Iterator[tuple[type[Body], bytes]]:
    for entry in ALL[name].entries:
        body = decode_frame(ALL[name].raw(entry)[4:]).body
        if body[:1] == b"{":
            yield (KINDS | OF_POPS)[entry.request, entry.kind], body


def is_quoted(body: bytes) -> bool:
    return b'{0:"' not in body


@pytest.mark.parametrize("name", ALL)
def test_the_dialect_is_written_as_it_was_read(name: str) -> None:
    """Integers as keys, with and without quotes, and whole objects as keys."""
    for _, body in json_bodies(name):
        assert body == dialect.dumps(dialect.loads(body), quote_integer_keys=is_quoted(body))


@pytest.mark.parametrize("name", ALL)
def test_typed_bodies_say_what_java_said(name: str) -> None:
    """All of it: a field that we do not know would be missing from what we write."""
    for kind, body in json_bodies(name):
        written = kind.decode(body).encode(quote_integer_keys=is_quoted(body))
        assert dialect.loads(body) == dialect.loads(written), kind


def test_every_kind_was_captured() -> None:
    for name in ("json", "binary"):
        assert set(KINDS.values()) == {kind for kind, _ in json_bodies(name)}
    assert set(OF_POPS.values()) <= {kind for kind, _ in json_bodies("pop")}


def test_both_flavours_of_a_route_mean_the_same() -> None:
    old, new = [decode_frame(raw[4:]).body for raw in ALL["route"].find(105, "answer", code=0)]

    assert b'{0:"127.0.0.2:' in old
    assert b'{"0":"127.0.0.2:' in new
    assert TopicRoute.decode(old) == TopicRoute.decode(new)


def test_a_groups_progress_names_its_queues() -> None:
    (body,) = [decode_frame(raw[4:]).body for raw in ALL["json"].find(208, "answer")]

    queues = ConsumeStats.decode(body).offsets
    assert {MessageQueue("golden", "broker-a", 0), MessageQueue("golden", "broker-a", 1)} <= set(queues)
