"""A start takes nothing along for show, leaves it to whoever wants it later, and looks for garbage once it is over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import command
from tests.reading.threads import texts, thread_box

IMPORTS = """
import sys
from framework.cli import quick_start
quick_start.import_structlog()
assert "structlog" in sys.modules
assert [] == [name for name in sys.modules if name.partition(".")[0] in ("rich", "better_exceptions")]
import rich.console
quick_start.import_structlog()
assert rich.console is sys.modules["rich.console"] and sys.modules["rich"] is rich
"""
SHOWS = """
import io
from framework.cli import quick_start
quick_start.import_structlog()
import structlog.dev, structlog.tracebacks
lines = io.StringIO()
log = structlog.wrap_logger(
    structlog.PrintLogger(lines),
    processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.rich_traceback)],
)
try:
    a = 1 / 0
except ZeroDivisionError:
    log.exception("failed")
assert "╭" in lines.getvalue() and "ZeroDivisionError" in lines.getvalue(), lines.getvalue()
assert "'x'" == structlog.tracebacks.to_repr("x")
"""
HANDLER = """
import gc
from framework import Message, consumer

AT_IMPORT = gc.isenabled()

@consumer("orders", "billing")
async def handle(message: Message) -> None:
    print(f"garbage is looked for: {AT_IMPORT}, {gc.isenabled()}; kept: {gc.get_freeze_count() > 10_000}", flush=True)
"""


@pytest.mark.parametrize("program", [IMPORTS, SHOWS])
def test_rich_is_not_imported_with_structlog_and_works_when_it_is_called(program: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert not ended.returncode, ended.stderr


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
def test_garbage_is_looked_for_once_everything_is_imported(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "shop.py").write_text(HANDLER)
    with thread_box() as box, command("run", "shop", "--name-server", box.address, *more, folder=tmp_path) as run:
        run.until("ready:")
        box.send("orders", texts("orders", 1))
        run.until("garbage is looked for: False, True; kept: True")
        assert 0 == run.end()
