"""ConsumeTrace: sends a trace of each handler's begin and end to the trace topic, as RocketMQ's own consumers do.

It is put around a handler as hooks are, if the group's settings ask for it; otherwise it costs nothing. It keeps only
texts of a message: the message itself would hold the bytes of its whole pull.
"""

from __future__ import annotations

from functools import partial

from framework.client.cluster import Cluster
from framework.client.producer import Producer
from framework.client.tracing import SEND_TIMEOUT, Tracer, producer_group
from framework.errors import FrameworkError
from framework.model.delivery import Delivery
from framework.model.message import KEYS, Message
from framework.model.outcome import DeadLetter, Drop, Kind, Outcome, RetryLater, Rollback, Suspend
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.services.supervise import supervise
from framework.wire import trace

REGION = "MSG_REGION"
SWITCH = "TRACE_ON"
# ConsumeReturnType's ordinals
CODES: dict[Kind, int] = {"success": 0, "timed_out": 1, "exception": 2, "nothing": 3, "failed": 4}
_FAILURES = (RetryLater, DeadLetter, Suspend, Rollback)


class ConsumeTrace:
    """One a traced group."""

    def __init__(self, group: str, topic: str, world: World) -> None:
        self.group, self.tracer, self._clock = group, Tracer(topic, world.workers.call_soon), world.clock
        self._prefix = world.chance.token(6).hex().upper()

    def start(self, cluster: Cluster, tree: TaskTree) -> None:
        """Begin to send what the group's handlers tell."""
        group = producer_group(self.group, "CONSUME-1")
        # As the Java client's: what is told of all tenants stands in one topic.
        producer = Producer(cluster=cluster, group=group, timeout=SEND_TIMEOUT, namespace="", hooks=False)
        run = partial(self.tracer.run, producer.send)
        supervise(tree, f"trace {self.group}", run, cluster.world.chance)

    def before(self, delivery: Delivery) -> Drop | RetryLater | None:
        """A handler is about to begin; tracing never stops it."""
        message = delivery.message
        region = _traced(message)
        if region is not None:
            keys, message_id, at_ms = message.properties.get(KEYS), message.message_id, self._clock.now_ms()
            record = trace.before(
                at_ms, region, self.group, self._request(delivery), message_id, message.attempt - 1, keys
            )
            self.tracer.put(record, message_id, keys)
        return None

    def after(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
        """It has ended. Messages of a batch each show how long the whole batch took."""
        message = delivery.message
        if _traced(message) is None:
            return
        keys, message_id = message.properties.get(KEYS), message.message_id
        record = trace.after(
            self._request(delivery), message_id, int(elapsed_ms), keys, CODES[kind], self._clock.now_ms(), self.group,
            success=not isinstance(outcome, _FAILURES),
        )  # fmt: skip
        self.tracer.put(record, message_id, keys)

    def _request(self, delivery: Delivery) -> str:
        """The same for the two records of one delivery, and for no other."""
        return f"{self._prefix}{delivery.message.commit_log_offset:X}-{int(delivery.started * 1_000_000):X}"


def _traced(message: Message) -> str | None:
    """The region that the broker wrote; None where the message is not to be traced, or cannot be read."""
    try:
        properties = message.properties
    except FrameworkError:
        return None  # its handling will show why
    return None if properties.get(SWITCH) == "false" else properties.get(REGION)
