"""Message: what a handler gets and a producer sends.

A pulled message is a place in its pull's bytes. Body and properties are cut out when first read, so a message that
nobody looks into costs one small object. `wire/stored.py` makes pulled messages; users and tests call `Message(...)`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from framework.errors import shorten
from framework.mistakes import MessageMistyped, MessageWrong
from framework.model.queue import MessageQueue
from framework.model.subscription import BLANKS

# Property names that RocketMQ itself reads; a producer's own properties may not use them.
TAGS = "TAGS"
KEYS = "KEYS"
UNIQUE_KEY = "UNIQ_KEY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
DELAY_LEVEL = "DELAY"
WAIT_STORE = "WAIT"
SHARDING_KEY = "__SHARDINGKEY"
KEY_SEPARATOR = " "


def checked_order_key(key: object) -> str:
    """The key, or a ConfigurationError: numbers are refused, since Java hashes an Integer otherwise than a text."""
    if not isinstance(key, str) or not key:
        kind = MessageWrong if isinstance(key, str) else MessageMistyped
        raise kind(f"order_key {shorten(key)}: must be a text that is not empty; leave it out for no order")
    return key


def checked_queue(queue: object) -> MessageQueue:
    """The queue, or a ConfigurationError: a number alone names none, since each broker counts its own from 0."""
    if not isinstance(queue, MessageQueue):
        raise MessageMistyped(
            f"queue={shorten(queue)}: give a MessageQueue, such as the one of a SendResult, of Producer.queue_of(), or "
            'MessageQueue("orders", "broker-a", 2)'
        )
    if not isinstance(queue.number, int) or isinstance(queue.number, bool) or queue.number < 0:
        raise MessageWrong(f"queue={shorten(queue)}: its number is 0 or more, as each broker counts its own")
    return queue


def body_of(value: object) -> bytes:
    """The body of a message, of what a handler publishes or of a reply. Bytes and text are as they are; a dict, list,
    model, dataclass or struct becomes JSON. TypeError for anything else: `bytes(5)` would be five zeros.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    msgspec: Any = sys.modules.get("msgspec")
    if msgspec is not None and isinstance(value, msgspec.Struct):
        encoded: bytes = msgspec.json.encode(value)
        return encoded
    name = type(value).__name__
    is_data = dataclasses.is_dataclass(value) or hasattr(value, "__pydantic_serializer__")
    if isinstance(value, type) or not (is_data or isinstance(value, Mapping | list | tuple)):
        what = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {name}"
        raise TypeError(
            f"{what} cannot be a body; give bytes, text, a dict, list, model or dataclass, or what json.dumps(...) "
            "makes of it"
        )
    from pydantic_core import to_json

    try:
        return to_json(dict(value) if isinstance(value, Mapping) else value)
    except ValueError as error:  # pydantic's own are among them
        raise TypeError(
            f"a value of type {name} cannot be a body: {error}; make text of it with json.dumps(...)"
        ) from None


class RecordSource(Protocol):
    """The bytes behind pulled messages, opened on demand. `at` is where a message's record begins."""

    queue: MessageQueue
    unsurrounded: int
    """So many more messages here have nothing around their handlers, by the answers of plugins (`NothingFor`)."""

    def topic(self, at: int) -> str: ...
    def body(self, at: int) -> bytes: ...
    def properties(self, at: int) -> dict[str, str]: ...
    def lacks(self, name: str) -> bool:
        """Whether no message here has a property of this name, where that is known without reading them."""
        ...

    def reconsume_times(self, at: int) -> int: ...
    def born_ms(self, at: int) -> int: ...
    def stored_ms(self, at: int) -> int: ...
    def flag(self, at: int) -> int: ...
    def commit_log_offset(self, at: int) -> int: ...
    def offset_message_id(self, at: int) -> str: ...


