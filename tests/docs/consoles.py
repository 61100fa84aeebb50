"""Console blocks: each command is run in the page's folder, against the built-in broker, and prints what stands there.

`python -m tests.docs.consoles PAGE...` writes what they print into the pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from framework.cli import main
from tests.docs.blocks import PAGES, blocks, page_id, write_files
from tests.docs.scenes import SCENES
from tests.reading.threads import ThreadBox, thread_box

OF_ITS_OWN = frozenset({"run", "dev", "broker", "check"})
"""Commands that set up a whole application: they are run as processes."""
WIDTH = "140"


@dataclass(slots=True)
class Step:
    command: str
    expected: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    found: list[Step] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        elif line or found[-1].expected:
            found[-1].expected.append(line)
    return found


def masked(lines: list[str]) -> list[str]:
    """What is the same in every run: figures and widths are not, nor whether a figure is known yet."""
    shown = [re.sub(r"\s+", " ", re.sub(r"\S*\d\S*|(?<=\s)-(?=\s)", "#", line)).strip() for line in lines]
    return [line for line in shown if line]


@contextlib.contextmanager
def stage(page: Path, folder: Path) -> Iterator[ThreadBox]:
    """A broker, the page's files in the working directory, and what else the page takes for granted."""
    write_files(page, folder)
    with thread_box() as box, contextlib.chdir(folder), tempfile.TemporaryDirectory() as sockets:
        before = dict(os.environ)
        os.environ.pop("XDG_RUNTIME_DIR", None)
        tempfile.tempdir = sockets  # other tests' applications listen elsewhere
        os.environ |= {
            "TMPDIR": sockets,
            "FRAMEWORK_APP__CLUSTER__NAME_SERVERS": f'["{box.address}"]',
            "COLUMNS": WIDTH,
            "PYTHONUNBUFFERED": "1",
        }
        try:
            with SCENES.get(page_id(page), contextlib.nullcontext)(box):
                yield box
        finally:
            tempfile.tempdir = None
            os.environ.clear()
            os.environ.update(before)


def printed(command: str) -> list[str]:
    """What a command writes to stdout and stderr, line by line."""
    words = shlex.split(re.sub(r"\$ID\b", os.environ.get("ID", ""), command), comments=True)
    if words[0] == "framework-app" and words[1] not in OF_ITS_OWN:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            main.run(words[1:])
        return said.getvalue().splitlines()
    if words[0] == "framework-app":
        words = [sys.executable, "-m", "framework", *words[1:]]
    if words[0] == "python":
        words[0] = sys.executable
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.splitlines()


def tidy(line: str) -> str:
    """As a page shows it: who typed it here is nobody's business."""
    return re.sub(r"uid-\d+@\S+", "uid-1000@desk", line).rstrip()


def differences(page: Path, folder: Path) -> list[str]:
    """Each command of this page that prints something else than the page says."""
    found = []
    with stage(page, folder):
        for block in blocks(page, "console"):
            for step in steps(block.text):
                shown = printed(step.command)
                if masked(shown) != masked(step.expected):
                    found.append("\n".join([f"{block}: $ {step.command}", *shown]))
    return found


def write(page: Path) -> None:
    text = page.read_text()
    with tempfile.TemporaryDirectory() as folder, stage(page, Path(folder)):
        for block in blocks(page, "console"):
            new = ""
            for step in steps(block.text):
                new += "\n".join([f"$ {step.command}", *(tidy(line) for line in printed(step.command))]) + "\n"
            text = text.replace(f"```console\n{block.text}```", f"```console\n{new}```", 1)
    page.write_text(text)


def staged() -> list[Path]:
    """The pages with commands that are run here."""
    return [page for page in PAGES if blocks(page, "console") and page_id(page) not in {"README", "tutorial"}]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
