"""What is long is done in steps: searches by key, batches, acknowledgements, and what is said of all groups."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from framework.broker.handlers import messages, statistics
from framework.broker.handlers.send import STEP_BYTES
from framework.broker.records import KEYS_MAX
from framework.broker.store import keys, log
from framework.wire import dialect
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import ask, commit, make_group, query
from tests.broker.broker_lab import BrokerLab, send_command, texts
from tests.broker.test_large import _Patient, _serve
from tests.broker.test_loans import _query
from tests.broker.test_work import Counted
from tests.wire import batches
from tests.wire.batches import BatchedMessage


class Reads:
    """Bytes of records that are read and checked."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = self.bytes = 0
        sound = log.is_sound

        def noted(record: Any, checksum: Any) -> bool:
            self.count += 1
            self.bytes += len(record)
            return sound(record, checksum)

        patch.setattr(log, "is_sound", noted)


def test_a_message_that_names_a_key_640_times_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight of them, with bodies of 3.9 MB and a key that collides, held everybody for 9.5 seconds."""
    lab, reads = BrokerLab(), Reads(monkeypatch)
    for _ in range(2):
        lab.send(body=b"large", properties=texts(KEYS=" ".join(["plumless"] * 640)))
    (row,) = lab.database.writing.execute("SELECT sum(length(hashes)) FROM message_keys").fetchall()

    assert [] == query(lab, "buckeroo"), "another key of the same hash"
    assert 2 == reads.count
    assert (2 * 2 * 4,) == row, "the key, and its unique one"


def test_an_index_that_names_a_message_many_times_has_it_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As older stores have them."""
    lab = BrokerLab()
    lab.send()
    (message,) = lab.database.writing.execute("SELECT id FROM messages").fetchone()
    for _ in range(3):
        keys.write(lab.database.writing, lab.clock.ms, [crc32(b"t#k")] * 640, [message] * 640)
    reads = Reads(monkeypatch)

    assert [] == query(lab, "k")
    assert 1 == reads.count


def test_a_query_reads_so_many_bytes_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_READ_BYTES_MAX", 1_000_000)
    lab = BrokerLab()
    lab.send(body=b"first", properties=texts(KEYS="buckeroo"))
    for _ in range(8):
        lab.send(body=bytes(300_000), properties=texts(KEYS="plumless"))
    reads = Reads(monkeypatch)
    refused = lab.answer(_query("buckeroo"))

    assert (2, "[OVERLOAD] a query by key reads 1000000 bytes of messages at most; name a shorter time") == (
        refused.code,
        refused.remark,
    )
    assert 1_000_000 <= reads.bytes < 1_300_000
    lab.send(body=b"last", properties=texts(KEYS="buckeroo"))
    assert [b"last"] == query(lab, "buckeroo"), "what was found until then"


def test_messages_that_are_not_meant_count_for_a_step_too() -> None:
    lab, client = BrokerLab(), _Patient()
    for _ in range(8):
        lab.send(body=bytes(200_000), properties=texts(KEYS="plumless"))
    _serve(lab, client, _query("buckeroo"))
    steps = 0
    while client.turn():
        steps += 1

    assert 4 <= steps
    assert [22] == [answer.code for answer in client.answers]


def test_the_index_is_searched_stretch_by_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "STRETCH_ROWS", 10)
    lab, client = BrokerLab(), _Patient()
    for i in range(45):
        lab.timers.advance(1000)
        lab.send(body=b"%d" % i, properties=texts(KEYS=f"k{i % 15}"))
    stretches = {
        since: sum(1 for each in keys.find(lab.database.reading, crc32(b"t#none"), since, 1 << 60) if each is None)
        for since in (0, lab.clock.ms - 5000, lab.clock.ms + 1)
    }
    _serve(lab, client, _query("k3"))
    steps = 0
    while client.turn():
        steps += 1

    assert [5, 1, 0] == list(stretches.values())
    assert 5 <= steps
    assert [b"33", b"18", b"3"] == query(lab, "k3")
    now_ms = lab.clock.ms
    assert [b"18"] == query(lab, "k3", begin_timestamp=now_ms - 40_500, end_timestamp=now_ms - 20_000)


def test_the_first_keys_of_a_message_are_found_and_a_row_holds_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ROW_KEYS_MAX", 30)
    lab = BrokerLab()
    lab.send(properties=texts(KEYS=" ".join(f"k{i}" for i in range(KEYS_MAX + 50)), UNIQ_KEY="own"))
    sizes = lab.database.writing.execute("SELECT length(hashes) / 4, length(messages) / 8 FROM message_keys").fetchall()

    assert [[b"hello"]] * 4 == [query(lab, key) for key in ("own", "k0", "k31", f"k{KEYS_MAX - 1}")]
    assert [] == query(lab, f"k{KEYS_MAX}")
    assert [(30, 30)] * 3 + [(11, 11)] == sizes


