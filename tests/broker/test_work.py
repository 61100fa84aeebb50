"""Cost is counted before it is paid: steps, comparisons, bytes and conversions of each request, and of each turn."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.broker import filters, holds
from framework.broker.dispatch import SHORT_WAITING_MAX
from framework.broker.filters import CONDITION_BYTES, EXPRESSION_MAX, Wanted, _Conditions
from framework.broker.handlers import messages, statistics
from framework.broker.handlers.send import STEP_BYTES
from framework.broker.records import KEYS_MAX
from framework.broker.settings import BrokerSettings
from framework.broker.store import keys, log
from framework.broker.work import STEPS_MAX, Work, asking
from framework.model import sql92
from framework.model.sql92 import conditions, conversion
from framework.wire import dialect
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from tests.broker.administration_lab import ask, commit, make_group, make_topic, query
from tests.broker.broker_lab import BrokerLab, pull_command, send_command, texts
from tests.broker.client_lab import FakeClient
from tests.broker.test_large import _Patient, _serve
from tests.broker.test_loans import _pop, _query
from tests.wire import batches
from tests.wire.batches import BatchedMessage

DIGITS = "1." + "9" * 31_990
"""A number, and all that a message's properties have room for."""
COSTLY = " OR ".join(["a>7.5"] * 400)


class Counted:
    """Calls of a function that a test counts."""

    def __init__(self, patch: pytest.MonkeyPatch, of: Any, name: str) -> None:
        self.calls = 0
        counted: Callable[..., Any] = getattr(of, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return counted(*arguments, **options)

        patch.setattr(of, name, call)


def _heartbeat(*expressions: str, kind: str = "SQL92", group: str = "g", **changes: Any) -> RemotingCommand:
    subscriptions = [
        {"topic": f"t{i}", "subString": text, "expressionType": kind, "subVersion": 1}
        for i, text in enumerate(expressions)
    ]
    consumers = [{"groupName": group, "subscriptionDataSet": subscriptions}]
    body = {"clientID": "c", "consumerDataSet": consumers, "producerDataSet": [], **changes}
    return RemotingCommand(RequestCode.HEART_BEAT, None, dumps(body).encode())


def _pull(expression: str, offset: int = 0, **changes: Any) -> RemotingCommand:
    return pull_command(offset, expression_type="SQL92", subscription=expression, **changes)


# Heartbeats


def test_a_heartbeat_with_a_thousand_conditions_is_refused_before_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It blocked the box for 7 to 10 seconds, and took 499 MB."""
    parsed = Counted(monkeypatch, sql92, "parse")
    lab = BrokerLab()
    refused = lab.answer(_heartbeat(*[COSTLY] * 1000))

    assert 2 == refused.code
    assert "[OVERLOAD] heartbeats of all clients say more than is kept" in str(refused.remark)
    assert (0, 0) == (parsed.calls, lab.node.members.bytes)
    assert lab.node.members.find("g") is None


def test_a_condition_is_read_at_the_first_pull_that_needs_it_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "_CONDITIONS", _Conditions(100_000))
    parsed = Counted(monkeypatch, sql92, "parse")
    lab = BrokerLab()
    for topic in ("t0", "t1"):
        lab.send(topic, properties=texts(a="8"))
    for group in ("g", "h"):
        assert 0 == lab.answer(_heartbeat("a > 7", "a > 6", *["b = 1"] * 50, group=group), FakeClient()).code
    assert 0 == parsed.calls

    for _ in range(3):
        for group in ("g", "h"):
            assert 0 == lab.answer(pull_command(0, "t0", group, sys_flag=0)).code
            assert 0 == lab.answer(_pull("a > 6", topic="t1", group=group)).code
    assert 2 == parsed.calls


def test_of_many_connections_with_a_condition_each_one_is_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty that came with fifteen milliseconds each kept everybody else waiting for their first turn, a second."""
    monkeypatch.setattr(filters, "_CONDITIONS", _Conditions(100_000))
    parsed = Counted(monkeypatch, sql92, "parse")
    lab = BrokerLab()
    lab.send(properties=texts(a="9"))
    clients = [_Patient() for _ in range(5)]
    for i, client in enumerate(clients):
        asked = (
            _pull(f"a > {i}"),
            _pop(exp_type="SQL92", exp=f"a > {i}"),
            RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, None, _check(f"a > {i}")),
        )[i % 3]
        _serve(lab, client, asked)
    assert [1, 0, 0, 0, 0] == [len(client.works) for client in clients]
    assert 0 == parsed.calls
    for i, client in enumerate(clients):
        while client.turn():
            pass
        lab.timers.turn()
        assert i + 1 == parsed.calls

    assert [0, 0, 0, 0, 210] == [answer.code for client in clients for answer in client.answers]


