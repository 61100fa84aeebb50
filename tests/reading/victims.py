"""Programs that tests kill and start again, and who is killed beside them: processes that Spark has started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = {
    "worker": "pyspark.daemon",
    "source": "python_streaming_source_runner",
    "jvm": "org.apache.spark.deploy.SparkSubmit",
}
"""Of Spark's processes -> what their command lines have."""


class Program:
    """A process that is started again under the same words, and others at the end."""

    def __init__(self, words: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._words, self._log, self._environment = words, log, {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[str]

    def start(self, *more: str) -> None:
        with self._log.open("a") as out:
            self.process = subprocess.Popen(
                [*self._words, *more], stdout=out, stderr=out, text=True, cwd=ROOT, start_new_session=True,
                env=self._environment,
            )  # fmt: skip

    def kill(self) -> None:
        """It, and all that it has started."""
        for pid in reversed([self.process.pid, *descendants(self.process.pid)]):
            kill(pid)
        self.process.wait(60)

    def victims(self, kind: str) -> list[int]:
        return victims(self.process.pid, kind)

    def said(self) -> str:
        """The end of its log."""
        return self._log.read_text()[-3000:]


@contextmanager
def ended_after(program: Program) -> Iterator[Program]:
    try:
        yield program
    finally:
        program.kill()


def victims(ancestor: int, kind: str) -> list[int]:
    """Processes of Spark's that it has started, and theirs."""
    return [pid for pid in descendants(ancestor) if WORDS[kind] in _words_of(pid)]


def descendants(pid: int) -> list[int]:
    """Those nearest to it first, by what each process says of its parent.

    What the kernel lists as a thread's children may lack some while others end, and a thread that ends hands its own to
    another one.
    """
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended just now
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
