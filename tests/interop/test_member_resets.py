"""mqadmin moves the offsets of our member while it runs, as it does a Java one's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from framework.reading import Reader, ReaderSettings
from tests.interop.cluster import Addresses
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.live import ONE_LONG_POLL_S, Live, fill_each
from tests.interop.mqadmin import Admin, changed
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.interop


def test_offsets_are_moved_back_on_a_live_member(
    begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin()
    java.fill(cluster.name_server, live.topic, 40)
    live.application.received(40)

    moved = live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
    assert re.search(r"^#brokerName\s+#queueId\s+#offset\s*$", moved, re.MULTILINE)
    assert 4 == len(re.findall(r"^broker-a\s+\d\s+0\s*$", moved, re.MULTILINE))
    received = live.application.received(80, timeout_s=ONE_LONG_POLL_S)
    assert 40 == len({(each.queue, each.offset) for each in received[40:]})
    assert 80 == len(received)


@pytest.mark.parametrize(
    "command", [pytest.param("skipAccumulatedMessage", marks=pytest.mark.slow), "resetOffsetByTime"]
)
def test_offsets_are_moved_forward_on_a_live_member(
    command: str, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    """What was pulled already is dropped with the rest; what comes afterwards is handled."""
    live = begin(queues=1, pause_s=0.5, concurrency=1, cache_count=50)
    java.fill(cluster.name_server, live.topic, 400)
    live.application.received(2)

    when = ("-s", "now") if command == "resetOffsetByTime" else ()
    moved = live.admin.run(command, "-g", live.group, "-t", live.topic, *when)
    assert re.search(r"^broker-a\s+0\s+400\s*$", moved, re.MULTILINE)
    java.send(cluster.name_server, live.topic, [Outgoing(body=b"after")])

    def has_gone_on() -> bool:
        return any(each.body == b"after" for each in live.application.received(2))

    wait_until(has_gone_on, "the message behind the skipped ones", ONE_LONG_POLL_S)
    assert len(live.application.received(2)) < 200


def resetting_clients(admin: Admin, cluster: Addresses) -> AbstractContextManager[None]:
    """The broker asks clients to reset themselves, as those of 4.x and 5.0 do."""
    return changed(admin, cluster, "useServerSideResetOffset", "false", "true")


@pytest.mark.xdist_group("lone_cluster")
@pytest.mark.parametrize(
    "within_s",
    [pytest.param(PATIENCE_S, id="at load"), pytest.param(5, id="less than a long poll", marks=pytest.mark.slow)],
)
def test_a_reset_that_the_client_must_do_is_done_at_once(
    within_s: float, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    live = begin()
    fill_each(java, cluster, live.topic)
    live.application.received(40)
    # Such a broker resets nothing of a group that has no offset in one of the queues.
    wait_until(live.is_even, "all offsets to be committed")

    with resetting_clients(live.admin, cluster):
        live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
        received = live.application.received(80, timeout_s=within_s)  # ours is cut short
        assert 40 == len({(each.queue, each.offset) for each in received[40:]})
        fill_each(java, cluster, live.topic)
        assert 120 == len(live.application.received(120))
    ended = live.application.stop()
    assert 0 == ended.code
    assert live.is_even()


@pytest.mark.xdist_group("lone_cluster")
@pytest.mark.parametrize("who", [pytest.param("broker", marks=pytest.mark.slow), "client"])
def test_a_queue_that_consumed_nothing_is_reset_with_the_others(
    who: str, begin: Callable[..., Live], java: JavaPeer, cluster: Addresses
) -> None:
    """Nothing was ever in three of the four queues: the reset names them all, and they go on from there."""
    live = begin()
    java.send(cluster.name_server, live.topic, [Outgoing(body=b"x")] * 10, queue=("broker-a", 2))
    live.application.received(10)

    # mqadmin shows 0 also where nothing is stored, and such a broker then resets nothing.
    with Reader(ReaderSettings((cluster.name_server,))) as reader:
        queues = reader.queues(live.topic)
        wait_until(lambda: None not in {reader.committed(live.group, queue) for queue in queues}, "an offset of each")
    with resetting_clients(live.admin, cluster) if who == "client" else nullcontext():
        moved = live.admin.run("resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", "1")
        assert 4 == len(re.findall(r"^broker-a\s+\d\s+0\s*$", moved, re.MULTILINE)), moved
        again = live.application.received(20, timeout_s=ONE_LONG_POLL_S)
    fill_each(java, cluster, live.topic)
    received = live.application.received(60, timeout_s=ONE_LONG_POLL_S)
    assert sorted([*range(10)] * 2) == sorted(each.offset for each in again)
    fresh = Counter(each.queue for each in received[20:])
    assert dict.fromkeys(range(4), 10) == fresh
