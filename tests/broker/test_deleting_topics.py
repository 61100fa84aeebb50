"""A topic is deleted (215): at once for everybody, its messages bit by bit, or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from framework.broker.store import dropped
from framework.broker.store.database import open_folder
from framework.model.reserved import SCHEDULE_TOPIC
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import GROUP, ask, commit, query
from tests.broker.broker_lab import BrokerLab, pull_command, texts


def test_a_deleted_topic_leaves_nothing_behind_and_its_places_are_not_used_again(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    for number in range(1200):
        lab.send(body=b"m%d" % number, properties=texts(KEYS="k"))
    commit(lab, 5)
    place = lab.store.writer.place

    assert ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t").code == 0
    assert query(lab, "k") == []
    assert lab.answer(pull_command(0)).code == ResponseCode.TOPIC_NOT_EXIST
    lab.timers.advance(1000)
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    assert lab.database.writing.execute("SELECT count(*) FROM dropped_queues").fetchone() == (0,)
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    lab.send(body=b"anew")
    (record,) = lab.records("t")
    assert (record.queue_offset, record.commit_log_offset, record.body) == (0, place, b"anew")
    assert lab.node.offsets.get(GROUP, "t", 0) is None


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_broker(tmp_path: Path) -> None:
    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    for _ in range(600):
        lab.send()
    lab.dispatch.serve(lab.request(RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})))
    lab.timers.step()
    lab.store.close()

    lab = BrokerLab(database=open_folder(tmp_path / "data"))
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() != (0,)
    lab.store.sweep.resume()
    lab.send(body=b"meanwhile")
    lab.timers.advance(1000)
    assert [record.body for record in lab.records("t")] == [b"meanwhile"]
    assert lab.database.writing.execute("SELECT count(*) FROM messages").fetchone() == (1,)


def test_a_deletion_that_fails_leaves_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = BrokerLab()
    lab.send()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(dropped, "drop", full)
    refused = ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t")

    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "disk is full" in (refused.remark or "")
    assert lab.answer(pull_command(0)).code == 0
    assert lab.send().fields["queueOffset"] == "1"


@pytest.mark.parametrize("name", ["", "TBW102", SCHEDULE_TOPIC])
def test_what_the_broker_needs_is_not_deleted(name: str) -> None:
    assert ask(BrokerLab(), RequestCode.DELETE_TOPIC_IN_BROKER, topic=name).code == ResponseCode.INVALID_PARAMETER
