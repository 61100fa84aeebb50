r"""Message properties: `name \x01 value \x02`, repeated, as one text.

Owns the separators, the limits, and what is dropped: a pair without a name or without a value, as RocketMQ's own parser
drops it. It knows no property in particular.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.errors import ConfigurationError, ProtocolError, shorten
from framework.mistakes import MessageWrong
from framework.model.sendable import PROPERTIES_BYTES_MAX, SEPARATORS

NAME_END, PAIR_END = SEPARATORS
BYTES_MAX = PROPERTIES_BYTES_MAX
COUNT_MAX = 1_024


def encode(properties: Mapping[str, str]) -> str:
    """The text; ConfigurationError for what it could not carry. Empty values are left out: no reader would see them."""
    if len(properties) > COUNT_MAX:
        raise MessageWrong(f"{len(properties)} properties exceed the limit of {COUNT_MAX} a message")
    text = "".join([f"{name}{NAME_END}{value}{PAIR_END}" for name, value in properties.items() if name and value])
    # Each pair adds exactly one of each; more means that a name or a value holds one.
    pairs = sum(1 for name, value in properties.items() if name and value)
    if text.count(NAME_END) != pairs or text.count(PAIR_END) != pairs:
        raise _with_separator(properties)
    _check_size(text)
    return text


def joined(text: str, more: Mapping[str, str]) -> str:
    """The text with more pairs behind it; ConfigurationError where a message could not carry them all."""
    whole = ended(text) + encode(more)
    _check_size(whole)
    return whole


def _check_size(text: str) -> None:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        name = text[: error.start].rpartition(PAIR_END)[2].partition(NAME_END)[0]
        raise MessageWrong(f"property {shorten(name)} holds a lone surrogate, which UTF-8 cannot carry") from error
    if size > BYTES_MAX:
        raise MessageWrong(f"properties of {size} bytes exceed the {BYTES_MAX} that a message can carry")


def ended(text: str) -> str:
    """The text with a separator at its end, so that more may follow: newer clients leave the last one out."""
    return text + PAIR_END if text and text[-1] != PAIR_END else text


def is_plain(text: str, properties: Mapping[str, str]) -> bool:
    """Whether `encode` would make just this text of these pairs, which `decode` read from it: no need to make it again.

    A name given twice, a pair that was dropped, a separator too many: each changes one of the counts.
    """
    count = len(properties)
    return count == text.count(PAIR_END) == text.count(NAME_END) and count < COUNT_MAX // 2


def _with_separator(properties: Mapping[str, str]) -> ConfigurationError:
    name, value = next(pair for pair in properties.items() if set("".join(pair)) & {NAME_END, PAIR_END})
    return MessageWrong(f"property {shorten(name)}={shorten(value)} holds \\x01 or \\x02, which separate properties")


def decode(text: str) -> dict[str, str]:
    """The pairs of a text from outside (a send's header), or ProtocolError. Of a name given twice the last wins."""
    if len(text) > BYTES_MAX:
        raise ProtocolError(f"properties of {len(text)} characters exceed the limit of {BYTES_MAX} bytes")
    if text.count(PAIR_END) > COUNT_MAX:
        raise ProtocolError(f"{text.count(PAIR_END)} properties exceed the limit of {COUNT_MAX}")
    return _pairs(text.split(PAIR_END))


def decode_stored(data: bytes) -> dict[str, str]:
    """The pairs of a stored message. A producer chose them, so nothing here may stop a queue: bytes that are not UTF-8
    are replaced, as Java does, and pairs after the 1,024th are not looked at.
    """
    parts = data.decode("utf-8", "replace").split(PAIR_END, COUNT_MAX)
    if len(parts) > COUNT_MAX:
        parts.pop()
    return _pairs(parts)


def _pairs(parts: list[str]) -> dict[str, str]:
    if not parts[-1]:
        parts.pop()  # what follows the last separator
    try:
        properties = dict([part.split(NAME_END) for part in parts])
    except ValueError:
        return _odd_pairs(parts)
    if "" in properties or "" in properties.values():
        return _odd_pairs(parts)
    return properties


def _odd_pairs(parts: list[str]) -> dict[str, str]:
    """The same where a pair lacks something, or a value holds the separator that only a name may not hold."""
    properties = {}
    for part in parts:
        name, _, value = part.partition(NAME_END)
        if name and value:
            properties[name] = value
    return properties
