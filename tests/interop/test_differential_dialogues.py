"""Two brokers, one script: transactions, replies, times, batches and POP answer alike, or a table says why not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.interop.blocking import Blocking
from tests.interop.cluster import Cluster, Shape
from tests.interop.dialogues import EXCUSED, STORIES, Desk, Story
from tests.interop.differences import leaves
from tests.interop.places import QUICK_RETRIES, start_box
from tests.interop.processes import Nursery

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.xdist_group("differential_dialogues")]
SOON = {"transactionTimeOut": "1000", "transactionCheckInterval": "2000"}
REAL = {**SOON, "recallMessageEnable": "true", "messageDelayLevel": QUICK_RETRIES}


@pytest.fixture(scope="module")
def places(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a real broker and of a box that ask about transactions soon, and recall."""
    box = start_box(nursery, tmp_path_factory.mktemp("box"))
    client = Blocking(box)
    body = "\n".join(f"{name}={value}" for name, value in SOON.items()).encode()
    assert client.ask(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, {}, body)).code == 0
    client.close()
    with Cluster(tmp_path_factory.mktemp("real"), nursery, Shape(settings=REAL)) as cluster:
        yield cluster.addresses.brokers["broker-a"], box


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_dialogue_is_the_same_with_both(places: tuple[str, str], story: Callable[[Desk], Story]) -> None:
    suffix = f"{story.__name__}-{os.getpid()}"
    real, box = (played(address, suffix, story) for address in places)
    faults, met = unexplained(story.__name__, real, box)

    assert not faults, "\n".join(faults)
    needed = {line for lines in EXCUSED.values() for line in lines if line.startswith(story.__name__)}
    assert met == needed, "an excuse that nothing needs"


def played(address: str, suffix: str, story: Callable[[Desk], Story]) -> list[tuple[str, Any]]:
    desk = Desk(address, suffix)
    try:
        return list(story(desk))
    finally:
        desk.close()


def unexplained(story: str, real: list[tuple[str, Any]], box: list[tuple[str, Any]]) -> tuple[list[str], set[str]]:
    faults: list[str] = []
    met: set[str] = set()
    for (name, theirs), (_, ours) in zip(real, box, strict=True):
        for path, a, b, _ in leaves(theirs, ours):
            fault = f"{story}: {name}{path}: RocketMQ {str(a)[:300]}, the box {str(b)[:300]}"
            excuses = [line for lines in EXCUSED.values() for line in lines if re.fullmatch(line, fault)]
            met.update(excuses)
            if not excuses:
                faults.append(fault)
    return faults, met
