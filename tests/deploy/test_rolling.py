"""A rolling restart of three pods or machines under load: each message is handled, and with names none twice.

On the built-in broker; `tests/interop/test_rolling.py` does it on a real cluster, in the gate with a StatefulSet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.pods import Process, send
from tests.deploy.rolling import UNIT, Rollout, load, settle

Started = Callable[[Process], Process]


@pytest.mark.parametrize("kind", [pytest.param("StatefulSet", marks=pytest.mark.slow), UNIT])
def test_a_rolling_restart_with_names_loses_and_repeats_nothing(
    kind: str, box: str, tmp_path: Path, started: Started
) -> None:
    send(box, b"the topic")
    rollout = Rollout(kind, box, tmp_path, started)
    with load(box) as stored:
        rollout.roll()
    lost, twice = settle(rollout, stored)

    print(f"{len(stored)} messages")
    assert (set(), [], 0) == (lost, twice, rollout.moved())
    assert [0] * 6 == rollout.codes, "each old and each new pod drained"


@pytest.mark.slow
def test_a_rolling_restart_without_names_loses_nothing(box: str, tmp_path: Path, started: Started) -> None:
    send(box, b"the topic")
    rollout = Rollout("Deployment", box, tmp_path, started)
    with load(box) as stored:
        rollout.roll()
    lost, twice = settle(rollout, stored)

    print(f"{len(stored)} messages, {len(twice)} of them twice, {rollout.moved()} queues moved")
    assert set() == lost
    assert rollout.moved() > 0, "what names are for"
    assert [0] * 6 == rollout.codes
