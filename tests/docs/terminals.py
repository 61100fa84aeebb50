"""A page for two terminals: `dev` runs in the first, commands in the second, and files are saved in between."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framework.cli import main
from tests.bare_pytest import BARE
from tests.cli.processes import Command, command
from tests.docs.blocks import Block, blocks
from tests.docs.consoles import WIDTH, masked, printed, steps


class Terminals:
    """Plays the blocks of a page in their order. What the page says that is seen must be seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dev: Command | None = None
        self._address = ""

    @contextmanager
    def opened(self) -> Iterator[Terminals]:
        before = dict(os.environ)
        os.environ |= {"COLUMNS": WIDTH, "PYTEST_ADDOPTS": " ".join(BARE)}
        try:
            with contextlib.chdir(self._folder):
                yield self
        finally:
            os.environ.clear()
            os.environ.update(before)

    def play(self, page: Path) -> list[str]:
        """What was seen in the second terminal and differs from the page."""
        found: list[str] = []
        with contextlib.ExitStack() as stack:
            for block in blocks(page, "python", "sh", "console", "text"):
                if block.language == "python" and block.name:
                    self._save(block)
                elif block.language == "sh" and "framework-app dev" in block.text and self._dev is None:
                    self._dev = stack.enter_context(command(*_words(block), folder=self._folder))
                elif block.language == "console":
                    found += self._typed(block)
                elif block.language == "text":
                    self._seen(block)
        return found

    def _save(self, block: Block) -> None:
        path = self._folder / block.name
        if self._dev is None or not path.exists():
            path.write_text(block.text)
            return
        before = _owners()
        path.write_text(block.text)
        self._dev.wait_until(lambda: (now := _owners()) and not now & before, "the restart")

    def _typed(self, block: Block) -> list[str]:
        return [
            "\n".join([f"{block}: $ {step.command}", *shown])
            for step in steps(block.text)
            if masked(shown := printed(self._reachable(step.command))) != masked(step.expected)
        ]

    def _reachable(self, command: str) -> str:
        """With the port that this run's broker has."""
        return re.sub(r"(?<=--name-server )\S+", self._address, command)

    def _seen(self, block: Block) -> None:
        """Waits for each line of the block; the test's own time-out is the bound."""
        assert self._dev is not None
        if block.text.startswith("drained:"):
            assert 0 == self._dev.end(signal.SIGINT)
            assert masked(self._dev.lines[-1:]) == masked(block.text.splitlines())
            return
        for expected in block.text.splitlines():
            while not _shows(line := self._dev.line(), expected):
                pass
            if line.startswith("ready: namesrv="):
                self._address = line.partition("=")[2]
                os.environ["FRAMEWORK_APP__CLUSTER__NAME_SERVERS"] = json.dumps([self._address])


def _shows(line: str, expected: str) -> bool:
    """Whether a line has these words in this order; it may have more fields than a page has room for."""
    words = iter(masked([line])[0].split() if line.strip() else [])
    return all(word in words for word in masked([expected])[0].split())


def _words(block: Block) -> list[str]:
    (line,) = [line for line in block.text.splitlines() if line.startswith("framework-app dev")]
    return line.partition("#")[0].split()[1:]


def _owners() -> set[str]:
    """The members that have queues."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        main.run(["groups", "billing", "--json"])
    rows = [json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{")]
    return {row["owner"] for row in rows if row["owner"]}
