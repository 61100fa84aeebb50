"""Acknowledgements of many popped messages in one request. Names are of one letter on the wire."""

from __future__ import annotations

from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire


class BatchAckEntry(Body):
    """Messages popped together: bit i of `bits` (little-endian bytes) is the message at `start_offset` + i."""

    group: str = wire("c")
    topic: str = wire("t")
    retry: str = wire("r")
    """"0", or "1" and "2" for the two namings of POP's retry topic."""
    start_offset: int = wire("so")
    queue_id: Int32 = wire("q")
    revive_queue_id: Int32 = wire("rq")
    pop_time: int = wire("pt")
    invisible_time: int = wire("it")
    bits: bytes = wire("b")


class BatchAck(Body):
    broker_name: str
    acks: tuple[BatchAckEntry, ...] = wire("acks", default=())
