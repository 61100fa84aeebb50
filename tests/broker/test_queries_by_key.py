"""Messages found by their keys (12): which, in which order, and what a restart leaves of the index."""

from __future__ import annotations

from pathlib import Path

from framework.broker.store.database import open_folder
from tests.broker.administration_lab import query
from tests.broker.broker_lab import BrokerLab, texts


def test_messages_are_found_by_each_key_the_newest_first() -> None:
    lab = BrokerLab()
    for number in range(3):
        lab.send(body=b"m%d" % number, properties=texts(KEYS=f"order-{number} all", UNIQ_KEY=f"U{number}"))
    lab.send("other", b"elsewhere", properties=texts(KEYS="all"))

    assert query(lab, "order-1") == [b"m1"]
    assert query(lab, "all") == [b"m2", b"m1", b"m0"]
    assert query(lab, "all", max_num=2) == [b"m2", b"m1"]
    assert query(lab, "U2", unique=True) == [b"m2"]
    assert query(lab, "order-1", unique=True) == []
    assert query(lab, "nobody's") == []


def test_a_time_range_bounds_the_search() -> None:
    lab = BrokerLab()
    lab.send(body=b"early", properties=texts(KEYS="k"))
    between = lab.clock.ms + 1
    lab.timers.advance(1000)
    lab.send(body=b"late", properties=texts(KEYS="k"))

    assert query(lab, "k", end_timestamp=between) == [b"early"]
    assert query(lab, "k", begin_timestamp=between) == [b"late"]


def test_keys_with_the_same_hash_are_told_apart() -> None:
    """CRC-32 is linear: texts of one length with the same difference collide."""
    lab = BrokerLab()
    lab.send(body=b"plumless", properties=texts(KEYS="plumless"))
    lab.send(body=b"buckeroo", properties=texts(KEYS="buckeroo"))

    assert query(lab, "plumless") == [b"plumless"]
    assert query(lab, "buckeroo") == [b"buckeroo"]


def test_a_delayed_message_is_found_when_it_is_there() -> None:
    lab = BrokerLab()
    lab.send(body=b"later", properties=texts(KEYS="k", DELAY="1"))
    assert query(lab, "k") == []

    lab.timers.advance(2000)
    assert query(lab, "k") == [b"later"]


def test_the_index_survives_a_restart(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    lab.send(properties=texts(KEYS="k"))
    lab.store.close()

    assert query(BrokerLab(database=open_folder(tmp_path / "data")), "k") == [b"hello"]
