"""Rows of the table, and the messages that they stand for. The SQL for them is in `table.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from framework.errors import shorten
from framework.mistakes import MessageMistyped, MessageWrong
from framework.model.message import SHARDING_KEY, UNIQUE_KEY, Message
from framework.model.reserved import check_topic
from framework.model.sendable import check_message
from framework_outbox.ids import id_for

ROOM = 512
"""Bytes of properties that are added when it is sent, such as its id, and by the broker."""


@dataclass(frozen=True, slots=True)
class Row:
    """One claimed row."""

    number: int
    """Its place in the order of writing."""
    message_id: str
    topic: str
    key: str | None
    """Rows of one key are sent one after the other, to one queue."""
    stored: object
    """The body as it is there: bytes, as `values_of` wrote them; text where the column is one, or where somebody else's
    SQL wrote it.
    """
    properties: Any
    """JSON; a mapping where the column is JSON itself."""
    attempts: int

    @property
    def body(self) -> bytes:
        """Text is UTF-8, as everywhere in RocketMQ. TypeError for anything else."""
        if isinstance(self.stored, str):
            return self.stored.encode()
        if isinstance(self.stored, bytes | bytearray | memoryview):
            return bytes(self.stored)
        raise TypeError(f"the body is of type {type(self.stored).__name__}; write bytes, or text")

    @property
    def message(self) -> Message:
        """ValueError or TypeError where somebody else wrote what is no message."""
        found = self.properties
        properties = found if isinstance(found, dict) else json.loads(found)
        if not isinstance(properties, dict):
            raise TypeError(f"properties are a JSON {type(properties).__name__}; write an object of texts")
        for name, value in properties.items():
            if not isinstance(value, str):
                raise TypeError(f"the property {shorten(name)} is {shorten(value)}; write a text")
        if self.key is not None:
            properties = {**properties, SHARDING_KEY: self.key}
        return Message(check_topic(self.topic), self.body, properties=properties, message_id=self.message_id)


def values_of(message: Message, key: str | None) -> tuple[str, str, str | None, bytes, str]:
    """What is written of a message: id, topic, key, body and properties. Raises ConfigurationError for what no broker
    would take, so that the mistake shows where it is made.
    """
    if not isinstance(message, Message):
        raise MessageMistyped(f"outbox: {shorten(message)}: give a Message(topic, body)")
    topic = message.topic
    if key is not None and (not isinstance(key, str) or not key):
        kind = MessageWrong if isinstance(key, str) else MessageMistyped
        raise kind(f"outbox: message to {topic}: key={shorten(key)}: write a text, or None")
    if key is None:
        key = message.order_key
    elif message.order_key not in {None, key}:
        raise MessageWrong(
            f"outbox: message to {topic}: key={shorten(key)}, but its order key is {shorten(message.order_key)}; "
            "give one of them"
        )
    keyed = {} if key is None else {SHARDING_KEY: key}
    check_message(Message(topic, message.body, properties={**message.properties, **keyed}), room=ROOM)
    properties = {name: value for name, value in message.properties.items() if name != UNIQUE_KEY}
    return id_for(message, key), topic, key, message.body, json.dumps(properties | keyed, ensure_ascii=True)
