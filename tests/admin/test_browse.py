"""A topic read by an operator: all queues together in the order of storing, and nothing changed by it."""

from __future__ import annotations

from itertools import islice

import pytest

from framework import Message
from framework.admin.browse import Scan, follow, messages, spans
from framework.admin.cluster import Admin
from framework.admin.groups import all_groups
from framework.admin.moments import Moment
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.reading.pulls import EVERYTHING, Filter
from tests.reading.threads import ThreadBox, texts


def bodies(admin: Admin, topic: str, begin: Moment, wanted: Filter = EVERYTHING, scan: Scan | None = None) -> list[str]:
    found = messages(admin, wanted, spans(admin, topic, begin), scan or Scan())
    return [message.body.decode() for message in found]


def test_queues_are_merged_by_store_time(box: ThreadBox, admin: Admin, topic: str) -> None:
    for number in range(12):
        box.send(topic, texts(topic, 1, start=number), queue=number % 3, broker="broker-a")

    scan = Scan()
    found = list(messages(admin, EVERYTHING, spans(admin, topic, Moment("earliest")), scan))

    assert sorted(found, key=lambda each: each.stored_ms) == found
    assert {f"m{number}" for number in range(12)} == {each.body.decode() for each in found}
    assert (12, []) == (scan.scanned, scan.gone)


def test_whoever_stops_early_has_looked_at_what_was_handed_out(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 40), queue=0, broker="broker-a")

    scan = Scan()
    found = list(islice(messages(admin, EVERYTHING, spans(admin, topic, Moment("earliest")), scan), 3))

    assert (3, 3) == (len(found), scan.scanned)


def test_it_begins_where_it_is_told(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    stored_ms = next(messages(admin, EVERYTHING, spans(admin, topic, Moment("earliest")), Scan())).stored_ms

    assert ["m8", "m9"] == bodies(admin, topic, Moment("last", 2))
    assert ["m9"] == bodies(admin, topic, Moment("offset", 9))
    assert [] == bodies(admin, topic, Moment("latest"))
    assert [] == bodies(admin, topic, Moment("offset", 10**6))
    assert 10 == len(bodies(admin, topic, Moment("time", stored_ms)))
    assert [] == bodies(admin, topic, Moment("time", stored_ms + 3_600_000))


def test_brokers_filter_by_tag_and_condition(box: ThreadBox, admin: Admin, topic: str) -> None:
    # "Aa" and "BB" have the same hash in Java, which is all that a broker compares.
    sent = [Message(topic, f"m{n}".encode(), tags=("Aa", "BB")[n % 2], properties={"n": str(n)}) for n in range(6)]
    box.send(topic, sent, queue=0, broker="broker-a")
    scan = Scan()

    assert ["m0", "m2", "m4"] == bodies(admin, topic, Moment("earliest"), Filter(tags="Aa"))
    assert ["m4", "m5"] == bodies(admin, topic, Moment("earliest"), Filter(sql="n >= 4"), scan)
    assert 6 == scan.scanned, "what a filter left out was looked at, too"


def test_what_the_broker_has_deleted_is_named(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 8), queue=0, broker="broker-a")
    ranges = spans(admin, topic, Moment("earliest"))
    box.keep_from(MessageQueue(topic, "broker-a", 0), 3)
    scan = Scan()

    assert ["m3", "m4", "m5", "m6", "m7"] == [m.body.decode() for m in messages(admin, EVERYTHING, ranges, scan)]
    assert [f"{topic}@broker-a:0: offsets 0 to 2"] == scan.gone


def test_following_shows_what_comes(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    coming = follow(admin, EVERYTHING, spans(admin, topic, Moment("latest")), Scan())
    assert next(coming) is None
    box.send(topic, texts(topic, 2, start=3), queue=0, broker="broker-a")

    found = (message for message in coming if message is not None)
    assert ["m3", "m4"] == [message.body.decode() for message in islice(found, 2)]


def test_reading_makes_no_group_and_no_topic(box: ThreadBox, admin: Admin, topic: str) -> None:
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    before = all_groups(admin), admin.topics()
    bodies(admin, topic, Moment("earliest"))
    with pytest.raises(ConfigurationError, match=f"no broker has a topic '{topic}-other'"):
        spans(admin, f"{topic}-other", Moment("earliest"))

    assert before == (all_groups(admin), admin.topics())
