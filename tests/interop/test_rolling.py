"""A rolling restart of the manifests' three pods under load, on a real cluster, with all of a rollout's waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.deploy.pods import Process, ended
from tests.deploy.rolling import Rollout, load, settle
from tests.interop.cluster import Addresses

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]
QUEUES = 8


@pytest.fixture
def keep() -> Iterator[Callable[[Process], Process]]:
    with ended() as keep:

        def kept(process: Process) -> Process:
            keep(process)
            return process

        yield kept


@pytest.mark.long
@pytest.mark.parametrize("kind", [pytest.param("Deployment", marks=pytest.mark.slow), "StatefulSet"])
def test_a_rolling_restart_loses_nothing_and_with_names_repeats_and_moves_nothing(
    kind: str, cluster: Addresses, new_topic: Callable[..., str], keep: Callable[[Process], Process], tmp_path: Path
) -> None:
    topic = new_topic(queues=QUEUES)
    rollout = Rollout(
        kind, cluster.name_server, tmp_path, keep, topic=topic, group=f"billing-of-{topic}", queues=QUEUES
    )
    with load(cluster.name_server, topic) as stored:
        rollout.roll(steady_s=rollout.workload["spec"]["minReadySeconds"])
    lost, twice = settle(rollout, stored)

    print(f"{kind}: {len(stored)} messages, {len(twice)} of them twice, {rollout.moved()} queues moved")
    assert set() == lost
    assert [0] * 6 == rollout.codes
    if kind == "StatefulSet":
        assert ([], 0) == (twice, rollout.moved())
