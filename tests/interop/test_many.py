"""Ten thousand dead letters, and a million lines: each once, and in flat memory, on a real cluster and on the box."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from framework.admin import browse
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.moments import Moment
from framework.client.options import ClusterOptions
from framework.model.death_reason import REPLAY_OF
from framework.reading import Reader, ReaderSettings
from framework.reading.pulls import EVERYTHING
from tests.interop.java_peer import JavaPeer
from tests.interop.places import ROOT, Place
from tests.patience import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3_600)]

FEW_LETTERS, LETTERS, KILLS = 600, 10_000, 5
LINES = 1_000_000
FEW_LINES = 50_000
GROWTH_KIB_MAX = 16 * 1024
"""Of peak memory, from few lines to a million."""


@contextmanager
def command(*words: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "out").open("wb") as output, (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "framework", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def count_of(place: Place, topic: str) -> int:
    with Reader(ReaderSettings((place.name_server,))) as reader:
        return sum(reader.max_offset(queue) for queue in reader.queues(topic))


def lines_into(file: Path, count: int) -> Path:
    with file.open("w") as lines:
        for number in range(count):
            lines.write(json.dumps({"body": f"message {number} {'x' * 60}", "keys": [f"k{number}"]}) + "\n")
    return file


def sent_from(place: Place, topic: str, file: Path, folder: Path) -> tuple[int, str]:
    """Peak memory in KiB, and what it said at last. What wait4 says of a child is at least the peak of its parent, from
    which it was made.
    """
    words = ("send", topic, "--ndjson", "--file", str(file), "--name-server", place.name_server)
    peak_kib = 0
    with command(*words, folder=folder) as process:

        def is_over() -> bool:
            nonlocal peak_kib
            peak_kib = max(peak_kib, peak_kib_of(process.pid))
            return process.poll() is not None

        wait_until(is_over, "the end of the send", 3_000, pause_s=0.05)
    said = (folder / "errors").read_text()
    assert 0 == process.returncode, said
    assert peak_kib, "it was looked at"
    return peak_kib, said.splitlines()[-1]


def peak_kib_of(pid: int) -> int:
    """The most memory that a process has had so far; 0 of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) if found else 0


@pytest.mark.slow
def test_a_million_lines_are_sent_in_flat_memory_and_the_rate_is_said(place: Place, tmp_path: Path) -> None:
    few, many = place.new_topic(), place.new_topic()
    least_kib, said = sent_from(place, few, lines_into(tmp_path / "few", FEW_LINES), tmp_path)
    assert re.fullmatch(rf"sent: 50,000 messages to {few}, [\d,]+ a second", said), said

    most_kib, said = sent_from(place, many, lines_into(tmp_path / "many", LINES), tmp_path)

    print(f"{said}; peak memory {most_kib:,} KiB, of {FEW_LINES:,} lines {least_kib:,} KiB")
    assert re.fullmatch(rf"sent: 1,000,000 messages to {many}, [\d,]+ a second", said), said
    assert LINES == count_of(place, many)
    assert most_kib <= least_kib + GROWTH_KIB_MAX


@pytest.mark.parametrize("letters", [FEW_LETTERS, pytest.param(LETTERS, marks=pytest.mark.slow)])
def test_a_replay_that_is_killed_five_times_sends_each_once(
    place: Place, java: JavaPeer, tmp_path: Path, letters: int
) -> None:
    topic, origin = place.new_topic(), place.new_topic()
    group = f"g-{topic}"
    java.fill(place.name_server, origin, letters, batch=100)
    with Reader(ReaderSettings((place.name_server,))) as reader:
        for queue in reader.queues(origin):
            for offset in range(reader.min_offset(queue), reader.max_offset(queue)):
                assert reader.send_back(group, queue, offset, delay_level=-1)
    words = ("dlq", "replay", group, "--yes", "--name-server", place.name_server)

    slowly = ("--rate", f"{letters // (KILLS + 1)}/s")  # each kill comes in the middle, however fast the machine is
    for number in range(KILLS):
        goal = letters + (number + 1) * letters // (KILLS + 1) + random.randrange(letters // 50)
        with command(*words, *slowly, folder=tmp_path) as process:
            wait_until(lambda goal=goal: count_of(place, origin) >= goal, f"{goal} copies", 600)  # type: ignore[misc]
            assert process.poll() is None, (tmp_path / "errors").read_text()
            process.kill()
    with command(*words, folder=tmp_path) as process:
        assert 0 == process.wait(), (tmp_path / "errors").read_text()

    last = (tmp_path / "out").read_text().splitlines()[-1]
    print(last)
    assert re.fullmatch(r"replayed: sent=\d+ skipped=\d+ failed=0", last), last
    assert {1: letters} == Counter(Counter(copies(place, origin)).values())
    assert 2 * letters == count_of(place, origin)


def copies(place: Place, topic: str) -> Iterator[str]:
    """Of which letter each copy in the topic was made."""
    with Admin(ClusterOptions(name_servers=(place.name_server,))) as admin:
        ranges = browse.spans(admin, topic, Moment("earliest"))
        for message in browse.messages(admin, EVERYTHING, ranges, Scan()):
            if REPLAY_OF in message.properties:
                yield message.properties[REPLAY_OF]
