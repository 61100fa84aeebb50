"""A broker and the name server of a real cluster are started anew while members are at work: no queue moves."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import probe
from tests.interop.application import Application
from tests.interop.cluster import Cluster, Shape
from tests.interop.flow import Flow
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]

QUIET_S = 8.0
"""Members look at each other each 5 s: who is divided among them stays so after that."""
TRIES = 3
BROKER_A_ALONE = "brokers=['broker-a']"
"""In a route: the name server knows that one alone, since its half minute was over in the moment before."""
FLOW_A_SECOND, FLOWING_S = 60.0, 6.0
"""Brokers save offsets each 5 s."""
AWAY_S = 12.0
"""Members ask the name server within 5 s."""
REGISTERED_S = 32.0
"""Brokers register each 30 s: for so long a name server that was started anew may not know one that runs."""


@pytest.mark.long
def test_a_broker_and_the_name_server_are_started_anew_and_every_queue_stays(
    java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path
) -> None:
    """broker-b lists whoever comes back first alone, and the name server knows broker-b alone. Then broker-b is killed
    under load, and nothing is handled twice.
    """
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster", nursery, Shape(brokers=2))
    try:
        cluster.start()
        admin, topic = Admin(java, cluster.name_server), f"stays-{numbers()}"
        for address in cluster.addresses.brokers.values():
            admin.run("updateTopic", "-b", address, "-t", topic, "-r", "3", "-w", "3")
        members = []
        for number in range(3):
            (tmp_path / str(number)).mkdir()
            member = Application(
                nursery, tmp_path / str(number), cluster.name_server, topic=topic, group=f"g-{topic}", pause_s=0
            )
            members.append(member)
        shared = f"members=3 owned=2 queues=6 topic={topic}"
        for member in members:
            wait_until(lambda member=member: shared in member.said(), "a third of the queues")  # type: ignore[misc]  # mypy knows no default
        # The group's retry topic is known of one broker first, and of the other up to half a minute later.
        retries = {f"%RETRY%g-{topic}@{broker}:0" for broker in cluster.addresses.brokers}
        wait_until(
            lambda: retries == set().union(*(owned_by(member, f"%RETRY%g-{topic}") for member in members)),
            "both retry queues",
            2 * PATIENCE_S,
        )
        said = said_meanwhile(cluster, members)
        for _ in range(TRIES - 1):
            if not any(BROKER_A_ALONE in each for each in said):
                break
            said = said_meanwhile(cluster, members)  # broker-a registered first: that is another story
        lines, repeats = repeats_of_a_kill(cluster, members, topic)
        for member in members:
            member.kill()
    finally:
        cluster.stop()

    assert all("disconnected" in each for each in said), "everybody was parted from both"
    assert [] == [line for each in said for line in each.splitlines() if "assignment changed" in line]
    assert ([], []) == ([line for line in lines if "assignment changed" in line], repeats)


def repeats_of_a_kill(
    cluster: Cluster, members: list[Application], topic: str
) -> tuple[list[str], list[tuple[str, int, int]]]:
    """What members log while broker-b is killed under load, and away for so long that all have asked the name server;
    and which messages are handled more than once.

    A broker that is killed knows offsets of some seconds ago, and the name server forgets it at once.
    """
    before = [len(member.said()) for member in members]
    flow = Flow(cluster.name_server, topic, FLOW_A_SECOND)
    flow.start()
    try:
        time.sleep(FLOWING_S)
        cluster.kill("broker-b")
        time.sleep(AWAY_S)
        cluster.start()
        of_b = f"{topic}@broker-b:"
        since = max(flow.acknowledged, default=0)
        wait_until(
            lambda: any(
                number > since and place[0].startswith(of_b) for number, place in list(flow.acknowledged.items())
            ),
            "messages of the broker that is back",
            2 * PATIENCE_S,
        )
    finally:
        flow.end()

    def handled() -> Counter[tuple[str, int, int]]:
        return Counter((each.broker, each.queue, each.offset) for member in members for each in member.so_far())

    acknowledged = {(queue.partition("@")[2], offset) for queue, offset in flow.acknowledged.values()}
    wait_until(
        lambda: acknowledged <= {(f"{broker}:{number}", offset) for broker, number, offset in handled()},
        "all that was acknowledged",
        2 * PATIENCE_S,
        pause_s=0.5,
    )
    lines = [
        line for member, length in zip(members, before, strict=True) for line in member.said()[length:].splitlines()
    ]
    return lines, sorted(place for place, times in handled().items() if times > 1)


def owned_by(member: Application, topic: str) -> set[str]:
    """The topic's queues that it said to have gained, and not to have lost."""
    owned: set[str] = set()
    for gained, lost in re.findall(
        rf"gained=\[(.*?)\] .* lost=\[(.*?)\] .* topic={re.escape(topic)}$", member.said(), re.MULTILINE
    ):
        owned = owned - set(re.findall(r"'(.*?)'", lost)) | set(re.findall(r"'(.*?)'", gained))
    return owned


def said_meanwhile(cluster: Cluster, members: list[Application]) -> list[str]:
    """What each member logs while the name server and broker-b are started anew, from a moment on when all is quiet."""
    counts: list[int] = []
    while counts != (counts := [member.said().count("assignment changed") for member in members]):
        time.sleep(QUIET_S)
    before = [len(member.said()) for member in members]
    cluster.kill("namesrv")
    cluster.kill("broker-b")
    cluster.boot("broker-b")  # however long that takes: it is the first that the name server hears of
    cluster.start()
    probe.register(cluster.addresses.brokers["broker-b"])
    time.sleep(REGISTERED_S)
    return [member.said()[length:] for member, length in zip(members, before, strict=True)]
