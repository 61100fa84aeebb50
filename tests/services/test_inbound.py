"""Inbound: what brokers ask of us."""

from __future__ import annotations

from typing import cast

from framework.net.channel import Channel
from framework.services.inbound import Inbound
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import Command


class Answers:
    """A channel that keeps what it is to answer."""

    peer = "127.0.0.1:10911"

    def __init__(self) -> None:
        self.given: list[tuple[Command, Command]] = []

    def answer(self, request: Command, answer: Command) -> None:
        self.given.append((request, answer))


def ask(command: Command) -> tuple[list[str], list[tuple[Command, Command]]]:
    told: list[str] = []
    channel = Answers()
    Inbound(told.append)(cast("Channel", channel), command)
    return told, channel.given


def test_a_changed_member_list_is_told_with_its_group() -> None:
    command = Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "billing"})

    assert (["billing"], []) == ask(command)


def test_a_notice_without_a_group_is_told_as_nobodys() -> None:
    """Whoever is told looks the group up; a broker's bytes must not raise here."""
    assert ([""], []) == ask(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {}))


def test_anything_else_is_answered_as_not_supported_by_its_name() -> None:
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, {})

    told, ((request, answer),) = ask(command)
    assert [] == told
    assert request is command
    assert ResponseCode.REQUEST_CODE_NOT_SUPPORTED == answer.code
    assert "GET_CONSUMER_RUNNING_INFO" in (answer.remark or "")


def test_a_code_that_nobody_knows_is_answered_too() -> None:
    _, ((_, answer),) = ask(Command(31_337, {}))

    assert "31337" in (answer.remark or "")
