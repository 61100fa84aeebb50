"""SQL92 filters in the box: what is let through, how far a pull goes, and what is refused with which code."""

from __future__ import annotations

from typing import Any

import pytest

from framework.broker.filters import SQL92, Wanted
from framework.broker.settings import BrokerSettings
from framework.broker.store.log import SCAN_MAX
from framework.wire.command import RemotingCommand
from framework.wire.stored import decode_records
from tests.broker.broker_lab import BrokerLab, pull_command, texts
from tests.broker.client_lab import FakeClient


def _filled(count: int = 10, *, is_strict: bool = False) -> BrokerLab:
    lab = BrokerLab(settings=BrokerSettings(is_sql_strict=is_strict))
    for i in range(count):
        lab.send(body=b"%d" % i, properties=texts(n=str(i), colour="red" if i % 2 else "blue"))
    return lab


def _pull(lab: BrokerLab, expression: str, offset: int = 0, count: int = 32) -> RemotingCommand:
    return lab.answer(pull_command(offset, expression_type="SQL92", subscription=expression, max_msg_nums=count))


def _bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in decode_records(answer.body)]


def _join(lab: BrokerLab, expression: str) -> None:
    lab.node.members.heard(
        FakeClient(), "c", "g",
        [Wanted("t", expression, kind=SQL92, version=1, is_strict=lab.settings.is_sql_strict)],
        consume_type="", message_model="", consume_from="", language=3, version=477,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "bodies"),
    [
        ("n > 6", [b"7", b"8", b"9"]),
        ("n BETWEEN 2 AND 5 AND colour = 'red'", [b"3", b"5"]),
        ("absent IS NULL AND n IN ('1', '2')", [b"1", b"2"]),
        ("colour CONTAINS 'lu' AND NOT (n = 0)", [b"2", b"4", b"6", b"8"]),
    ],
)
def test_what_the_condition_is_true_of_is_given(expression: str, bodies: list[bytes]) -> None:
    answer = _pull(_filled(), expression)

    assert (answer.code, answer.fields["nextBeginOffset"]) == (0, "10")
    assert _bodies(answer) == bodies


def test_the_offset_moves_past_what_is_filtered_out() -> None:
    lab = _filled()
    nothing = _pull(lab, "n > 100")
    first = _pull(lab, "colour = 'red'", count=2)
    then = _pull(lab, "colour = 'red'", offset=4, count=2)

    assert (nothing.code, nothing.remark, nothing.fields["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "10")
    assert (_bodies(first), first.fields["nextBeginOffset"]) == ([b"1", b"3"], "4")
    assert (_bodies(then), then.fields["nextBeginOffset"]) == ([b"5", b"7"], "8")


def test_one_pull_looks_at_a_bounded_number_of_messages() -> None:
    lab = _filled(SCAN_MAX + 10)
    answer = _pull(lab, "n > 100000")

    assert (answer.code, answer.fields["nextBeginOffset"]) == (20, str(SCAN_MAX))


def test_an_answer_has_room_for_so_many_bytes_and_one_message_at_least() -> None:
    lab = BrokerLab()
    for _ in range(3):
        lab.send(body=b"x" * 200_000, properties=texts(n="1"))
    answer = _pull(lab, "n = 1")

    assert (len(_bodies(answer)), answer.fields["nextBeginOffset"]) == (1, "1")


def test_a_member_s_heartbeat_brings_the_condition() -> None:
    lab = _filled()
    _join(lab, "n >= 8")

    assert _bodies(lab.answer(pull_command(0, sys_flag=0, sub_version=1))) == [b"8", b"9"]


def test_a_member_whose_expression_cannot_be_understood_is_told_27_with_the_place() -> None:
    lab = _filled()
    _join(lab, "n >=")
    answer = lab.answer(pull_command(0, sys_flag=0, sub_version=1))

    assert answer.code == 27
    assert "character 5" in (answer.remark or "")


@pytest.mark.parametrize(("expression", "lenient"), [("n = 007", [b"0"]), ("colour LIKE 'r%'", None)])
def test_strict_refuses_what_rocketmq_takes_and_misreads(expression: str, lenient: list[bytes] | None) -> None:
    assert _pull(_filled(is_strict=True), expression).code == 23
    if lenient is None:
        assert _pull(_filled(), expression).code in {20, 23}
    else:
        assert _bodies(_pull(_filled(), expression)) == lenient


HELD: dict[str, Any] = {
    "expression_type": "SQL92",
    "subscription": "n > 100",
    "sys_flag": 6,
    "suspend_timeout_millis": 15_000,
}


def test_a_held_pull_sleeps_through_what_its_condition_does_not_let_through() -> None:
    lab, waiting = _filled(1), FakeClient()
    lab.ask(pull_command(1, **HELD), waiting)
    for _ in range(5):
        lab.send(body=b"no match", properties=texts(n="7"))
    assert waiting.answers == []
    lab.send(body=b"match", properties=texts(n="101"))

    (answer,) = waiting.answers
    assert (answer.code, _bodies(answer), answer.fields["nextBeginOffset"]) == (0, [b"match"], "7")


def test_a_held_pull_that_nothing_matched_is_told_at_its_deadline_where_to_go_on() -> None:
    lab, waiting = _filled(1), FakeClient()
    lab.ask(pull_command(1, **HELD), waiting)
    lab.send(body=b"no match", properties=texts(n="7"))
    lab.timers.advance(14_999)
    assert waiting.answers == []

    lab.timers.advance(1)
    (answer,) = waiting.answers
    assert (answer.code, answer.remark, answer.fields["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "2")


def test_a_delayed_message_wakes_the_pull_that_wants_it_when_it_is_due() -> None:
    lab, waiting = _filled(1), FakeClient()
    lab.ask(pull_command(1, **HELD), waiting)
    lab.send(body=b"later", properties=texts(n="101", DELAY="1"))
    assert waiting.answers == []

    lab.timers.advance(1000)
    (answer,) = waiting.answers
    assert _bodies(answer) == [b"later"]


def test_a_damaged_message_stops_the_pull_that_reaches_it_and_hides_nothing_before_it() -> None:
    lab = _filled()
    queue = lab.node.queue("t", 0)
    assert queue is not None
    lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE id = ?", (queue.base + 5,))
    first, second = _pull(lab, "n >= 3"), _pull(lab, "n >= 3", offset=5)

    assert (_bodies(first), first.fields["nextBeginOffset"]) == ([b"3", b"4"], "5")
    assert (second.code, "message 5 of t@broker-a:0 is damaged" in (second.remark or "")) == (1, True)


def test_switched_off_it_is_refused_as_on_a_stock_broker() -> None:
    lab = _filled()
    lab.node.switches.put("enablePropertyFilter", "false")
    answer = _pull(lab, "n > 1")

    assert (answer.code, answer.remark) == (1, "The broker does not support consumer to filter message by SQL92")
