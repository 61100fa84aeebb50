"""Namespaces: several tenants' topics and groups in one cluster, kept apart by a prefix of their names.

RocketMQ's clients put it before each name that they send (`ns%orders`, `%RETRY%ns%billing`) and take it off what users
see. So do we, at the two ends only: inside, names are what the cluster calls them.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.model.message import Message
from framework.model.queue import MessageQueue
from framework.model.reserved import DEAD_LETTER_PREFIX, RETRY_PREFIX, SYSTEM_TOPICS

SEPARATOR = "%"
_OUTSIDE = (RETRY_PREFIX, DEAD_LETTER_PREFIX)
_SYSTEM_PREFIXES = ("rmq_sys_", "CID_RMQ_SYS_")


def wrap(namespace: str, name: str) -> str:
    """The topic or group as the cluster calls it. RocketMQ's own names belong to no namespace."""
    if not namespace or not name or _is_system(name):
        return name
    outside, rest = _split(name)
    return name if rest.startswith(namespace + SEPARATOR) else f"{outside}{namespace}{SEPARATOR}{rest}"


def unwrap(namespace: str, name: str) -> str:
    """The topic or group as its owner calls it; what is in no namespace, or in another, stays as it is."""
    if not namespace or _is_system(name):
        return name
    outside, rest = _split(name)
    return outside + rest[len(namespace) + 1 :] if rest.startswith(namespace + SEPARATOR) else name


def _is_system(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith(_SYSTEM_PREFIXES)


def _split(name: str) -> tuple[str, str]:
    for prefix in _OUTSIDE:
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def unwrapping(namespace: str) -> Callable[[Message], Message]:
    """What makes messages that show topic and queue without the namespace; all else they share with the original."""
    queues: dict[MessageQueue, MessageQueue] = {}

    def seen(message: Message) -> Message:
        queue = message.queue
        bare = queues.get(queue)
        if bare is None:
            bare = queues[queue] = queue._replace(topic=unwrap(namespace, queue.topic))
        copy = object.__new__(_Unwrapped)
        # As in wire/stored.py: a message is a place in a source.
        copy._source, copy._at = message._source, message._at  # noqa: SLF001
        copy._body, copy._properties = message._body, message._properties  # noqa: SLF001
        copy.queue_offset = message.queue_offset
        copy._original, copy._queue, copy._namespace = message, bare, namespace
        return copy

    return seen


class _Unwrapped(Message):
    """A message that calls its topic and queue what their owner does."""

    __slots__ = ("_namespace", "_original", "_queue")

    _namespace: str
    _original: Message
    _queue: MessageQueue

    @property
    def topic(self) -> str:
        return unwrap(self._namespace, self._original.topic)

    @property
    def queue(self) -> MessageQueue:
        return self._queue

    @property
    def attempt(self) -> int:
        return self._original.attempt
