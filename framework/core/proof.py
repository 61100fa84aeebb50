"""Proof: a keyed hash, by which members of a group know what another member has written. Pure.

Brokers that cannot keep strangers from a group's topics still do not give them its key. The key is made from a secret
slowly, because whoever reads a proof may try secrets on it.
"""

from __future__ import annotations

import hmac
from functools import lru_cache
from hashlib import pbkdf2_hmac, sha256

ROUNDS = 100_000
"""Some 50 ms, once per process and secret."""
SALT = b"framework-app proof 1"
LENGTH = 16
"""Bytes: nobody meets 2**128 by trying at a broker."""


@lru_cache(maxsize=4)
def key_of(secret: str) -> bytes:
    return pbkdf2_hmac("sha256", secret.encode("utf-8", "surrogatepass"), SALT, ROUNDS)


def proof_of(key: bytes, *said: bytes) -> str:
    """Of all that is said, in this order; each part stands with its length, so that none can pass for two."""
    parts = b"".join(b"%d:%b" % (len(part), part) for part in said)
    return hmac.new(key, parts, sha256).digest()[:LENGTH].hex()


def is_proof(text: str, of: str) -> bool:
    """Whether this is that proof, in a time that tells nothing of it."""
    return hmac.compare_digest(text.encode("utf-8", "replace"), of.encode())
