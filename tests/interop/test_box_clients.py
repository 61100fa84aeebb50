"""Java's own clients against the broker in the box, each way that they send and consume which no other test shows."""

from __future__ import annotations

import time

import pytest

from tests.interop.java_peer import JavaPeer, Outgoing, PeerError
from tests.interop.places import Place
from tests.patience import wait_until

pytestmark = pytest.mark.interop


def test_what_is_sent_in_order_is_consumed_in_order_and_each_key_by_one_queue(box: Place, java: JavaPeer) -> None:
    topic = box.new_topic()
    numbered = [Outgoing(body=b"%d" % i, keys=f"key{i % 3}") for i in range(30)]
    java.send(box.name_server, topic, numbered, how="ordered")
    member = java.consume(box.name_server, f"readers-of-{topic}", topic, orderly=True)
    received = member.received(30)
    member.leave()

    for key in ("key0", "key1", "key2"):
        mine = [message for message in received if message.properties["KEYS"] == key]
        assert [int(message.body) for message in mine] == sorted(int(message.body) for message in mine)
        assert (len(mine), len({message.queue for message in mine})) == (10, 1)


def test_java_sends_and_consumes_over_the_vip_channel(place: Place, java: JavaPeer) -> None:
    """`vipChannelEnabled`: sends, offsets and send-backs go to the broker's port less two."""
    topic = place.new_topic()
    bodies = {b"%d" % i for i in range(8)}
    java.send(place.name_server, topic, [Outgoing(body=body) for body in bodies], vip=True)
    member = java.consume(place.name_server, f"readers-of-{topic}", topic, vip=True, failures=1)
    received = member.received(2 * len(bodies), timeout_s=60)
    member.leave()

    assert sorted([*bodies, *bodies]) == sorted(message.body for message in received), (
        "each once more after its failure"
    )


@pytest.mark.parametrize("strategy", ["averaging", "circle"])
def test_members_have_their_queues_divided_by_the_broker(box: Place, java: JavaPeer, strategy: str) -> None:
    """`setClientRebalance(false)`: what the broker answers is what they own."""
    topic = box.new_topic()
    java.send(box.name_server, topic, [Outgoing(body=b"%d" % i) for i in range(8)])
    words = (box.name_server, f"divided-of-{topic}", topic)
    members = [java.consume(*words, strategy=strategy, divided_by_broker=True) for _ in range(2)]

    def is_divided() -> bool:
        shares = [member.share(topic) for member in members]
        return all(share.owned == share.shares[share.client_id] for share in shares) and all(
            len(share.owned) == 2 for share in shares
        )

    wait_until(is_divided, "the division that each member would have made")
    bodies: set[bytes] = set()

    def is_all_there() -> bool:
        bodies.update(message.body for member in members for message in member.received(8, timeout_s=0.3))
        return len(bodies) == 8

    wait_until(is_all_there, "each message")
    for member in members:
        member.leave()

    assert bodies == {b"%d" % i for i in range(8)}


def test_everybody_is_given_what_is_broadcast(box: Place, java: JavaPeer) -> None:
    topic = box.new_topic()
    java.send(box.name_server, topic, [Outgoing(body=b"%d" % i) for i in range(4)])
    members = [java.consume(box.name_server, f"all-of-{topic}", topic, broadcast=True) for _ in range(2)]
    received = [sorted(message.body for message in member.received(4)) for member in members]
    for member in members:
        member.leave()

    assert received == [[b"0", b"1", b"2", b"3"]] * 2


def test_java_filters_by_sql(box: Place, java: JavaPeer) -> None:
    topic = box.new_topic()
    java.send(box.name_server, topic, [Outgoing(body=b"%d" % i, properties={"n": str(i)}) for i in range(10)])
    member = java.consume(box.name_server, f"some-of-{topic}", topic, sql="n > 3 AND n <= 6 AND absent IS NULL")
    first = {message.body for message in member.received(3)}
    java.send(box.name_server, topic, [Outgoing(body=b"no"), Outgoing(body=b"yes", properties={"n": "5"})])
    (later,) = member.received(1)
    rest = member.received(1, timeout_s=0.5)
    member.leave()

    assert (first, later.body, rest) == ({b"4", b"5", b"6"}, b"yes", [])


def test_java_is_told_where_its_sql_is_wrong(box: Place, java: JavaPeer) -> None:
    topic = box.new_topic()
    java.send(box.name_server, topic, [Outgoing(body=b"x")])

    with pytest.raises(PeerError, match=r"SQL92 filter, character 5"):
        java.consume(box.name_server, f"nobody-of-{topic}", topic, sql="n > ")


@pytest.mark.parametrize("how", ["level", "delay", "instant"])
def test_delays_of_every_kind_come_at_their_time(box: Place, java: JavaPeer, how: str) -> None:
    """The box of these tests has ladders of a second, so that a level is as quick as the others."""
    topic = box.new_topic()
    java.send(box.name_server, topic, [Outgoing(body=b"now")])
    member = java.consume(box.name_server, f"readers-of-{topic}", topic)
    member.received(1)
    begin = time.time()
    due = begin + 1.5
    wish = {
        "level": Outgoing(body=b"x", level=3),
        "delay": Outgoing(body=b"x", delay_ms=1500),
        "instant": Outgoing(body=b"x", deliver_ms=int(due * 1000)),
    }[how]
    java.send(box.name_server, topic, [wish])
    (message,) = member.received(1)
    elapsed = time.time() - begin
    member.leave()

    assert message.body == b"x"
    assert elapsed >= (1.0 if how == "level" else 1.5)


def test_members_whose_subscriptions_have_different_versions_both_go_on(box: Place, java: JavaPeer) -> None:
    """Java takes the time of its start for the version: the box knows the newer one, and serves the older one too."""
    topic, group = box.new_topic(), "readers-with-two-versions"
    java.send(box.name_server, topic, [Outgoing(body=b"first")])
    older = java.consume(box.name_server, group, topic)
    bodies = [message.body for message in older.received(1)]
    newer = java.consume(box.name_server, group, topic)
    sent, taken = [b"first"], {"older": 0, "newer": 0}
    for number in range(100):  # until both have a share: the queues are divided a second or two after the second joined
        batch = [b"%d-%d" % (number, i) for i in range(8)]
        java.send(box.name_server, topic, [Outgoing(body=body) for body in batch])
        sent += batch
        for name, member in (("older", older), ("newer", newer)):
            received = member.received(8, timeout_s=0.5)
            bodies += [message.body for message in received]
            taken[name] += len(received) if taken["newer"] or name == "newer" else 0
        if all(taken.values()):
            break
    quiet = 0
    while len(set(bodies)) < len(sent):
        more = [message.body for member in (older, newer) for message in member.received(len(sent), timeout_s=0.5)]
        quiet = 0 if more else quiet + 1
        assert quiet < 60, f"{len(sent) - len(set(bodies))} of {len(sent)} did not come"
        bodies += more
    older.leave()
    newer.leave()

    assert all(taken.values()), f"after the newer one had begun: {taken}"
    assert set(sent) == set(bodies)
