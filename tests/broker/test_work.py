"""What conditions cost is counted before it is paid: comparisons, bytes, conversions, of each request and each turn."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.broker import filters, holds
from framework.broker.dispatch import SHORT_WAITING_MAX
from framework.broker.filters import CONDITION_BYTES, EXPRESSION_MAX, Wanted, _Conditions
from framework.broker.settings import BrokerSettings
from framework.broker.work import STEPS_MAX, Work, asking
from framework.model import sql92
from framework.model.sql92 import conditions, conversion
from framework.wire import dialect
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import SUBSCRIPTION, SUSPEND
from tests.broker.administration_lab import make_topic
from tests.broker.broker_lab import BrokerLab, pull_command, send_command, texts
from tests.broker.client_lab import FakeClient
from tests.broker.test_large import _Patient, _serve
from tests.broker.test_loans import _pop

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
