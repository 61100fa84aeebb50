"""What probes say of the answers of one process or several."""

from __future__ import annotations

from typing import Any

import pytest

from framework.runtime.observe.probes import Probe, verdict

WELL = {"worker": 0, "reasons": [], "phase": "running"}
BLOCKED = {
    "worker": 1,
    "reasons": ["the event loop has not answered for 42 s: blocked at wait(orders.py:17)"],
    "is_blocked": True,
}
STARTING = {"worker": 1, "error": "it is starting, and does not listen yet", "is_starting": True}
ENDING = {"worker": 1, "error": "it is stopping, and does not listen any more", "is_stopping": True}
DEAF = {"worker": 1, "error": "no answer within 4 s"}
UNREADY = {"worker": 1, "reasons": ["group billing: its queues are\nnot divided yet"], "phase": "starting"}


@pytest.mark.parametrize(
    ("probe", "second", "reason"),
    [
        ("live", WELL, None),
        ("live", STARTING, None),
        ("live", ENDING, None),
        ("live", BLOCKED, "worker 1: the event loop has not answered for 42 s: blocked at wait(orders.py:17)"),
        ("live", DEAF, "worker 1: no answer within 4 s"),
        ("ready", WELL, None),
        ("ready", STARTING, "worker 1: it is starting, and does not listen yet"),
        ("ready", ENDING, "worker 1: it is stopping, and does not listen any more"),
        ("ready", UNREADY, "worker 1: group billing: its queues are not divided yet"),
        ("startup", WELL, None),
        ("startup", UNREADY, None),
        ("startup", STARTING, "worker 1: it is starting, and does not listen yet"),
        ("startup", BLOCKED, "worker 1: the event loop has not answered for 42 s: blocked at wait(orders.py:17)"),
        ("startup", DEAF, "worker 1: no answer within 4 s"),
    ],
)
def test_of_several_processes_one_reason_is_enough(probe: Probe, second: dict[str, Any], reason: str | None) -> None:
    found = verdict(probe, [WELL, second])

    assert (reason,) * (reason is not None) == found.reasons
    assert (reason is None) is found.is_well


def test_a_process_alone_has_no_number() -> None:
    assert ("no answer within 4 s",) == verdict("live", [DEAF]).reasons


def test_where_no_process_is_left_nothing_is_ready_and_no_restart_is_asked_for() -> None:
    """The parent still answers when its last worker has drained."""
    assert verdict("live", []).is_well
    assert ("no process runs any more",) == verdict("ready", []).reasons
