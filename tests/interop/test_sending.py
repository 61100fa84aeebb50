"""Java's push consumer is given what was sent: by Java to the broker in the box, by our producer anywhere."""

from __future__ import annotations

import asyncio

import pytest

from framework import Message, Producer
from framework.client.outgoing import SendResult
from framework.errors import Refused
from tests.interop.java_peer import JavaPeer, Outgoing
from tests.interop.places import Place

pytestmark = pytest.mark.interop

LONG_TEXT = ("Nachricht für 消息 ещё " * 400).encode()


def test_java_consumes_from_the_box_what_java_sent(box: Place, java: JavaPeer) -> None:
    """The same programs as on a real cluster, none of them told that this is another broker."""
    topic = box.new_topic()
    sent = java.send(
        box.name_server, topic, [Outgoing(body=b"one", tags="A", keys="k1 k2", properties={"colour": "red"})]
    )
    sent += java.send(box.name_server, topic, [Outgoing(body=b"async")], how="async")
    java.send(box.name_server, topic, [Outgoing(body=b"one way")], how="one-way")
    java.send(box.name_server, topic, [Outgoing(body=b"two"), Outgoing(body=b"three")], how="batch")
    for codec in ("zlib", "lz4", "zstd"):
        sent += java.send(box.name_server, topic, [Outgoing(body=codec.encode() + LONG_TEXT)], compress=codec)

    member = java.consume(box.name_server, f"readers-of-{topic}", topic)
    received = {message.body: message for message in member.received(8)}
    member.leave()

    packed = {codec.encode() + LONG_TEXT for codec in ("zlib", "lz4", "zstd")}
    assert {b"one", b"async", b"one way", b"two", b"three"} | packed == set(received)
    places = {message.message_id: (message.queue, message.offset) for message in received.values()}
    assert {each.message_id: (each.queue, each.offset) for each in sent}.items() <= places.items()
    assert {"TAGS": "A", "KEYS": "k1 k2", "colour": "red"}.items() <= received[b"one"].properties.items()


def test_thirty_first_sends_at_once_are_all_stored_in_a_topic_that_they_make(place: Place) -> None:
    """Each asks for a route that there is not; some were refused since it came between two of their questions."""
    bodies = [b"%d" % number for number in range(30)]

    async def first_sends() -> list[SendResult]:
        topic = place.new_topic()
        async with Producer(name_servers=[place.name_server]) as producer:

            async def send(number: int) -> SendResult:
                await asyncio.sleep(number * 0.0007)
                return await producer.send(topic, bodies[number])

            return list(await asyncio.gather(*(send(number) for number in range(len(bodies)))))

    for _ in range(5):
        places = {(result.queue, result.queue_offset) for result in asyncio.run(first_sends())}
        assert len(bodies) == len(places)


def test_two_java_members_share_the_queues_of_the_box(box: Place, java: JavaPeer) -> None:
    """The first is told of the second, and hands over; when the second leaves, nothing is left behind."""
    topic = box.new_topic()
    group = f"readers-of-{topic}"
    java.send(box.name_server, topic, [Outgoing(body=b"first")])
    first = java.consume(box.name_server, group, topic)
    assert [b"first"] == [message.body for message in first.received(1)]
    second = java.consume(box.name_server, group, topic)

    sent = 0
    given: tuple[list[bytes], list[bytes]] = ([], [])

    def send() -> None:
        nonlocal sent
        java.send(box.name_server, topic, [Outgoing(body=b"%d" % number) for number in range(sent, sent + 8)])
        sent += 8

    def read() -> None:
        for member, bodies in zip((first, second), given, strict=True):
            bodies += [each.body for each in member.received(8, timeout_s=0.5)]

    while not given[1] and sent < 400:
        send()
        read()
    while len({*given[0], *given[1]}) < sent:  # what the second one has must have been read before it goes
        read()
    second.leave()
    send()
    while len({*given[0], *given[1]}) < sent:
        (message,) = first.received(1)
        given[0].append(message.body)
    first.leave()

    assert given[1], "the second member was given nothing"
    assert {b"%d" % number for number in range(sent)} == {*given[0], *given[1]}


def test_what_a_java_member_fails_comes_back_from_the_box(box: Place, java: JavaPeer) -> None:
    topic = box.new_topic()
    (sent,) = java.send(box.name_server, topic, [Outgoing(body=b"again", tags="A")])

    member = java.consume(box.name_server, f"readers-of-{topic}", topic, failures=2)
    attempts = member.received(3)
    member.leave()

    assert [0, 1, 2] == [message.reconsumed for message in attempts]
    assert {sent.message_id} == {message.message_id for message in attempts}
    assert {topic} == {message.topic for message in attempts}


