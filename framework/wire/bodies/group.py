"""Members of a group, queue locks, and division by the broker."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model.queue import MessageQueue
from framework.wire.bodies.enums import MessageModel, RequestModeName
from framework.wire.bodies.shape import Body
from framework.wire.fields import Int32, wire


class ConsumerList(Body):
    """The client ids of a group's members: one a connection, not one a client."""

    consumer_ids: tuple[str, ...] = wire("consumerIdList", default=())


class LockBatch(Body):
    """Queues to be locked or unlocked for one client of a group; for both requests."""

    group: str = wire("consumerGroup")
    client_id: str
    queues: tuple[MessageQueue, ...] = wire("mqSet", default=())
    only_this_broker: bool = False


class LockedQueues(Body):
    """Those of the queues asked for that the client holds now."""

    queues: tuple[MessageQueue, ...] = wire("lockOKMQSet", default=())


class AssignmentQuery(Body):
    topic: str
    group: str = wire("consumerGroup")
    client_id: str
    strategy: str = wire("strategyName")
    message_model: MessageModel = "CLUSTERING"


class QueueAssignment(Body):
    queue: MessageQueue | None = wire("messageQueue", default=None)
    mode: RequestModeName = "PULL"
    attachments: Mapping[str, str] | None = None


class Assignments(Body):
    """None instead of a list: skip this round."""

    assignments: tuple[QueueAssignment, ...] | None = wire("messageQueueAssignments", default=None)


class RequestMode(Body):
    """Whether a group pulls or pops a topic."""

    topic: str
    group: str = wire("consumerGroup")
    mode: RequestModeName | None = None
    pop_share_queues: Int32 = wire("popShareQueueNum", default=0)
