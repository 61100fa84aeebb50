"""Delays that a producer asks for by its message's properties: levels, times of its own, instants."""

from __future__ import annotations

import pytest

from framework.broker.delays import TIMER_TOPIC
from framework.broker.settings import BrokerSettings
from framework.broker.store.database import open_folder
from framework.wire.codes import ResponseCode
from tests.broker.broker_lab import BrokerLab, send_back_command, texts

DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("properties", "wait_ms"),
    [
        ({"TIMER_DELAY_SEC": "7"}, 7000),
        ({"TIMER_DELAY_MS": "1234"}, 1234),
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9000"}, 2000),
        ({"TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1"}, 9000),
        ({"TIMER_DELAY_MS": str(3 * DAY_MS)}, 3 * DAY_MS),
        ({"DELAY": "2", "TIMER_DELAY_MS": "1"}, 5000),
        ({"DELAY": "0", "TIMER_DELAY_MS": "50"}, 50),
    ],
)
def test_it_comes_at_its_millisecond_and_once(properties: dict[str, str], wait_ms: int) -> None:
    lab = BrokerLab()
    assert lab.send(body=b"later", properties=texts(TAGS="A", **properties)).code == 0
    lab.timers.advance(wait_ms - 1)
    assert lab.records("t") == []

    lab.timers.advance(1)
    assert [record.body for record in lab.records("t")] == [b"later"]
    lab.timers.advance(60_000)
    assert len(lab.records("t")) == 1


def test_an_instant_is_one_of_the_wall_clock_also_after_it_was_set() -> None:
    """The deliverer's clock is the broker's: an hour's step moves what is asked for afterwards, and nothing else."""
    lab = BrokerLab()
    lab.send(properties=texts(TIMER_DELAY_MS="5000"), body=b"before")
    lab.clock.skew_ms = 3_600_000
    lab.send(properties=texts(TIMER_DELIVER_MS=str(lab.clock.now_ms() + 3000)), body=b"after")
    lab.timers.advance(3000)
    assert [record.body for record in lab.records("t")] == [b"after"]

    lab.timers.advance(2000)
    assert [record.body for record in lab.records("t")] == [b"after", b"before"]


@pytest.mark.parametrize(
    "properties",
    [{"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-5"}, {"TIMER_DELIVER_MS": "1000"}, {"DELAY": "x"}],
)
def test_what_is_over_is_no_delay(properties: dict[str, str]) -> None:
    lab = BrokerLab()
    lab.send(properties=texts(**properties))

    assert len(lab.records("t")) == 1


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"TIMER_DELAY_MS": str(3 * DAY_MS + 1)}, "should not be bigger than the max delay 259200000ms"),
        ({"TIMER_DELAY_SEC": "soon"}, "TIMER_DELAY_SEC='soon' is no whole number"),
        ({"TIMER_DELAY_MS": "9" * 40}, "is no whole number"),
        ({"TIMER_DELIVER_MS": "1e9"}, "is no whole number"),
    ],
)
def test_what_is_no_time_or_too_far_away_is_refused_with_13(properties: dict[str, str], reason: str) -> None:
    lab = BrokerLab()
    answer = lab.send(properties=texts(**properties))

    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert reason in (answer.remark or "")
    assert lab.records(TIMER_TOPIC) == []


def test_the_maximum_is_a_setting() -> None:
    lab = BrokerLab(settings=BrokerSettings(timer_ms_max=1000))

    assert lab.send(properties=texts(TIMER_DELAY_SEC="2")).code == ResponseCode.MESSAGE_ILLEGAL


def test_its_copies_are_not_delayed_again_by_the_same_properties() -> None:
    lab = BrokerLab()
    lab.send(properties=texts(TIMER_DELAY_SEC="7"))
    lab.timers.advance(7000)
    (record,) = lab.records("t")
    assert record.properties["TIMER_OUT_MS"] == str(lab.clock.ms)
    lab.answer(send_back_command(record, level=-1))
    lab.send("%DLQ%g2", properties=texts(TIMER_DELAY_SEC="7"))

    assert [len(lab.records(topic)) for topic in ("%DLQ%g", "%DLQ%g2")] == [1, 1]


def test_it_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("box")
    lab = BrokerLab(database=open_folder(folder))
    lab.send(body=b"x", properties=texts(TIMER_DELAY_SEC="7"))
    lab.node.delays.rounds.stop()
    lab.store.close()

    again = BrokerLab(database=open_folder(folder))
    again.timers.advance(7000)
    assert [record.body for record in again.records("t")] == [b"x"]
    again.store.close()
