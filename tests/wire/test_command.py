"""Command: its flags, equality and repr."""

from __future__ import annotations

import pytest

from framework.wire.command import Command


def test_flags_tell_requests_answers_and_one_ways_apart() -> None:
    assert (False, True, False) == (Command(1).is_answer, Command(1, flag=1).is_answer, Command(1, flag=2).is_answer)
    assert (False, False, True) == (Command(1).is_one_way, Command(1, flag=1).is_one_way, Command(1, flag=2).is_one_way)


def test_commands_are_equal_by_content_and_never_keys() -> None:
    assert Command(1, {"a": "b"}) == Command(1, {"a": "b"})
    assert Command(1) != Command(2)
    assert Command(1) != "a command"
    with pytest.raises(TypeError):
        hash(Command(1))


def test_its_repr_shows_the_kind_and_never_the_body() -> None:
    assert "<Command answer code=0 number=0 fields={} body=6B>" == repr(Command(0, flag=1, body=b"secret"))
    assert "one-way" in repr(Command(0, flag=2))
    assert "request" in repr(Command(0))
