"""Two brokers, one client, generated scenarios: what a real RocketMQ answers, the box answers, or a table says why not.

Twenty scenarios in each run, two hundred in `make slow PART=two_hundred`, in parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from tests.interop.cluster import Addresses
from tests.interop.differences import NAMES, unexplained
from tests.interop.places import Place
from tests.interop.playing_apart import WholePlayer
from tests.interop.scenarios import SEEDS, SEEDS_IN_CI, generate

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
AT_ONCE = 6
PARTS = 4
_NUMBERS = count()


def test_twenty_scenarios_answer_alike(cluster: Addresses, box: Place) -> None:
    faults, met = compare(cluster.brokers["broker-a"], box.name_server, range(SEEDS_IN_CI))

    assert faults == []
    assert "flags of units" in met, "nothing was compared"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_two_hundred_scenarios_answer_alike(cluster: Addresses, box: Place, part: int) -> None:
    seeds = range(part, SEEDS, PARTS)
    faults, met = compare(cluster.brokers["broker-a"], box.name_server, seeds)
    print(f"differential, seeds {seeds}: {len(faults)} faults; rows met: {sorted(met)}", *faults, sep="\n")

    assert faults == []
    assert met == NAMES, "an excuse that nothing needs would hide what comes to differ"


def test_a_difference_that_no_row_explains_is_found_out(box: Place) -> None:
    scenario = generate(1)
    ours = WholePlayer(scenario, box.name_server, f"{os.getpid()}-self").play()
    theirs = [*ours[:-1], (ours[-1][0], [{"body": "never sent"}])]

    faults, _ = unexplained(scenario.steps, theirs, ours)
    assert len(faults) == 1


def compare(real: str, box: str, seeds: Iterable[int]) -> tuple[list[str], set[str]]:
    """Play each seed on both; what differs without a reason, and the reasons that were met."""

    def both(seed: int) -> tuple[list[str], set[str]]:
        scenario, suffix = generate(seed), f"{os.getpid()}-{next(_NUMBERS)}-{seed}"
        theirs, ours = (WholePlayer(scenario, address, suffix).play() for address in (real, box))
        faults, met = unexplained(scenario.steps, theirs, ours)
        return [f"seed {seed}, {fault}" for fault in faults], met

    faults: list[str] = []
    met: set[str] = set()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found, rows in pool.map(both, seeds):
            faults += found
            met |= rows
    return faults, met
