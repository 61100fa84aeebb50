"""What structlog takes along for show is left out of the box's start, and is there for whoever wants it later."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from framework.cli.quick_logs import FOR_SHOW, import_structlog
import_structlog()
assert "structlog" in sys.modules
assert [] == [name for name in FOR_SHOW if name in sys.modules]
import rich.console
import_structlog()
assert rich.console is sys.modules["rich.console"] and sys.modules["rich"] is rich
"""


def test_rich_is_not_imported_with_structlog_and_not_hidden_for_good() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)

    assert not ended.returncode, ended.stderr