class Written:
    """The source behind a message that was made here, not pulled: its values."""

    __slots__ = ("_body", "_born_ms", "_offset_id", "_properties", "_reconsumed", "_stored_ms", "_topic", "queue",
                 "unsurrounded")  # fmt: skip

    def __init__(
        self, topic: str, body: bytes, properties: dict[str, str], queue: MessageQueue, reconsumed: int, born_ms: int,
        stored_ms: int, offset_id: str,
    ) -> None:  # fmt: skip
        self.queue, self.unsurrounded = queue, 0
        self._topic, self._body, self._properties = topic, body, properties
        self._reconsumed, self._born_ms, self._stored_ms, self._offset_id = reconsumed, born_ms, stored_ms, offset_id

    def topic(self, at: int) -> str:
        return self._topic

    def body(self, at: int) -> bytes:
        return self._body

    def properties(self, at: int) -> dict[str, str]:
        return self._properties

    def lacks(self, name: str) -> bool:
        return False

    def reconsume_times(self, at: int) -> int:
        return self._reconsumed

    def born_ms(self, at: int) -> int:
        return self._born_ms

    def stored_ms(self, at: int) -> int:
        return self._stored_ms

    def flag(self, at: int) -> int:
        return 0

    def commit_log_offset(self, at: int) -> int:
        return 0

    def offset_message_id(self, at: int) -> str:
        return self._offset_id


class Message:
    """One message. It never changes; its parts are read when first used, and cached."""

    # `_body` and `_properties` are None until first read. An unset slot would save a store a message and cost 0.6 us at
    # each first reading, for the AttributeError that tells.
    __slots__ = ("_at", "_body", "_properties", "_source", "queue_offset")

    _source: RecordSource
    _at: int
    _body: bytes | None
    _properties: Mapping[str, str] | None
    queue_offset: int

    def __init__(
        self,
        topic: str,
        body: object = b"",
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        queue_offset: int = 0,
        attempt: int = 1,
        born_ms: int = 0,
        stored_ms: int = 0,
        message_id: str = "",
        offset_message_id: str = "",
    ) -> None:
        """A body is bytes, text, or what becomes JSON: a dict, list, pydantic model, dataclass or struct."""
        if not isinstance(topic, str):
            raise MessageMistyped(f"message to {shorten(topic)}: a topic is a text")
        texts = {} if properties is None else _properties(topic, properties)
        if tags is not None and _text(topic, "tags", tags, "a text; several tags go to several messages"):
            if "||" in tags or tags != tags.strip(BLANKS):
                raise MessageWrong(
                    f"message to {topic}: tags={shorten(tags)}: no subscription could name this tag; write one without "
                    "|| and without blanks around it"
                )
            texts[TAGS] = tags
        if keys != ():  # as nearly always
            joined = keys if isinstance(keys, str) else _joined(topic, keys)
            if joined:
                texts[KEYS] = joined
        if order_key is not None:
            given = texts.setdefault(SHARDING_KEY, checked_order_key(order_key))
            if given != order_key:
                raise MessageWrong(
                    f"message to {topic}: order_key={shorten(order_key)}, but property {SHARDING_KEY} is "
                    f"{shorten(given)}; give one of them"
                )
        if message_id != "" and _text(topic, "message_id", message_id, "a text"):
            texts[UNIQUE_KEY] = message_id
        if offset_message_id != "":
            _text(topic, "offset_message_id", offset_message_id, "a text")
        # What a producer makes has no place yet: this is all that it pays for these four.
        if not type(queue_offset) is type(attempt) is type(born_ms) is type(stored_ms) is int:
            _numbers(topic, queue_offset=queue_offset, attempt=attempt, born_ms=born_ms, stored_ms=stored_ms)
        content = body if isinstance(body, bytes) else _content(topic, body)
        place = MessageQueue(topic, "", 0) if queue is None else checked_queue(queue)
        self._source = Written(topic, content, texts, place, attempt - 1, born_ms, stored_ms, offset_message_id)
        self._at = 0
        self._body = self._properties = None
        self.queue_offset = queue_offset

    @property
    def body(self) -> bytes:
        """The body, decompressed. Raises BodyUndecodable, or BodyUnavailable if a codec is missing."""
        body = self._body
        if body is None:
            body = self._body = self._source.body(self._at)
        return body

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, including RocketMQ's own. Do not change the mapping."""
        properties = self._properties
        if properties is None:
            properties = self._properties = self._source.properties(self._at)
        return properties

    def get_property(self, name: str) -> str | None:
        """One property, or None. Where no message of the pull has it, none is read: for what a plugin asks of each."""
        if self._properties is None and self._source.lacks(name):
            return None
        return self.properties.get(name)

    def none_has(self, name: str) -> bool:
        """Whether no message of the pull has this property, where that is known without reading any."""
        return self._source.lacks(name)

    @property
    def topic(self) -> str:
        """The topic that the message was sent to, also for a retried message (not the group's retry topic)."""
        return self._source.topic(self._at)

    @property
    def tags(self) -> str | None:
        """The sender's tag, by which consumers filter; None without one."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        """The sender's keys, by which the message can be searched."""
        return self.properties.get(KEYS, "").split()

    @property
    def order_key(self) -> str | None:
        """Messages of one key are stored in one queue, in order; None without one (RocketMQ: the sharding key)."""
        return self.properties.get(SHARDING_KEY)

    @property
    def message_id(self) -> str:
        """The unique key that the producer chose; the same in all retries. Without one, the `offset_message_id`."""
        return self.properties.get(UNIQUE_KEY) or self._source.offset_message_id(self._at)

    @property
    def offset_message_id(self) -> str:
        """Broker address and place in its log, for `mqadmin queryMsgById`; each retry has a new one."""
        return self._source.offset_message_id(self._at)

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was pulled from; for a retry, a queue of the group's retry topic."""
        return self._source.queue

    @property
    def attempt(self) -> int:
        """1 on first delivery."""
        return self._source.reconsume_times(self._at) + 1

    @property
    def born_ms(self) -> int:
        """When the producer made it, by the producer's clock."""
        return self._source.born_ms(self._at)

    @property
    def stored_ms(self) -> int:
        """When the broker stored it, by the broker's clock."""
        return self._source.stored_ms(self._at)

    @property
    def flag(self) -> int:
        """32 bits for the sender's use, which RocketMQ passes on."""
        return self._source.flag(self._at)

    @property
    def commit_log_offset(self) -> int:
        """Its place in the broker's log."""
        return self._source.commit_log_offset(self._at)

    def __repr__(self) -> str:
        return f"<Message {self.queue} offset={self.queue_offset} attempt={self.attempt}>"


