"""What a broker has and what it still owes, as the test kit and the simulation ask."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from framework.testing.contents import under_way
from tests.broker.store_lab import folder_lab


def test_a_message_whose_commit_nobody_was_told_of_is_under_way(tmp_path: Path) -> None:
    """A queue ends where it did until then, so that a delay's row is gone and its message is not there."""
    lab = folder_lab(tmp_path, is_prompt=False)
    broker = cast("Any", SimpleNamespace(nodes=[SimpleNamespace(store=lab.store)]))
    assert [] == list(under_way(broker))

    lab.append("orders", 0, b"m0")
    lab.timers.turn()
    (job, done), lab.workers.jobs = lab.workers.jobs[0], []
    job()
    assert not lab.database.writing.in_transaction
    assert ["a group of writes is under way"] == list(under_way(broker))
    assert [] == lab.texts("orders", 0)

    done(None, None)
    lab.timers.turn()
    assert [] == list(under_way(broker))
    assert [b"m0"] == lab.texts("orders", 0)
