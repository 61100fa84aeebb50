"""Command: its flags, equality and repr."""

from __future__ import annotations

import pytest

from framework.wire.command import RemotingCommand


def test_flags_tell_requests_answers_and_one_ways_apart() -> None:
    assert (False, True, False) == (
        RemotingCommand(1).is_answer,
        RemotingCommand(1, flag=1).is_answer,
        RemotingCommand(1, flag=2).is_answer,
    )
    assert (False, False, True) == (
        RemotingCommand(1).is_one_way,
        RemotingCommand(1, flag=1).is_one_way,
        RemotingCommand(1, flag=2).is_one_way,
    )


def test_commands_are_equal_by_content_and_never_keys() -> None:
    assert RemotingCommand(1, {"a": "b"}) == RemotingCommand(1, {"a": "b"})
    assert RemotingCommand(1) != RemotingCommand(2)
    assert RemotingCommand(1) != "a command"
    with pytest.raises(TypeError):
        hash(RemotingCommand(1))


def test_its_repr_shows_the_kind_and_never_the_body() -> None:
    assert "<Command answer code=0 number=0 fields={} body=6B>" == repr(RemotingCommand(0, flag=1, body=b"secret"))
    assert "one-way" in repr(RemotingCommand(0, flag=2))
    assert "request" in repr(RemotingCommand(0))
