"""The words in a name that mark its value as secret, and the mask that is shown in its place.

Apart from `secret.py` and `mistakes.py`, so that logging needs no settings.
"""

from __future__ import annotations

import re

MASK = "***"
SECRET_WORDS = re.compile(r"secret|password|passwd|token|authorization|signature|credential|access_?key", re.IGNORECASE)


def names_a_secret(key: str) -> bool:
    """Whether the value of a key with this name is not shown; a file that holds a secret is none."""
    return SECRET_WORDS.search(key) is not None and not key.endswith("file")
