"""What is sent becomes a body, by the same rules as what a handler returns: text, bytes, JSON, or a codec's bytes."""

from __future__ import annotations

from collections.abc import Callable

from framework.declare.encoding import json_of
from framework.errors import FrameworkError
from framework.mistakes import MessageWrong
from framework.model.contracts import Encodes


class Bodies:
    """One a producer. A codec's encoder is asked for once per topic."""

    def __init__(self, codec: Encodes | None) -> None:
        self._codec = codec
        self._encoders: dict[str, Callable[[object], bytes]] = {}

    def of(self, topic: str, value: object) -> bytes | str:
        """The body, or a ConfigurationError that says what it cannot be made of."""
        if isinstance(value, bytes) or (self._codec is None and isinstance(value, str)):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if value is None or isinstance(value, bool | int | float):
            raise MessageWrong(
                f"message to {topic}: a {type(value).__name__} cannot be a body; give text, bytes, a model or dict"
            )
        try:
            return json_of(value) if self._codec is None else self._encoder(self._codec, topic)(value)
        except FrameworkError:
            raise
        except Exception as error:  # border: the codec's, or a model's own serializer
            raise MessageWrong(
                f"message to {topic}: no body can be made of a {type(value).__name__}: {error}"
            ) from error

    def _encoder(self, codec: Encodes, topic: str) -> Callable[[object], bytes]:
        encoder = self._encoders.get(topic)
        if encoder is None:
            encoder = self._encoders[topic] = codec.encoder(topic)
        return encoder
