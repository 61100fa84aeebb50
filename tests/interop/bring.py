"""Bring what the tests with other clients need, and say what is missing: `python -m tests.interop.bring`."""

from __future__ import annotations

import sys

from tests.interop import golang, jars
from tests.interop.jars import InteropError


def main() -> int:
    troubles = [trouble for trouble in (jars.missing(), golang.missing()) if trouble is not None]
    try:
        if not troubles:
            jars.compiled()
            jars.resolve_spring()
    except InteropError as error:
        troubles.append(str(error))
    for trouble in troubles:
        print(f"error: {trouble}")
    return int(bool(troubles))


if __name__ == "__main__":
    sys.exit(main())