def test_java_consumes_what_our_producer_sent(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()

    async def send() -> list[SendResult]:
        async with Producer(name_servers=place.name_server) as producer:
            results = [
                await producer.send(
                    topic, b"plain", tags="red", keys=["k1", "k2"], properties={"colour": "red", "größe": "ä😀"}
                ),
                await producer.send(topic, b"later", delay_level=1),
            ]
            await producer.send_batch([Message(topic, b"batch-%d" % number, tags="blue") for number in range(3)])
        for codec in ("zlib", "lz4", "zstd"):
            async with Producer(name_servers=place.name_server, compression=codec) as producer:
                results.append(await producer.send(topic, codec.encode() + LONG_TEXT))
        return results

    sent = asyncio.run(send())
    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    received = {message.body: message for message in member.received(8)}
    member.leave()

    packed = [codec.encode() + LONG_TEXT for codec in ("zlib", "lz4", "zstd")]
    assert {b"plain", b"later", b"batch-0", b"batch-1", b"batch-2", *packed} == set(received)
    plain = received[b"plain"]
    assert (sent[0].message_id, sent[0].queue.number, sent[0].queue_offset) == (
        plain.message_id,
        plain.queue,
        plain.offset,
    )
    assert {"TAGS": "red", "KEYS": "k1 k2", "colour": "red", "größe": "ä😀"}.items() <= plain.properties.items()
    assert sent[1].message_id == received[b"later"].message_id


def test_an_order_key_has_the_queue_that_java_gives_it(place: Place, java: JavaPeer) -> None:
    """Texts, numbers as texts, and hashes below zero, the smallest int among them."""
    topic = place.new_topic()
    keys = ["K", "8841", "größe-消息-😀", "polygenelubricants", *(f"order-{n * 7919}" for n in range(40))]
    by_java = java.send(place.name_server, topic, [Outgoing(body=b"x", keys=key) for key in keys], how="ordered")

    async def send() -> list[SendResult]:
        async with Producer(name_servers=place.name_server) as producer:
            return [await producer.send(topic, b"x", order_key=key) for key in keys]

    by_us = asyncio.run(send())
    assert 1 < len({(sent.broker, sent.queue) for sent in by_java})
    assert [(sent.broker, sent.queue) for sent in by_java] == [(each.queue.broker, each.queue.number) for each in by_us]


def test_java_consumes_what_left_one_way_in_collected_batches_and_at_its_time(place: Place, java: JavaPeer) -> None:
    topic = place.new_topic()

    async def send() -> tuple[list[SendResult], SendResult]:
        async with Producer(name_servers=place.name_server, linger="20ms") as producer:
            collected = await asyncio.gather(*(producer.send(topic, b"collected %d" % n) for n in range(20)))
            await producer.send_one_way(topic, {"one": "way"})
            later = await producer.send(topic, b"later", delay="3s")
        return list(collected), later

    collected, later = asyncio.run(send())
    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    received = {message.body: message for message in member.received(22)}
    member.leave()

    assert {b"later", b'{"one":"way"}', *(b"collected %d" % n for n in range(20))} == set(received)
    assert {each.message_id for each in collected} <= {message.message_id for message in received.values()}
    assert 0 == later.delay_level, "by the broker's timer"
    assert later.recall_handle
    assert later.message_id == received[b"later"].message_id


def test_a_recalled_message_never_comes_where_brokers_recall(place: Place, java: JavaPeer) -> None:
    """A stock broker's recall is off until somebody turns it on; what it says then names the setting."""
    topic = place.new_topic()

    async def send() -> tuple[str, str]:
        async with Producer(name_servers=place.name_server) as producer:
            recalled = await producer.send(topic, b"recalled", delay="6s")
            await producer.send(topic, b"kept", delay="6s")
            try:
                return recalled.message_id, await producer.recall(recalled.recall_handle)
            except Refused as error:
                return recalled.message_id, str(error)

    sent, told = asyncio.run(send())
    member = java.consume(place.name_server, f"readers-of-{topic}", topic)
    if told == sent:
        received = [message.body for message in member.received(1)] + [
            each.body for each in member.received(1, timeout_s=3)
        ]
        assert [b"kept"] == received
    else:
        assert "set recallMessageEnable=true there" in told
        assert {b"recalled", b"kept"} == {message.body for message in member.received(2)}
    member.leave()
