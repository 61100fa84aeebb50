"""Our side in interop tests: `framework-app run` as a process, with a handler that writes down what it gets."""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
HANDLERS = Path(__file__).with_name("recording_app.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message as our handler was given it."""

    topic: str
    body: bytes
    message_id: str
    offset_message_id: str
    broker: str
    queue: int
    offset: int
    attempt: int
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How an application ended."""

    code: int
    events: list[dict[str, Any]]
    """What it printed with --json, the last being `stopped`."""


class Application:
    """One running application; a group that is new begins at the first message."""

    def __init__(
        self,
        nursery: Nursery,
        folder: Path,
        name_server: str,
        *,
        topic: str,
        group: str,
        tags: str = "*",
        pause_s: float = 0,
        failures: int = 0,
        orderly: bool = False,
        handlers: Path = HANDLERS,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        app: Mapping[str, object] | None = None,
        **of_group: object,
    ) -> None:
        """`pause_s`: how long each handler takes; `failures`: attempts of each message that fail, but `fine` ones.

        `handlers` is another module, which the `environment` tells the rest. `options` are more of `run`'s.
        `app`: settings of that name.
        """
        self._nursery = nursery
        self._record = folder / "record.jsonl"
        self._output = folder / "output.log"
        settings = {
            "app": dict(app or {}),
            "cluster": {"name_servers": [name_server]},
            "consumers": {group: {"start": "first", **of_group}},
        }
        configuration = folder / "settings.yaml"
        configuration.write_text(json.dumps(settings))
        variables = {
            "RECORD_FILE": str(self._record),
            "RECORD_TOPIC": topic,
            "RECORD_GROUP": group,
            "RECORD_TAGS": tags,
            "RECORD_PAUSE_S": str(pause_s),
            "RECORD_FAILURES": str(failures),
            "RECORD_ORDERLY": "yes" if orderly else "no",
            **(environment or {}),
        }
        command = [sys.executable, "-m", "framework", "run", str(handlers), "--config", str(configuration), "--json"]
        command += options
        self._child = nursery.start(command, cwd=ROOT, output=self._output, environment=variables)

    def received(self, count: int, *, timeout_s: float = PATIENCE_S) -> list[Received]:
        """Everything it has handled, once that is `count` messages."""

        def is_enough() -> bool:
            assert self._child.poll() is None, f"the application ended:\n{self._output.read_text()}"
            return len(self._lines()) >= count

        wait_until(is_enough, f"{count} messages ({self._output})", timeout_s)
        return self.so_far()

    def so_far(self) -> list[Received]:
        """What it has handled by now, whether or not it is still there."""
        records = [json.loads(line) for line in self._lines()]
        return [Received(**{**record, "body": base64.b64decode(record["body"])}) for record in records]

    def said(self) -> str:
        """Everything it has logged and printed by now."""
        return self._output.read_text()

    def kill(self) -> None:
        """SIGKILL: not a word to anybody."""
        self._nursery.kill(self._child)

    @property
    def workers(self) -> list[int]:
        """The numbers of its workers: what the process that forks them has started."""
        return [worker for server in _children(self._child.pid) for worker in _children(server)]

    def freeze(self) -> None:
        """SIGSTOP: as a machine that hangs; its connections stay open."""
        self._child.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._child.send_signal(signal.SIGCONT)

    def stop(self) -> Ended:
        """SIGTERM: it drains, leaves its group, and says what it did."""
        self._child.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> Ended:
        """Once it has, of itself or as it was told."""
        code = self._nursery.bury(self._child)
        lines = self._output.read_text().splitlines()
        return Ended(code, [json.loads(line) for line in lines if line.startswith('{"event"')])

    def _lines(self) -> list[str]:
        if not self._record.exists():
            return []
        # A line that is being written has no end yet.
        return [line for line in self._record.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _children(number: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    except FileNotFoundError:  # it has ended meanwhile
        return []
