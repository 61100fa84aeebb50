"""`codec="json"`: the same as without a codec. Bodies are JSON, text or bytes, as the annotation says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.declare.decoding import decoder_for
from framework.hooks.markers import hookimpl
from framework.model.contracts import Codec
from framework.model.message import body_of


class JsonCodec:
    def decoder(self, annotation: Any, parameter: str) -> Callable[[bytes], object]:
        return decoder_for(annotation, parameter) or bytes

    def encoder(self, topic: str) -> Callable[[object], bytes]:
        return body_of


@hookimpl
def register_codecs() -> Mapping[str, Codec]:
    return {"json": JsonCodec()}
