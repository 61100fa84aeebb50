"""Java's properties files, as far as settings travel in them: `name=value` lines."""

from __future__ import annotations

from collections.abc import Mapping

from framework.errors import ProtocolError


def encode(values: Mapping[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def decode(body: bytes) -> dict[str, str]:
    """The lines' names and values; comments and empty lines are left out."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"settings are not UTF-8: {error}") from error
    values = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", "!")):
            values[name.strip()] = value.strip()
    return values
