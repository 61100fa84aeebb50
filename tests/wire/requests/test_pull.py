"""Pulls by template are the same requests as by the ordinary way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ProtocolError
from framework.wire.command import RemotingCommand
from framework.wire.requests.pull import COMMIT_OFFSET, SUSPEND, PullRequest, PullTemplate, read_progress
from tests.wire.frames import decode_frame

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
OFFSETS = st.integers(0, 2**63 - 1)


def pull(topic: str = "T", subscription: str | None = "*", sys_flag: int = SUSPEND) -> PullRequest:
    return PullRequest(
        consumer_group="g1", topic=topic, queue_id=3, queue_offset=0, max_msg_nums=32, sys_flag=sys_flag,
        commit_offset=0, suspend_timeout_millis=15_000, sub_version=7, subscription=subscription, expression_type="TAG",
        broker_name="broker-a",
    )  # fmt: skip


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), OFFSETS, st.none() | OFFSETS)
def test_a_template_makes_the_frame_of_the_plain_request(
    topic: str, subscription: str, number: int, offset: int, commit: int | None
) -> None:
    template = PullTemplate(pull(topic, subscription))
    plain = template.command(offset, commit)
    plain.number = number

    assert plain == decode_frame(template.frame(number, offset, commit)[4:])


@pytest.mark.parametrize("topic", ["0", '"opaque":0', '"queueOffset":"', 'x","queueOffset":"1', "commitOffset"])
def test_no_text_of_a_request_is_mistaken_for_what_varies(topic: str) -> None:
    template = PullTemplate(pull(topic, topic))

    command = decode_frame(template.frame(5, 77, 66)[4:])

    assert (5, topic, topic) == (command.number, command.fields["topic"], command.fields["subscription"])
    assert ("77", "66", "3") == tuple(command.fields[name] for name in ("queueOffset", "commitOffset", "sysFlag"))


def test_the_commit_flag_stands_only_with_a_commit_offset() -> None:
    template = PullTemplate(pull(sys_flag=SUSPEND | COMMIT_OFFSET))

    assert ("2", "0") == flag_and_commit(template.command(5, None))
    assert ("3", "4") == flag_and_commit(template.command(5, 4))
    assert ("2", "0") == flag_and_commit(decode_frame(template.frame(1, 5, None)[4:]))


def flag_and_commit(command: RemotingCommand) -> tuple[str, str]:
    return command.fields["sysFlag"], command.fields["commitOffset"]


ANSWER = {"suggestWhichBrokerId": "0", "nextBeginOffset": "12", "minOffset": "3", "maxOffset": "45"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, (12, 3, 45, 0)),
        ({"offsetDelta": "7"}, (12, 3, 45, 7)),
        ({"minOffset": "-1"}, (12, -1, 45, 0)),
        ({"maxOffset": str(-(2**63))}, (12, 3, -(2**63), 0)),
    ],
)
def test_an_answers_progress_is_read(extra: dict[str, str], expected: tuple[int, ...]) -> None:
    assert expected == read_progress({**ANSWER, **extra})


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"nextBeginOffset": "x"}, "PullAnswer: field nextBeginOffset='x' is not an integer"),
        ({"maxOffset": str(2**63)}, "PullAnswer: field maxOffset=.* is outside 64 bits"),
        ({"offsetDelta": "9" * 30}, "PullAnswer: field offsetDelta=.* is not an integer"),
    ],
)
def test_an_odd_answer_is_named_by_its_field(extra: dict[str, str], reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_progress({**ANSWER, **extra})


def test_an_answer_without_offsets_is_refused() -> None:
    with pytest.raises(ProtocolError, match="PullAnswer: field suggestWhichBrokerId is missing"):
        read_progress({})