def test_those_that_wait_to_be_read_shut_out_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand conditions of one client counted as requests that wait for the disk, and no send was taken."""
    monkeypatch.setattr(filters, "_CONDITIONS", _Conditions(100_000))
    lab, greedy = BrokerLab(), _Patient()
    lab.send(properties=texts(a="9"))
    for i in range(300):
        _serve(lab, greedy, _pull(f"a = {i}"))

    assert SHORT_WAITING_MAX + 1 == lab.dispatch._quotas.writes
    assert 300 - SHORT_WAITING_MAX - 1 == len(greedy.answers)
    while greedy.works:
        greedy.turn()
    assert 0 == lab.dispatch._quotas.writes
    assert 300 == len(greedy.answers)


def _check(expression: str) -> bytes:
    subscription = {"topic": "t", "subString": expression, "expressionType": "SQL92"}
    return dumps({"clientId": "c", "group": "g", "subscriptionData": subscription}).encode()


def test_what_conditions_are_kept_is_bounded_by_their_characters() -> None:
    kept = _Conditions(100)
    readings = [kept.read(f"a = {i:02}" if i == 0 else f"a = {i + 10}", is_strict=False) for i in range(30)]

    assert sum(len(text) for text, _ in kept._known) == kept._characters <= 100
    assert kept.read("a = 39", is_strict=False) is readings[29]
    assert kept.read("a = 00", is_strict=False) is not readings[0]
    long = kept.read("a = 1" + " OR a = 1" * 100, is_strict=False)
    assert [long] == list(kept._known.values())


def test_what_a_condition_holds_is_reckoned_by_its_text_before_it_is_read() -> None:
    assert len(COSTLY) * CONDITION_BYTES < filters.weight_of(Wanted("t", COSTLY, kind="SQL92"))
    assert 30 * filters.TAG_BYTES <= filters.weight_of(Wanted("t", "||".join(["tag"] * 30)))


def test_a_body_of_too_many_values_is_refused_before_it_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Counted(monkeypatch, dialect, "loads")
    lab = BrokerLab()
    most = lab.settings.values_max
    many = [{"topic": f"t{i}", "brokerName": "b", "queueId": 0} for i in range(most)]
    lock = RemotingCommand(RequestCode.LOCK_BATCH_MQ, None, dumps({"consumerGroup": "g", "mqSet": many}).encode())
    asked = [_heartbeat(*["*"] * 3000, kind="TAG"), _heartbeat(x=[[]] * most), _heartbeat(x=[1] * most), lock]
    answers = [lab.answer(command) for command in asked]

    assert [2] * 4 == [answer.code for answer in answers]
    assert all(f"values, {most} at most" in str(answer.remark) for answer in answers)
    assert 0 == loaded.calls
    assert 0 == lab.answer(_heartbeat(*["*"] * 1000, kind="TAG")).code
    assert 0 == lab.send(body=b",[{" * most).code, "a message's body is nobody's to take apart"


def test_a_user_of_more_topics_may_say_more() -> None:
    assert 12_000 == BrokerSettings().values_max == BrokerSettings(topics_max=10).values_max
    assert 120_000 == BrokerSettings(topics_max=10_000).values_max


def test_a_subscription_that_no_pull_could_carry_is_refused() -> None:
    lab = BrokerLab()
    refused = lab.answer(_heartbeat("x" * (EXPRESSION_MAX + 1), kind="TAG"))

    assert (29, True) == (refused.code, f"{EXPRESSION_MAX} at most" in str(refused.remark))


# Pulls


@pytest.mark.parametrize("operator", ["> 7.5", "> 7", "= 7.5", "= 7", "= TRUE", "BETWEEN 5 AND 6"])
def test_a_number_is_read_once_for_a_message_however_often_it_is_compared(operator: str) -> None:
    """By `a > 1 OR a > 1 ...` on texts of 32,000 digits one pull held everybody for 6 to 8 seconds."""
    condition = sql92.parse(" OR ".join([f"a {operator}"] * 150))
    conversion._double_of.cache_clear()
    conversion._whole_of.cache_clear()
    for i in range(5):
        condition.matches({"a": f"{DIGITS}{i}"})

    infos = (conversion._double_of.cache_info(), conversion._whole_of.cache_info())
    assert 5 >= sum(each.misses for each in infos)
    assert all(each.currsize <= 64 for each in infos)


def test_one_pull_does_so_much_work_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Counted(monkeypatch, conditions, "_numeric_order")
    lab = BrokerLab()
    for i in range(100):
        lab.send(body=b"%d" % i, properties=texts(a="9" if i == 99 else "1"))
    offset, pulls, most = 0, 0, 0
    while offset < 100:
        compared.calls = 0
        answer = lab.answer(_pull(COSTLY, offset))
        most = max(most, compared.calls)
        assert int(answer.fields["nextBeginOffset"]) > offset
        offset, pulls = int(answer.fields["nextBeginOffset"]), pulls + 1

    assert 0 == answer.code
    assert 400 < most <= STEPS_MAX
    assert 100 * sql92.parse(COSTLY).nodes // STEPS_MAX <= pulls <= 25


@pytest.mark.parametrize("search", ["CONTAINS", "STARTSWITH"])
def test_texts_that_are_looked_through_count_by_their_length(search: str) -> None:
    lab = BrokerLab()
    condition = " OR ".join([f"a {search} 'xyz'"] * 180)
    for _ in range(20):
        lab.send(properties=texts(a=DIGITS))
    answer = lab.answer(_pull(condition))

    steps = asking(sql92.parse(condition), len(DIGITS))
    assert 180 * len(DIGITS) // 256 < steps
    assert max(STEPS_MAX // steps, 1) == int(answer.fields["nextBeginOffset"])


def test_properties_count_by_their_bytes_and_messages_by_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = Work.take

    def noted(work: Work, steps: int) -> None:
        taken.append(steps)
        take(work, steps)

    monkeypatch.setattr(Work, "take", noted)
    lab = BrokerLab()
    for _ in range(3):
        lab.send(body=bytes(2_000_000), properties=texts(a="1", b="x" * 30_000))
    answer = lab.answer(_pull("a = 2"))

    assert "1" == answer.fields["nextBeginOffset"]
    assert sum(taken) > (2_000_000 // 512 + 30_000 // 64)


def test_pops_of_many_queues_share_one_amount_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Counted(monkeypatch, conditions, "_numeric_order")
    lab = BrokerLab()
    make_topic(lab, queues=8)
    for number in range(8):
        for _ in range(40):
            lab.send(queue_id=number, properties=texts(a="1"))
    answer = lab.answer(_pop(queue_id=-1, exp_type="SQL92", exp=COSTLY))

    assert 210 == answer.code
    assert 400 < compared.calls <= STEPS_MAX


@given(value=st.text("ab", max_size=300), text=st.text("ab", min_size=1, max_size=80))
def test_a_long_text_is_searched_as_a_short_one_is(value: str, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditions, "_SEARCHED_PLAINLY", 64)

        assert (text in value) is conditions.contains(value, text)


@pytest.mark.parametrize("text", ["a.b", "a+", "(", "[a", "\\", "^a$", "a|b", "\n"])
def test_what_is_searched_for_is_a_text_and_no_pattern(text: str) -> None:
    value = "xaab" * 10_000

    assert (text in value) is conditions.contains(value, text)
    assert conditions.contains(value + text + value, text)


# What waits


def _wait(lab: BrokerLab, count: int, *, topics: int = 1) -> list[FakeClient]:
    clients = [FakeClient() for _ in range(count)]
    for i, client in enumerate(clients):
        pull = _pull(
            f"{COSTLY} OR a = {i}", 1, sys_flag=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=30_000,
            topic=f"t{i % topics}", group=f"g{i}",
        )  # fmt: skip
        lab.ask(pull, client)
        assert [] == client.answers
    return clients


@pytest.mark.parametrize("topics", [1, 20])
def test_what_arrives_is_compared_with_waiting_conditions_within_one_turn_s_work(
    monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    """Sixty waiting pulls cost seven seconds a message. The rest compares in its own turns, in one queue or in many."""
    lab = BrokerLab()
    for i in range(topics):
        lab.send(f"t{i}", properties=texts(a="1"))
    woken = list[Any]()
    monkeypatch.setattr(lab.dispatch, "_wake", woken.append)
    clients = _wait(lab, 60, topics=topics)
    compared = Counted(monkeypatch, conditions, "_numeric_order")
    for i in range(topics):
        lab.dispatch.serve(lab.request(send_command(f"t{i}", properties=texts(a="0.5"))))
    lab.timers.step()

    assert 400 < compared.calls <= STEPS_MAX
    assert 60 - STEPS_MAX // 800 <= len(woken) < 60
    assert [] == [answer for client in clients for answer in client.answers]


def test_the_next_turn_has_work_of_its_own() -> None:
    lab = BrokerLab()
    waiting = lab.node.holds
    waiting.work().take(STEPS_MAX)
    assert 0 == waiting.work().left
    lab.timers.turn()

    assert STEPS_MAX == waiting.work().left
    assert holds.HOLDS_MAX > 0


# Keys


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
