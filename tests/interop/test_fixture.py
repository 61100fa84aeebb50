"""The fixture itself: what it starts is there, answers quickly, and is gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import shared
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing, PeerError
from tests.interop.keeper import started_at
from tests.interop.mqadmin import Admin, AdminError
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]

STARTS_A_PROCESS_AND_HANGS = """
import sys
from pathlib import Path
from tests.interop.processes import Nursery
from tests.patience import wait_until
from tests.patience import wait_until
child = Nursery().start(["sleep", "600"], cwd=Path("/"))
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_nothing_outlives_a_run_that_is_killed() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_PROCESS_AND_HANGS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    child = int(run.stdout.readline())
    assert started_at(child) is not None

    run.send_signal(signal.SIGKILL)
    run.communicate()

    wait_until(lambda: started_at(child) is None, "the child's end")


def test_a_nursery_leaves_nothing_behind(tmp_path: Path) -> None:
    own = Nursery()
    child = own.start(["sleep", "600"], cwd=tmp_path)

    own.close()

    assert -signal.SIGKILL == child.poll()


def test_what_processes_share_is_gone_when_nobody_uses_it(tmp_path: Path) -> None:
    first = shared.kept(tmp_path / "keeper")
    child = Nursery(keeper=first).start(["sleep", "600"], cwd=tmp_path)
    second = shared.joined(tmp_path / "keeper")
    assert second is not None

    first.close()
    assert shared.joined(tmp_path / "nobodys") is None
    assert child.poll() is None, "the second one uses it"
    second.close()

    assert -signal.SIGKILL == child.wait(PATIENCE_S)
    wait_until(lambda: not is_there(tmp_path / "keeper"), "the keeper's end")


def is_there(keeper: Path) -> bool:
    """Whoever looks lets go again, or it would be there for that."""
    pipe = shared.joined(keeper)
    if pipe is not None:
        pipe.close()
    return pipe is not None


def test_workers_share_a_few_clusters_and_one_that_is_alone_shares_none(tmp_path: Path) -> None:
    of = [shared.chosen(tmp_path, {shared.WORKER: f"gw{number}"}) for number in range(7)]

    assert shared.CLUSTERS == len(set(of)) < 7
    assert None not in of
    assert shared.chosen(tmp_path, {}) is None


@pytest.mark.interop
def test_mqadmin_answers(cluster: Addresses, admin: Admin) -> None:
    admin.run("clusterList")  # The first call loads the classes.
    began = time.monotonic()
    printed = admin.run("clusterList")
    print(f"mqadmin clusterList: {time.monotonic() - began:.2f} s")

    assert cluster.brokers["broker-a"] in printed


@pytest.mark.interop
def test_what_mqadmin_prints_for_a_failure_is_an_error(admin: Admin) -> None:
    """mqadmin itself exits with 0."""
    with pytest.raises(AdminError, match=r"consumerProgress -n \S+ -g nobody-ever-was"):
        admin.run("consumerProgress", "-g", "nobody-ever-was")


@pytest.mark.interop
def test_what_java_refuses_is_an_error_with_javas_own_text(cluster: Addresses, java: JavaPeer) -> None:
    with pytest.raises(PeerError, match="longer than topic max length 127"):
        java.send(cluster.name_server, "t" * 200, [Outgoing(body=b"x")])


@pytest.mark.interop
def test_java_consumes_what_java_sent(cluster: Addresses, java: JavaPeer, new_topic: Callable[..., str]) -> None:
    """Both helper programs on the stock broker: what interop tests compare with."""
    topic = new_topic()
    sent = java.send(
        cluster.name_server, topic, [Outgoing(body=b"one", tags="A", keys="k1 k2", properties={"colour": "red"})]
    )
    java.send(cluster.name_server, topic, [Outgoing(body=b"two"), Outgoing(body=b"three")], how="batch")

    member = java.consume(cluster.name_server, f"group-of-{topic}", topic)
    received = {message.body: message for message in member.received(3)}
    member.leave()

    assert {b"one", b"two", b"three"} == set(received)
    first = received[b"one"]
    assert (sent[0].message_id, sent[0].queue, sent[0].offset) == (first.message_id, first.queue, first.offset)
    assert {"TAGS": "A", "KEYS": "k1 k2", "colour": "red"}.items() <= first.properties.items()
