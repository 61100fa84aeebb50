"""What a handler returns becomes a body to publish: JSON, where no codec is named."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def json_of(value: object) -> bytes:
    """The JSON of a pydantic model, dataclass, struct or dict. Raises TypeError for what has none."""
    if value is None or isinstance(value, bool | int | float):
        raise TypeError(
            f"a {type(value).__name__} was returned, which cannot be a body; return text, bytes, a model or dict"
        )
    msgspec: Any = sys.modules.get("msgspec")
    if msgspec is not None and isinstance(value, msgspec.Struct):
        encoded: bytes = msgspec.json.encode(value)
        return encoded
    from pydantic_core import PydanticSerializationError, to_json

    try:
        return to_json(dict(value) if isinstance(value, Mapping) else value)
    except PydanticSerializationError as error:
        raise TypeError(f"a {type(value).__name__} cannot be published: {error}") from None
