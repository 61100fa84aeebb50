"""Commits: a template makes the frame that the ordinary way makes, whatever stands in the texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model.queue import MessageQueue
from framework.wire import exchanges, frame
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from tests.wire.frames import decode_frame

TEXT = st.text(min_size=1, max_size=20)


def one_way(group: str, queue: MessageQueue, offset: int = 0) -> RemotingCommand:
    command = exchanges.commit(group, queue, offset).request()
    command.flag = ONE_WAY_BIT
    return command


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_template_makes_the_frame_of_the_plain_commit(group: str, topic: str, number: int, offset: int) -> None:
    queue = MessageQueue(topic, "broker-a", 3)
    template = frame.Template(one_way(group, queue), ("commitOffset",))
    plain = one_way(group, queue, offset)
    plain.number = number

    assert frame.encode(plain) == template.frame(number, offset)


@pytest.mark.parametrize("text", ["0", '"opaque":0', '"commitOffset":"', 'x","commitOffset":"1', "commitOffset"])
def test_no_text_of_a_commit_is_mistaken_for_what_varies(text: str) -> None:
    template = frame.Template(one_way(text, MessageQueue(text, "broker-a", 3)), ("commitOffset",))

    command = decode_frame(template.frame(5, 77)[4:])
    assert (5, text, text, "77") == (
        command.number, command.fields["consumerGroup"], command.fields["topic"], command.fields["commitOffset"],
    )  # fmt: skip
