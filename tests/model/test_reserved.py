"""Names that RocketMQ reserves, and which names are legal."""

from __future__ import annotations

import pytest

from framework.errors import ConfigurationError
from framework.model.reserved import (
    GROUP_LENGTH_MAX,
    LONG_TOPIC_LENGTH_MAX,
    RETRY_PREFIX,
    TOPIC_LENGTH_MAX,
    check_name,
    check_topic,
    dead_letter_topic,
    is_legal,
    retry_topic,
)


def test_a_groups_own_topics_are_named_after_it() -> None:
    assert "%RETRY%billing" == retry_topic("billing")
    assert "%DLQ%billing" == dead_letter_topic("billing")


def test_the_retry_topic_of_the_longest_group_is_a_legal_topic() -> None:
    assert is_legal(retry_topic("g" * GROUP_LENGTH_MAX), TOPIC_LENGTH_MAX)
    assert TOPIC_LENGTH_MAX == GROUP_LENGTH_MAX + len(RETRY_PREFIX)


@pytest.mark.parametrize("name", ["a", "A-z_0", "%RETRY%billing", "a|b", "t" * LONG_TOPIC_LENGTH_MAX])
def test_legal_names(name: str) -> None:
    assert is_legal(name)


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a.b", "a/b", "a\n", "t" * (LONG_TOPIC_LENGTH_MAX + 1), "käse", "标签"]
)
def test_illegal_names(name: str) -> None:
    assert not is_legal(name)


def test_a_checked_name_comes_back() -> None:
    assert "orders" == check_name("topic", "orders", TOPIC_LENGTH_MAX)


@pytest.mark.parametrize("name", ["", "a b", "t" * 128])
def test_a_wrong_name_is_refused_with_what_is_allowed(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^topic '.*: use 1 to 127 of the characters A-Z a-z 0-9 _ - % \|$"):
        check_name("topic", name, TOPIC_LENGTH_MAX)


@pytest.mark.parametrize("name", ["t" * 127, "%RETRY%" + "g" * 193, "%DLQ%" + "g" * 250])
def test_topics_that_brokers_make_may_be_longer(name: str) -> None:
    """Pop's retry topics, %RETRY%group_topic, are."""
    assert name == check_topic(name)


@pytest.mark.parametrize("name", ["t" * 128, "%RETRY%" + "g" * 249, "%RETRY% x"])
def test_no_topic_is_longer_than_a_broker_takes(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^topic "):
        check_topic(name)
