"""Commits: a template makes the frame that the ordinary way makes, whatever stands in the texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.model.queue import MessageQueue
from framework.wire import exchanges, frame
from framework.wire.command import ONE_WAY_BIT
from framework.wire.requests.offset import CommitTemplate

TEXT = st.text(min_size=1, max_size=20)


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_template_makes_the_frame_of_the_plain_commit(group: str, topic: str, number: int, offset: int) -> None:
    queue = MessageQueue(topic, "broker-a", 3)
    template = CommitTemplate(exchanges.commit(group, queue, 0).request())
    plain = exchanges.commit(group, queue, offset).request()
    plain.number, plain.flag = number, ONE_WAY_BIT

    assert plain == frame.decode(template.frame(number, offset)[4:])


@pytest.mark.parametrize("text", ["0", '"opaque":0', '"commitOffset":"', 'x","commitOffset":"1', "commitOffset"])
def test_no_text_of_a_commit_is_mistaken_for_what_varies(text: str) -> None:
    template = CommitTemplate(exchanges.commit(text, MessageQueue(text, "broker-a", 3), 0).request())

    command = frame.decode(template.frame(5, 77)[4:])
    assert (5, text, text, "77") == (
        command.number, command.fields["consumerGroup"], command.fields["topic"], command.fields["commitOffset"],
    )  # fmt: skip
