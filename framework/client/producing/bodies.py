"""What a codec makes of what is sent; without one, a message makes its body itself (`model/message.py`)."""

from __future__ import annotations

from collections.abc import Callable

from framework.errors import FrameworkError
from framework.mistakes import MessageMistyped
from framework.model.contracts import Encodes


class Bodies:
    """One a producer. A codec's encoder is asked for once per topic."""

    def __init__(self, codec: Encodes | None) -> None:
        self._codec = codec
        self._encoders: dict[str, Callable[[object], bytes]] = {}

    def of(self, topic: str, value: object) -> object:
        """What the message gets; ConfigurationError for what the codec makes nothing of."""
        if self._codec is None:
            return value
        encoder = self._encoders.get(topic)
        if encoder is None:
            encoder = self._encoders[topic] = self._codec.encoder(topic)
        return coded(topic, value, encoder)


def coded(topic: str, value: object, encode: Callable[[object], bytes]) -> bytes:
    """Bytes as they are, and what the codec makes of anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        body = encode(value)
    except FrameworkError:
        raise
    except Exception as error:  # border: the codec's, or a model's own serializer
        name = type(value).__name__
        raise MessageMistyped(f"message to {topic}: no body can be made of a value of type {name}: {error}") from error
    if not isinstance(body, bytes):
        raise MessageMistyped(f"message to {topic}: its codec made a {type(body).__name__}; bytes are a body")
    return body
