"""Signatures: the golden one, key order, and what breaks them."""

from __future__ import annotations

import pytest

from framework.errors import ConfigurationError
from framework.wire import signing
from framework.wire.command import RemotingCommand
from framework.wire.signing import sign, verify


def pull() -> RemotingCommand:
    fields = {"topic": "TopicTest", "queueId": "3", "consumerGroup": "g1", "bname": "broker-a"}
    return RemotingCommand(11, fields, b"hello")


def test_the_signature_is_the_one_that_java_makes() -> None:
    command = pull()

    sign(command, "RocketMQ", "12345678")

    assert "cD6o5km3c6HgM/G0o+WuHHwsp6Q=" == command.fields["Signature"]
    assert "RocketMQ" == command.fields["AccessKey"]


def test_signing_twice_changes_nothing() -> None:
    once, twice = pull(), pull()
    sign(once, "RocketMQ", "12345678")
    sign(twice, "RocketMQ", "12345678")
    sign(twice, "RocketMQ", "12345678")

    assert once == twice


def test_a_signed_command_is_verified_and_any_change_breaks_it() -> None:
    command = pull()
    sign(command, "RocketMQ", "12345678", token="t")

    assert verify(command, "12345678")
    assert not verify(command, "87654321")
    command.fields["queueId"] = "4"
    assert not verify(command, "12345678")
    command.fields["queueId"] = "3"
    command.body = b"hellO"
    assert not verify(command, "12345678")
    command.body = b"hello"
    command.fields["added"] = "later"
    assert not verify(command, "12345678")


@pytest.mark.parametrize("given", [None, "", "x", "标签", "\ud800"])
def test_no_signature_or_another_is_refused(given: str | None) -> None:
    command = pull()
    if given is not None:
        command.fields["Signature"] = given

    assert not verify(command, "12345678")


def test_a_token_is_signed_with_the_rest() -> None:
    plain, with_token = pull(), pull()
    sign(plain, "RocketMQ", "12345678")
    sign(with_token, "RocketMQ", "12345678", token="t")

    assert "t" == with_token.fields["SecurityToken"]
    assert plain.fields["Signature"] != with_token.fields["Signature"]


def test_keys_are_ordered_by_utf_16_units_as_java_orders_them() -> None:
    astral, private = "\U0001f600", "\ue000"  # D83D DE00 stands before E000; by code point it would stand after
    command = RemotingCommand(1, {private: "2", astral: "1"})

    assert signing.signature(RemotingCommand(1, {"a": "12"}), "s") == signing.signature(command, "s")


def test_a_lone_surrogate_cannot_be_signed() -> None:
    with pytest.raises(ConfigurationError, match=r"PULL_MESSAGE \(11\): a field to be signed holds a lone surrogate"):
        sign(RemotingCommand(11, {"a": "\ud800"}), "k", "s")
