"""Access key and signature of a request: the same for RocketMQ's access control 1.0 and 2.0.

The text that is signed is every field's value, in the order of the keys, and then the body; the keys are not in it. So
whatever adds a field must do so before signing. Answers, and what a broker asks of a client, are not signed.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1
from hmac import HMAC, compare_digest

from framework.mistakes import MessageWrong
from framework.wire.codes import request_name
from framework.wire.command import RemotingCommand

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105  # a field's name, not a secret
SIGNATURE = "Signature"


def sign(command: RemotingCommand, access_key: str, secret_key: str, token: str | None = None) -> None:
    """Add access key, token and signature to the command's fields. Nothing may be added after it."""
    command.fields[ACCESS_KEY] = access_key
    if token:
        command.fields[SECURITY_TOKEN] = token
    try:
        command.fields[SIGNATURE] = signature(command, secret_key)
    except UnicodeEncodeError as error:
        raise MessageWrong(f"{request_name(command.code)}: a field to be signed holds a lone surrogate") from error


def verify(command: RemotingCommand, secret_key: str) -> bool:
    """Whether the command carries the signature that this secret makes; in constant time."""
    try:
        given = command.fields.get(SIGNATURE, "").encode()
        expected = signature(command, secret_key).encode()
    except UnicodeEncodeError:
        return False
    return compare_digest(expected, given)


def signature(command: RemotingCommand, secret_key: str) -> str:
    """base64 of HMAC-SHA1, which is what the protocol asks for."""
    fields = command.fields
    values = [fields[name] for name in sorted(fields, key=_utf16) if name != SIGNATURE]
    mac = HMAC(secret_key.encode(), "".join(values).encode(), sha1)
    mac.update(command.body)
    return b64encode(mac.digest()).decode()


def _utf16(name: str) -> bytes:
    # Java compares UTF-16 units: an astral character sorts before U+E000, while Python's text comparison puts it after.
    return name.encode("utf-16-be", "surrogatepass")
