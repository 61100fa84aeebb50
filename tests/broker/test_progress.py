"""What groups keep of their progress above a gap, and whose commits count: by requests, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.broker.handlers.offsets import RECORD_BYTES_MAX
from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from tests.broker.broker_lab import BrokerLab
from tests.simulation.left_out import left_out

PLACE = {"consumerGroup": "g", "topic": "t", "queueId": "0"}


def lab_of(folder: Path | None = None) -> BrokerLab:
    lab = BrokerLab(database=None if folder is None else open_folder(folder / "data"))
    lab.send("t")
    lab.node.rules.group("g")
    return lab


def take(lab: BrokerLab, content: bytes = b"first", **place: str) -> int:
    answer = lab.answer(RemotingCommand(RequestCode.BOX_TAKE_PROGRESS, {**PLACE, **place}, content))
    assert ResponseCode.SUCCESS == answer.code, answer.remark
    return int(answer.fields["epoch"])


def update(lab: BrokerLab, epoch: int, content: bytes = b"later") -> int:
    return lab.answer(RemotingCommand(RequestCode.BOX_UPDATE_PROGRESS, {**PLACE, "epoch": str(epoch)}, content)).code


def read(lab: BrokerLab, **place: str) -> tuple[int, bytes] | None:
    answer = lab.answer(RemotingCommand(RequestCode.BOX_QUERY_PROGRESS, {**PLACE, **place}))
    if ResponseCode.QUERY_NOT_FOUND == answer.code:
        return None
    assert ResponseCode.SUCCESS == answer.code
    return int(answer.fields["epoch"]), answer.body


def commit(lab: BrokerLab, offset: int, epoch: int | None, *, flag: int = 0) -> RemotingCommand:
    fields = {**PLACE, "commitOffset": str(offset)} | ({} if epoch is None else {"epoch": str(epoch)})
    return RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields, flag=flag)


def test_the_last_record_is_read_back_with_its_epoch() -> None:
    lab = lab_of()
    assert read(lab) is None
    first = take(lab)
    assert (first, b"first") == read(lab)
    assert ResponseCode.SUCCESS == update(lab, first)
    assert (first, b"later") == read(lab)
    assert read(lab, queueId="1") is None


def test_a_later_acquisition_has_a_higher_epoch_and_what_the_former_writes_is_refused() -> None:
    lab = lab_of()
    former = take(lab, b"of the former")
    present = take(lab, b"of the present")

    assert former < present
    assert ResponseCode.BOX_EPOCH_OUTDATED == update(lab, former)
    assert (present, b"of the present") == read(lab)
    assert ResponseCode.SUCCESS == update(lab, present)


@pytest.mark.parametrize("flag", [0, ONE_WAY_BIT])
def test_a_commit_of_a_former_owner_changes_nothing(flag: int) -> None:
    lab = lab_of()
    former = take(lab)
    lab.ask(commit(lab, 5, former, flag=flag))
    present = take(lab)
    lab.ask(commit(lab, 9, present, flag=flag))
    lab.ask(commit(lab, 7, former, flag=flag))

    assert 9 == lab.node.offsets.get("g", "t", 0)
    if not flag:
        assert [0, 0, 31000] == [answer.code for answer in lab.client.answers[-4:] if "epoch" not in answer.fields]
    lab.ask(commit(lab, 8, None))
    assert 8 == lab.node.offsets.get("g", "t", 0), "who names no epoch is served as by any broker"


def test_without_the_safeguard_a_former_owner_moves_the_offset_back() -> None:
    """The mutant, and here is who notices."""
    lab = lab_of()
    former, present = take(lab), take(lab)
    with left_out("an outdated epoch is refused"):
        lab.ask(commit(lab, 9, present))
        lab.ask(commit(lab, 7, former))

    assert 7 == lab.node.offsets.get("g", "t", 0)


def test_records_and_epochs_outlive_a_restart(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    epoch = take(lab)
    update(lab, epoch)
    lab.store.close()

    again = BrokerLab(database=open_folder(tmp_path / "data"))
    assert (epoch, b"later") == read(again)
    assert ResponseCode.BOX_EPOCH_OUTDATED == update(again, epoch - 1)
    assert epoch < take(again)
    again.store.close()


def test_epochs_rise_though_everything_was_deleted_and_the_clock_was_set_back(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    epoch = take(lab)
    lab.answer(RemotingCommand(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"}))
    lab.send("t")
    assert read(lab) is None
    lab.clock.ms -= 3_600_000
    second = take(lab)
    lab.answer(RemotingCommand(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "true"}))
    lab.node.rules.group("g")
    assert read(lab) is None
    lab.store.close()

    again = BrokerLab(database=open_folder(tmp_path / "data"))
    again.clock.ms -= 7_200_000
    again.node.rules.group("g")
    assert epoch < second < take(again)
    again.store.close()


def test_a_damaged_record_is_not_believed(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    epoch = take(lab)
    lab.store.close()
    database = open_folder(tmp_path / "data")
    database.writing.execute("UPDATE progress SET content = ?", (b"fIrst",))
    database.close()

    again = BrokerLab(database=open_folder(tmp_path / "data"))
    assert read(again) is None
    assert epoch < take(again)
    again.store.close()


@pytest.mark.parametrize(
    ("changes", "code"), [({"consumerGroup": "x"}, 26), ({"topic": "x"}, 17), ({"queueId": "99"}, 29)]
)
@pytest.mark.parametrize("request_code", [31001, 31002, 31003])
def test_of_what_is_not_there_nothing_is_kept(request_code: int, changes: dict[str, str], code: int) -> None:
    lab = lab_of()

    assert code == lab.answer(RemotingCommand(request_code, {**PLACE, "epoch": "1", **changes})).code


def test_a_record_has_its_limit() -> None:
    lab = lab_of()
    epoch = take(lab, b"x" * RECORD_BYTES_MAX)

    assert ResponseCode.INVALID_PARAMETER == update(lab, epoch, b"x" * (RECORD_BYTES_MAX + 1))
    assert (epoch, b"x" * RECORD_BYTES_MAX) == read(lab)
