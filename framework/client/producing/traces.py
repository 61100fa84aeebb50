"""SendTrace: tells the trace topic of each message that a broker has stored, as RocketMQ's own producers do.

Of a batch each message has a record of its own; Java's one record names them all, so that none is found by its id.
"""

from __future__ import annotations

from framework.client.outgoing import Outgoing, SendResult
from framework.client.tracing import Tracer
from framework.model.message import DELAY_LEVEL, KEYS, TAGS
from framework.model.namespaces import unwrap
from framework.ports import World
from framework.wire import trace
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields
from framework.wire.properties import decode
from framework.wire.requests.send import SendAnswer


class SendTrace:
    """One a traced producer."""

    def __init__(self, group: str, topic: str, world: World, namespace: str = "") -> None:
        self._group, self._clock, self._namespace = unwrap(namespace, group), world.clock, namespace
        self.tracer = Tracer(topic, world.workers.call_soon)

    def stored(
        self, outgoing: Outgoing, results: list[SendResult], address: str, answer: RemotingCommand, began_ms: int
    ) -> None:
        """A broker has stored these; nothing is told where it wrote no region, or turned traces off."""
        header = from_fields(SendAnswer, answer.fields)
        if header.region is None or header.trace_on == "false":
            return
        cost_ms = max(self._clock.now_ms() - began_ms, 0) // len(results)
        kind = trace.DELAYED if DELAY_LEVEL in decode(outgoing.properties) else trace.NORMAL
        topic = unwrap(self._namespace, outgoing.topic)
        for message, result in zip(outgoing.messages, results, strict=True):
            tags, keys = message.properties.get(TAGS), message.properties.get(KEYS)
            record = trace.published(
                began_ms, header.region, self._group, topic, result.message_id, tags, keys, address,
                len(message.body), cost_ms, kind, result.offset_message_id, success=result.code == 0,
            )  # fmt: skip
            self.tracer.put(record, result.message_id, keys)
