"""Pulls: the request, its answer's header, and a template for the one request that is sent all the time."""

from __future__ import annotations

from collections.abc import Mapping

from framework.model.queue import MessageQueue
from framework.model.subscription import BY_TAG, EVERYTHING
from framework.wire.bodies.route import MASTER
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import Header, Int32, command_for, from_fields, wire
from framework.wire.frame import Template
from framework.wire.requests.offset import GroupQueueRequest

# Bits of sysFlag.
COMMIT_OFFSET = 1
SUSPEND = 2
SUBSCRIPTION = 4
CLASS_FILTER = 8
LITE_PULL = 16


class PullRequest(GroupQueueRequest, code=RequestCode.PULL_MESSAGE):
    """Messages of one queue. Also the header of LITE_PULL_MESSAGE (361)."""

    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None
    broker_name: str | None = wire("bname", default=None)


def pull_of(
    group: str, queue: MessageQueue, offset: int, count: int, sys_flag: int, expression: str | None = EVERYTHING,
    kind: str = BY_TAG, *, version: int = 0, wait_ms: int = 0, bytes_max: int | None = None,
) -> PullRequest:  # fmt: skip
    """A pull that stores no offset; without `wait_ms` it is answered at once."""
    return PullRequest(
        consumer_group=group, topic=queue.topic, queue_id=queue.number, queue_offset=offset, max_msg_nums=count,
        sys_flag=sys_flag, commit_offset=0, suspend_timeout_millis=wait_ms, sub_version=version,
        subscription=expression, expression_type=kind, max_msg_bytes=bytes_max, broker_name=queue.broker,
    )  # fmt: skip


class PullAnswer(Header):
    """Carried by every answer that found the queue: 0, 19, 20 and 21."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    """To be added to the records' queue offsets (static topics)."""
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


def read_progress(fields: Mapping[str, str]) -> tuple[int, int, int, int]:
    """next, min and max offset and the offset delta of a PullAnswer; the way that is taken once a pull.

    Whatever is odd goes the ordinary way, which names the field.
    """
    try:
        following, low, high = int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"])
        delta = int(fields.get("offsetDelta", "0"))
    except (KeyError, ValueError):
        pass
    else:
        most, least = _INT64_MAX, -_INT64_MAX
        if least <= following <= most and least <= low <= most and least <= high <= most and least <= delta <= most:
            return following, low, high, delta
    answer = from_fields(PullAnswer, fields)
    return answer.next_begin_offset, answer.min_offset, answer.max_offset, answer.offset_delta or 0


def suggested_replica(fields: Mapping[str, str]) -> int:
    """Which replica the answer of a pull suggests for the next one; the master where it names none."""
    text = fields.get("suggestWhichBrokerId", "0")
    return int(text) if text != "0" and text.isdecimal() and len(text) < 10 else MASTER


_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF


class PullTemplate:
    """The pulls of one queue, put together but for number, offset and commit offset, which alone differ.

    `command` is the same request by the ordinary way, for a connection that signs or writes binary headers.
    """

    __slots__ = ("_plain", "_template", "sys_flag")

    def __init__(self, request: PullRequest) -> None:
        self.sys_flag = request.sys_flag & ~COMMIT_OFFSET
        self._plain = command_for(request)
        self._template = Template(self._plain, ("queueOffset", "sysFlag", "commitOffset"))

    def frame(self, number: int, offset: int, commit_offset: int | None) -> bytes:
        """The whole frame; without a commit offset the broker is not asked to store one."""
        if commit_offset is None:
            return self._template.frame(number, offset, self.sys_flag, 0)
        return self._template.frame(number, offset, self.sys_flag | COMMIT_OFFSET, commit_offset)

    def command(self, offset: int, commit_offset: int | None) -> RemotingCommand:
        """The same request as a command of its own."""
        flags, commit = (self.sys_flag, 0) if commit_offset is None else (self.sys_flag | COMMIT_OFFSET, commit_offset)
        fields = dict(self._plain.fields)
        fields.update(queueOffset=str(offset), commitOffset=str(commit), sysFlag=str(flags))
        return RemotingCommand(self._plain.code, fields)
