"""`python -m framework` is `framework-app`."""

from __future__ import annotations

import sys

from framework.cli.entry import run

if __name__ == "__main__":
    sys.exit(run())
