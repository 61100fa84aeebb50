"""Ten minutes of three groups under load on a real cluster of two brokers, while everything fails in turn: nothing is
lost or out of order, and what is handled twice is counted by the fault before. `make slow PART=audit`; what is printed
stands in docs/reliability.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.audit import Audit
from tests.interop.cluster import Cluster, Shape
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.slow]

MINUTES = float(os.environ.get("AUDIT_MINUTES", "10"))
"""For how long things fail; shorter while something is tried. One after each other they take some six."""
A_SECOND = float(os.environ.get("AUDIT_MESSAGES", "120"))
AWAY_S = 25.0
"""How long a broker that ended stays away."""
STOPPED_S = 20.0
QUIET_S, QUIET_LONG_S = 20.0, 35.0
"""After members' faults, and brokers': routes are asked for each 30 s."""


@pytest.mark.timeout(3_600)
def test_while_everything_fails_in_turn_nothing_is_lost_or_out_of_order(
    java: JavaPeer, numbers: Callable[[], str], nursery: Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster", nursery, Shape(brokers=2)) as cluster:
        topic, admin = f"audited-{numbers()}", Admin(java, cluster.name_server)
        for address in cluster.addresses.brokers.values():
            admin.run("updateTopic", "-b", address, "-t", topic, "-r", "4", "-w", "4")
        audit = Audit(cluster, nursery, tmp_path, topic, a_second=A_SECOND)
        with audit.running():
            time.sleep(QUIET_LONG_S)
            until = time.monotonic() + 60 * MINUTES
            while time.monotonic() < until:
                for fault, (act, quiet_s) in faults(audit).items():
                    if time.monotonic() < until:
                        audit.strike(fault, act, quiet_s)
        with suppress(AssertionError):  # what does not come is lost, and in the table
            wait_until(lambda: not audit.lost(), "what was acknowledged", 3 * PATIENCE_S, pause_s=1.0)
        lost, out_of_order = audit.lost(), audit.out_of_order()
        acknowledged = len(audit.flow.acknowledged)
        with capsys.disabled():
            print(f"\n{MINUTES:g} minutes: {acknowledged} acknowledged", end=", ")
            print(f"{len(lost)} lost, {len(out_of_order)} out of order")
            print(audit.table())
        for member in audit.members:
            member.kill()

    assert ([], []) == (lost, out_of_order)
    assert acknowledged > 0


def faults(audit: Audit) -> dict[str, tuple[Callable[[], None], float]]:
    """What is done, and how long everybody is left alone then."""
    cluster = audit.cluster

    def replace_member(end: Callable[[], object]) -> None:
        end()
        del audit.members[0]
        audit.join()

    def stop_member() -> None:
        audit.members[0].freeze()
        time.sleep(STOPPED_S)
        audit.members[0].thaw()

    def restart(role: str, end: Callable[[str], None]) -> None:
        end(role)
        time.sleep(AWAY_S)
        cluster.start()

    def stop_broker() -> None:
        cluster.freeze("broker-b")
        time.sleep(STOPPED_S)
        cluster.thaw("broker-b")

    return {
        "a broker is killed (SIGKILL) and started again": (lambda: restart("broker-b", cluster.kill), QUIET_LONG_S),
        "a member is killed and replaced": (lambda: replace_member(audit.members[0].kill), QUIET_S),
        "a broker ends (SIGTERM) and is started again": (lambda: restart("broker-b", cluster.end), QUIET_LONG_S),
        "a member leaves (SIGTERM) and is replaced": (lambda: replace_member(audit.members[0].stop), QUIET_S),
        "a broker stands still for 20 s (SIGSTOP)": (stop_broker, QUIET_S),
        "a member stands still for 20 s": (stop_member, QUIET_S),
        "the name server is killed and started again": (lambda: restart("namesrv", cluster.kill), QUIET_LONG_S),
    }