# Others


def test_a_batch_of_few_messages_with_many_properties_goes_in_steps() -> None:
    lab, client = BrokerLab(), _Patient()
    wide = {f"p{i}": "x" * 20 for i in range(1000)}
    command = send_command()
    body = batches.encode(BatchedMessage(b"%d" % i, wide) for i in range(100))
    _serve(lab, client, RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, {**command.fields, "m": "true"}, body))
    steps = 0
    while client.turn():
        steps += 1
    lab.timers.turn()

    assert len(body) // (2 * STEP_BYTES) < steps
    assert [0] == [answer.code for answer in client.answers]
    assert [b"%d" % i for i in range(100)] == [record.body for record in lab.records("t")]


def test_an_acknowledgement_of_too_many_is_refused_before_one_is_looked_for() -> None:
    entry = BatchAckEntry(
        group="g", topic="t", retry="0", start_offset=0, queue_id=0, revive_queue_id=0, pop_time=1, invisible_time=1,
        bits=b"\xff" * 1024,
    )  # fmt: skip
    body = BatchAck(broker_name="broker-a", acks=(entry,) * 20).encode()
    lab = BrokerLab()
    refused = lab.answer(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, None, body))

    assert (2, True) == (refused.code, "bits in one request, 10000 at most" in str(refused.remark))


def _groups_with_offsets(lab: BrokerLab, groups: int, topics: int) -> None:
    for t in range(topics):
        lab.send(f"topic-{t}")
    for g in range(groups):
        make_group(lab, f"group-{g}")
        for t in range(topics):
            commit(lab, 1, group=f"group-{g}", topic=f"topic-{t}")


def _in_steps(lab: BrokerLab, code: int, **fields: str) -> tuple[int, bytes]:
    client = _Patient()
    _serve(lab, client, RemotingCommand(code, fields))
    steps = 0
    while client.turn():
        steps += 1
    return steps, client.answers[0].body


def test_what_is_said_of_all_groups_is_made_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 80,000 offsets one such question held everybody for 38 seconds."""
    lab = BrokerLab()
    _groups_with_offsets(lab, 6, 5)
    whole = [ask(lab, 317, isOrder="false").body, ask(lab, 43).body]
    monkeypatch.setattr(statistics, "_STEP_QUEUES", 4)
    monkeypatch.setattr(statistics, "_STEP_OFFSETS", 4)
    scanned = Counted(monkeypatch, lab.node.offsets.table, "items")
    stats_steps, stats = _in_steps(lab, 317, isOrder="false")
    assert 0 == scanned.calls, "not all offsets again for each group"
    offsets_steps, offsets = _in_steps(lab, 43)

    assert whole == [stats, offsets]
    assert 30 <= 4 * stats_steps
    assert 2 * 30 // 4 <= offsets_steps
    assert {f"topic-{t}@group-{g}" for t in range(5) for g in range(6)} == set(dialect.loads(offsets)["offsetTable"])
    found = dialect.loads(stats)["consumeStatsList"]
    assert [f"group-{g}" for g in range(6)] == [name for each in found for name in each if name.startswith("group")]


def test_what_no_frame_holds_of_all_groups_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = BrokerLab()
    _groups_with_offsets(lab, 6, 5)
    monkeypatch.setattr(statistics, "_BODY_BYTES_MAX", 500)
    answers = [ask(lab, 317, isOrder="false"), ask(lab, 43)]

    assert [2, 2] == [answer.code for answer in answers]
    assert all("an answer of more than 500 bytes" in str(answer.remark) for answer in answers)


def test_where_groups_committed_is_known_as_the_table_has_it(tmp_path: Any) -> None:
    """Through deleting and making again, and over a restart."""
    lab = BrokerLab()
    offsets = lab.node.offsets
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t"), ("g", "t")):
        offsets.put(group, topic, 0, 5)
    offsets.reset("k", "u", 3, 1)
    known = [offsets.topics_of("g"), offsets.groups_of("t"), offsets.groups_of("u"), offsets.topics_of("k")]
    offsets.drop_where(group="g")
    left = [offsets.topics_of("g"), offsets.groups_of("t"), offsets.groups_of("u")]
    offsets.put("g", "t", 0, 1)
    offsets.drop_where(topic="t")

    assert [["t", "u"], ["g", "h"], ["g", "k"], ["u"]] == known
    assert [[], ["h"], ["k"]] == left
    assert ([], [], ["k"]) == (offsets.topics_of("g"), offsets.groups_of("t"), offsets.groups_of("u"))
    assert ({"k"}, {"u"}) == (set(offsets._topics), set(offsets._groups))
