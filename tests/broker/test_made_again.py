"""A group or topic that is deleted and made again begins without what the former one was owed; others keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.broker.administration_lab import GROUP, ask, commit, make_group, make_topic
from tests.broker.broker_lab import BrokerLab, pull_command

OTHER, OTHER_TOPIC = "writers", "u"


def delete_group(lab: BrokerLab, *, cleans: bool = True) -> None:
    fields = {"groupName": GROUP, "cleanOffset": str(cleans).lower()}
    assert 0 == ask(lab, RequestCode.DELETE_SUBSCRIPTIONGROUP, **fields).code
    make_group(lab)


def delete_topic(lab: BrokerLab) -> None:
    assert 0 == ask(lab, RequestCode.DELETE_TOPIC_IN_BROKER, topic="t").code
    make_topic(lab)
    fill(lab, "t")


DELETED = pytest.mark.parametrize("delete", [delete_group, delete_topic])


def fill(lab: BrokerLab, topic: str) -> None:
    for _ in range(10):
        lab.send(topic)


def lab_of(folder: Path | None = None) -> BrokerLab:
    """Two groups that have read nine of ten messages of each of two topics."""
    lab = BrokerLab(database=None if folder is None else open_folder(folder / "data"))
    for topic in ("t", OTHER_TOPIC):
        make_topic(lab, topic)
        fill(lab, topic)
        for group in (GROUP, OTHER):
            make_group(lab, group)
            commit(lab, 9, group=group, topic=topic)
    return lab


def reset(lab: BrokerLab, group: str = GROUP, topic: str = "t") -> None:
    fields = {"topic": topic, "group": group, "timestamp": "0"}
    assert 0 == ask(lab, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields).code


def pull(lab: BrokerLab, offset: int, group: str = GROUP, topic: str = "t") -> RemotingCommand:
    return lab.answer(pull_command(offset, group=group, topic=topic))


@DELETED
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_reset_that_nobody_has_taken_goes_with_its_group_or_topic(
    delete: Callable[[BrokerLab], None], tmp_path: Path, *, is_restarted: bool
) -> None:
    """Else the new group would be sent back once, and what it commits until then would be thrown away."""
    lab = lab_of(tmp_path)
    reset(lab)
    delete(lab)
    if is_restarted:
        lab.store.close()
        lab = BrokerLab(database=open_folder(tmp_path / "data"))
    commit(lab, 6)
    assert 6 == lab.node.offsets.get(GROUP, "t", 0)
    assert ResponseCode.SUCCESS == pull(lab, 6).code
    lab.store.close()


@DELETED
def test_what_others_are_owed_stays(delete: Callable[[BrokerLab], None]) -> None:
    lab = lab_of()
    others = [(OTHER, OTHER_TOPIC), (OTHER, "t") if delete is delete_group else (GROUP, OTHER_TOPIC)]
    for group, topic in others:
        reset(lab, group, topic)
    delete(lab)
    assert ["OFFSET_RESET"] * 2 == [pull(lab, 9, group, topic).remark for group, topic in others]
    assert [0, 0] == [lab.node.offsets.get(group, topic, 0) for group, topic in others]


@DELETED
def test_offsets_and_figures_go_and_those_of_others_stay(delete: Callable[[BrokerLab], None]) -> None:
    lab = lab_of()
    places = [(group, topic, 0) for group in (GROUP, OTHER) for topic in ("t", OTHER_TOPIC)]
    for group, topic, _ in places:
        pull(lab, 4, group, topic)
    delete(lab)

    gone = {place for place in places if (place[0] == GROUP if delete is delete_group else place[1] == "t")}
    assert [None if place in gone else 9 for place in places] == [lab.node.offsets.get(*place) for place in places]
    assert set(places) - gone == set(lab.node.pulled)
    assert {place[:2] for place in set(places) - gone} == {(group, topic) for group, topic in lab.node.rates}
    assert ([OTHER_TOPIC] if delete is delete_topic else []) == lab.node.offsets.topics_of(GROUP)
    assert {OTHER, *([GROUP] if delete is delete_topic else [])} == {*lab.node.offsets.groups_of(OTHER_TOPIC)}
    assert ([OTHER] if delete is delete_group else []) == lab.node.offsets.groups_of("t")


def test_a_group_that_is_deleted_with_its_offsets_kept_finds_them_again() -> None:
    """As with a stock broker: `cleanOffset` says so; what an administrator asked for stays with them."""
    lab = lab_of()
    reset(lab)
    delete_group(lab, cleans=False)
    assert 0 == lab.node.offsets.get(GROUP, "t", 0)
    assert "OFFSET_RESET" == pull(lab, 9).remark


def test_a_record_of_progress_goes_and_its_epoch_is_not_given_again() -> None:
    place = {"consumerGroup": GROUP, "topic": "t", "queueId": "0"}
    for delete in (delete_group, delete_topic):
        lab = lab_of()
        taken = [
            int(ask(lab, RequestCode.BOX_TAKE_PROGRESS, b"kept", **{**place, "consumerGroup": group}).fields["epoch"])
            for group in (GROUP, OTHER)
        ]
        delete(lab)
        kept = [
            ask(lab, RequestCode.BOX_QUERY_PROGRESS, **{**place, "consumerGroup": group}) for group in (GROUP, OTHER)
        ]
        gone = ResponseCode.QUERY_NOT_FOUND
        assert [gone, gone if delete is delete_topic else 0] == [answer.code for answer in kept]
        anew = int(ask(lab, RequestCode.BOX_TAKE_PROGRESS, b"anew", **place).fields["epoch"])
        assert anew > max(taken)


def test_a_second_reset_stands_in_place_of_the_first() -> None:
    lab = lab_of()
    reset(lab)
    fields = {"topic": "t", "group": GROUP, "timestamp": "-1", "queueId": "0", "offset": "7"}
    assert 0 == ask(lab, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields).code
    assert "7" == pull(lab, 9).fields["nextBeginOffset"]
    assert ResponseCode.SUCCESS == pull(lab, 7).code
