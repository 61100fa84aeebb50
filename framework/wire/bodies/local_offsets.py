"""The file in which a Java client keeps the offsets of a broadcasting group: never on the wire, but in its dialect."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model.queue import MessageQueue
from framework.wire.bodies.shape import Body
from framework.wire.fields import wire


class JavaOffsets(Body):
    """`.rocketmq_offsets/<client id>/<group>/offsets.json`; each offset is the next one to handle."""

    offsets: Mapping[MessageQueue, int] = wire("offsetTable")
