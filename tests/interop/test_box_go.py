"""RocketMQ's Go client against the box: it differs from Java's in headers, empty fields and heartbeats."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest

from tests.interop import golang
from tests.interop.places import Place

pytestmark = [pytest.mark.interop, pytest.mark.go, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    "failures",
    [
        0,
        # The Go client looks for its group's retry topic each half minute.
        pytest.param(1, marks=pytest.mark.slow),
    ],
)
def test_go_sends_and_consumes(box: Place, failures: int) -> None:
    topic = box.new_topic()
    words = [str(golang.built()), box.name_server, topic, f"go-{topic}", "6", str(failures)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    seen = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]

    assert ended.returncode == 0, ended.stderr
    bodies = Counter(message["body"] for message in seen)
    assert bodies == Counter(["m0", "m1", "m2", "m3", "m4", "m5", "late"]) + Counter({"m1": failures})
    assert {message["tags"] for message in seen} == {"go"}
    batch = sorted((message["queue"], message["offset"]) for message in seen if message["body"] in {"m3", "m4", "m5"})
    assert batch == [(batch[0][0], batch[0][1] + i) for i in range(3)]
    assert [message["reconsumed"] for message in seen if message["body"] == "m1"] == list(range(failures + 1))
