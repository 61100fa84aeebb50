"""What a parent says of workers that do not answer: they come up, are replaced, or have drained."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from framework.cli.live.sockets import Place, WorkersControl
from tests.cli.live.played import Played, listening

WELL = {"reasons": [], "phase": "running"}
RUNNING, SILENT, ENDED = 0, 1, 2


def answers(folder: Path, *, is_stopping: bool) -> list[dict[str, Any]]:
    """Of three workers: one answers, one does not listen, one has ended."""
    all_of_them: Any = [
        SimpleNamespace(worker=number, number=100 + number, code=0 if number == ENDED else None) for number in range(3)
    ]
    children: Any = SimpleNamespace(all=all_of_them)
    control = WorkersControl(children, 3, Place(str(folder / "s"), {"name": "shop"}), lambda: is_stopping)
    with listening(folder / f"s.{RUNNING}", Played(health=WELL)):
        return control.answer({"ask": "health"})["workers"]  # type: ignore[no-any-return]  # from JSON


@pytest.mark.parametrize(
    ("is_stopping", "said"),
    [
        (False, {SILENT: "it is starting, and does not listen yet", ENDED: "it has ended, and is started again"}),
        (True, {SILENT: "it is stopping, and does not listen any more"}),
    ],
)
def test_a_worker_that_has_ended_is_started_again_unless_all_are_stopping(
    tmp_path: Path, *, is_stopping: bool, said: dict[int, str]
) -> None:
    found = answers(tmp_path, is_stopping=is_stopping)

    assert {RUNNING: None, **said} == {each["worker"]: each.get("error") for each in found}
