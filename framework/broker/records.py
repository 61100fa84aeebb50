"""Stored records as the broker makes and changes them: the wire's record, with refusals instead of errors."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from framework.broker.answers import Refusal
from framework.broker.store.keys import key_hash
from framework.errors import ConfigurationError
from framework.model.message import KEYS, UNIQUE_KEY
from framework.net.address import parse_address
from framework.wire.codes import ResponseCode
from framework.wire.ids import pack_host
from framework.wire.stored import Record, decode_records, encode_record

KEYS_MAX = 100  # of one message, by which it is found: 16,000 would fit into its properties
_UNKNOWN_HOST = "0.0.0.0"


def encode(record: Record, texts: bytes | None = None) -> bytes:
    """The record's bytes, or a Refusal (13) where its properties do not fit."""
    try:
        return encode_record(record, texts)
    except ConfigurationError as error:
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"the message is illegal: {error}") from error


def decode(data: bytes) -> Record:
    """One record."""
    (record,) = decode_records(data)
    return record


def key_hashes(message: Record) -> list[int]:
    """What the message is found by: its unique key, and its first keys, each once."""
    topic, properties = message.topic, message.properties
    hashes = [key_hash(topic, properties[UNIQUE_KEY])] if UNIQUE_KEY in properties else []
    if KEYS in properties:
        hashes += [key_hash(topic, key) for key in properties[KEYS].split(None, KEYS_MAX)[:KEYS_MAX]]
    return list(dict.fromkeys(hashes)) if len(hashes) > 2 else hashes


@lru_cache(maxsize=1024)
def host_of(address: str) -> bytes:
    """`127.0.0.1:5000` as records and ids have it. A name, which they cannot carry, becomes 0.0.0.0."""
    try:
        host, port = parse_address(address)
        return pack_host(str(ipaddress.ip_address(host)), port)
    except (ConfigurationError, ValueError):
        return pack_host(_UNKNOWN_HOST, 0)
