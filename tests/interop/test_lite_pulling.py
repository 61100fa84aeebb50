"""Java's DefaultLitePullConsumer, on a real cluster and on the broker in the box."""

from __future__ import annotations

import pytest

from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place

pytestmark = pytest.mark.interop


def test_a_lite_pull_consumer_goes_on_where_its_group_was(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    group = f"lite-readers-of-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"m%d" % number, tags="red") for number in range(10)])
    java.send(place.name_server, topic, [Outgoing(body=b"not this one", tags="blue")])

    first = java.lite(place.name_server, group, topic, count=10, tags="red")
    java.send(place.name_server, topic, [Outgoing(body=b"later", tags="red")])
    second = java.lite(place.name_server, group, topic, count=1, tags="red")

    assert sorted(first) == sorted(b"m%d" % number for number in range(10))
    assert second == [b"later"]
