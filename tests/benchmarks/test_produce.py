"""The producers' benchmark: our side sends in each way what it says, and every message is stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.produce import MODES
from tests.interop import probe
from tests.patience import wait_until


@pytest.fixture(scope="module")
def box() -> Iterator[str]:
    command = [sys.executable, "-m", "framework", "broker", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        yield broker.stdout.readline().split("namesrv=")[1].split()[0]
        broker.terminate()


@pytest.mark.parametrize("mode", MODES)
def test_each_way_stores_every_message(box: str, mode: str) -> None:
    words = [box, f"produced-{mode}", mode, "1000", "100", "16"]
    said = subprocess.run(
        [sys.executable, "-m", "benchmarks.produce_ours", *words], capture_output=True, text=True, check=True
    ).stdout
    tale = json.loads(next(line for line in said.splitlines() if line.startswith('{"sent"')))

    def stored() -> int:
        _, body = probe.ask(box, 202, topic=f"produced-{mode}")
        return sum(int(end) for end in re.findall(r'"maxOffset":(\d+)', body.decode()))

    wait_until(lambda: stored() >= 1_100, "every message")
    assert tale["sent"] == stored() == 1_100
    assert tale["first_ns"] < tale["last_ns"]