def _content(topic: str, body: object) -> bytes:
    try:
        return body_of(body)
    except UnicodeEncodeError as error:
        raise MessageWrong(f"message to {topic}: the body is a text that UTF-8 cannot hold: {error}") from None
    except TypeError as error:
        raise MessageMistyped(f"message to {topic}: {error}") from None


def _text(topic: str, name: str, value: object, wish: str) -> bool:
    """Whether there is one; MessageMistyped where it is none."""
    if not isinstance(value, str):
        raise MessageMistyped(f"message to {topic}: {name}={shorten(value)}: write {wish}")
    return value != ""


def _properties(topic: str, given: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise MessageMistyped(f"message to {topic}: properties={shorten(given)}: write a dict of texts")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise MessageMistyped(
                f"message to {topic}: property {shorten(name)}={shorten(value)}: name and value must be texts"
            )
    return dict(given)


def _joined(topic: str, keys: object) -> str:
    if isinstance(keys, Iterable) and not isinstance(keys, bytes | bytearray):
        texts = list(keys)
        if all(isinstance(each, str) for each in texts):
            return KEY_SEPARATOR.join(texts)
        keys = texts
    raise MessageMistyped(f"message to {topic}: keys={shorten(keys)}: write a text, or a list of texts")


def _numbers(topic: str, **given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise MessageMistyped(f"message to {topic}: {name}={shorten(value)}: write a whole number")


class _Repeated(Message):
    """A message that is tried again where it is: all as it was pulled, but for the attempts, which this process has
    counted. Orderly and broadcasting queues do so; any other retry is a copy on the broker.
    """

    __slots__ = ("_attempt",)

    _attempt: int

    @property
    def attempt(self) -> int:
        return self._attempt


def repeated(message: Message, attempt: int) -> Message:
    """The message as its `attempt`th try sees it; `message` is the one that was pulled, or an earlier try of it."""
    again = object.__new__(_Repeated)
    again._source, again._at = message._source, message._at  # noqa: SLF001 - how pulled messages are made, too
    again._body = again._properties = None
    again.queue_offset, again._attempt = message.queue_offset, attempt
    return again
