"""Reader against a real cluster and the box: what Java sent is read by offset, and a group without members commits."""

from __future__ import annotations

import pytest

from framework.errors import Refused
from framework.reading import Filter, Reader, ReaderSettings
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place

pytestmark = pytest.mark.interop


def test_what_java_sent_is_read_by_offset_and_by_tag(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    sent = [Outgoing(body=b"m%d" % number, tags="red" if number % 3 else "blue") for number in range(90)]
    java.send(place.name_server, topic, [*sent, Outgoing(body=b"z" * 10_000, tags="long")])
    place.shows(topic, 91)

    with Reader(ReaderSettings((place.name_server,), group=f"readers-of-{topic}")) as reader:
        queues = reader.queues(topic)
        ends = {queue: reader.max_offset(queue) for queue in queues}
        read = [columns for queue, end in ends.items() for columns in reader.read(queue, 0, end)]
        red = [
            columns for queue, end in ends.items() for columns in reader.read(queue, 0, end, wanted=Filter(tags="red"))
        ]

        assert 91 == sum(ends.values())
        # The last one was compressed by its producer.
        bodies = [body for columns in read for body in columns.bodies]
        assert sorted([each.body for each in sent] + [b"z" * 10_000]) == sorted(body or b"" for body in bodies)
        for queue, end in ends.items():
            assert list(range(end)) == [n for columns in read if columns.queue == queue for n in columns.offsets]
        assert 60 == sum(map(len, red))
        for queue, end in ends.items():
            if end:
                stored_ms = next(columns.stored_ms[0] for columns in read if columns.queue == queue)
                assert 0 == reader.offset_at(queue, stored_ms)
                assert end == reader.offset_at(queue, stored_ms + 3_600_000)


def test_an_offset_is_stored_for_a_group_that_has_no_member(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()
    group = f"readers-of-{topic}"
    java.send(place.name_server, topic, [Outgoing(body=b"m%d" % number) for number in range(8)])
    place.shows(topic, 8)

    with Reader(ReaderSettings((place.name_server,), group=group)) as reader:
        queue = next(queue for queue in reader.queues(topic) if reader.max_offset(queue))
        assert reader.committed(group, queue) is None
        reader.commit(group, queue, 1)
        assert 1 == reader.committed(group, queue)


def test_a_broker_that_filters_by_no_properties_says_so(place: Place, java: JavaPeer) -> None:
    """A stock broker's enablePropertyFilter is off; one that has it on hands out what matches."""
    topic = place.new_topic()
    java.send(place.name_server, topic, [Outgoing(body=b"m", tags="red")])
    place.shows(topic, 1)

    with Reader(ReaderSettings((place.name_server,), group=f"readers-of-{topic}")) as reader:
        queue = next(queue for queue in reader.queues(topic) if reader.max_offset(queue))
        found, complaint = 0, ""
        try:
            found = sum(map(len, reader.read(queue, 0, 1, wanted=Filter(sql="TAGS = 'red'"))))
        except Refused as error:
            complaint = str(error)

        assert found or "does not support consumer to filter message by SQL92" in complaint
