"""What a dead letter says of itself, whoever wrote it; and how they are chosen and grouped."""

from __future__ import annotations

import pytest

from framework import Message
from framework.admin import dead_letters
from framework.admin.browse import Scan
from framework.admin.cluster import Admin
from framework.admin.dead_letters import LetterChoice, letter_of
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, texts

QUEUE = MessageQueue("%DLQ%billing", "broker-a", 0)
WORDS = {
    "DEAD_LETTER_REASON": "'card'", "DEAD_LETTER_ERROR": "KeyError", "DEAD_LETTER_TIME": "1700000000000",
    "DEAD_LETTER_ATTEMPTS": "3", "DEAD_LETTER_ORIGIN": "orders@broker-a:2:17", "RETRY_TOPIC": "orders",
    "DEAD_LETTER_LINE": "shop/orders.py:41",
}  # fmt: skip


def message(**texts: str) -> Message:
    return Message(QUEUE.topic, b"b", properties=texts, queue=QUEUE, attempt=5, stored_ms=99, message_id="U1")


def test_ours_says_all() -> None:
    letter = letter_of(message(**WORDS))
    assert ("orders", 2, 17, 3, "'card'", "KeyError", 1_700_000_000_000) == (
        letter.origin_topic, letter.origin_queue, letter.origin_offset, letter.attempts, letter.reason, letter.error,
        letter.dead_ms,
    )  # fmt: skip
    assert "%DLQ%billing@broker-a:0:0" == letter.place
    assert "shop/orders.py:41" == letter.line


@pytest.mark.parametrize(
    ("given", "topic"),
    [
        ({"RETRY_TOPIC": "orders"}, "orders"),
        ({"DLQ_ORIGIN_TOPIC": "orders"}, "orders"),
        ({"DEAD_LETTER_ORIGIN": "%RETRY%billing@broker-a:0:3", "RETRY_TOPIC": "orders"}, "orders"),
        ({"RETRY_TOPIC": "no topic at all"}, None),
        ({}, None),
    ],
)
def test_of_others_what_is_not_said_is_not_known(given: dict[str, str], topic: str | None) -> None:
    letter = letter_of(message(**given))
    assert (topic, None, None, None, None) == (
        letter.origin_topic, letter.origin_queue, letter.origin_offset, letter.reason, letter.error,
    )  # fmt: skip
    assert (4, 99) == (letter.attempts, letter.dead_ms), "these brokers write down for each record"


@pytest.mark.parametrize("name", ["DEAD_LETTER_TIME", "DEAD_LETTER_ATTEMPTS"])
@pytest.mark.parametrize("text", ["", "-1", "x", "9" * 20, "٣"])
def test_figures_that_are_none_are_passed_over(name: str, text: str) -> None:
    letter = letter_of(message(**{name: text}))
    assert (4, 99) == (letter.attempts, letter.dead_ms)


def test_a_choice_takes_reason_key_and_time() -> None:
    letter = letter_of(Message(QUEUE.topic, b"b", keys=["k1"], properties=WORDS, queue=QUEUE))
    assert LetterChoice().has(letter)
    assert LetterChoice(1_700_000_000_000, "k1", dead_letters.reason_of("KeyError")).has(letter)
    assert LetterChoice(reason=dead_letters.reason_of("~^Key.*card")).has(letter)
    assert not LetterChoice(since_ms=1_700_000_000_001).has(letter)
    assert not LetterChoice(key="k").has(letter)
    assert not LetterChoice(reason=dead_letters.reason_of("ValueError")).has(letter)
    with pytest.raises(ValueError, match="no regular expression"):
        dead_letters.reason_of("~(")


def test_causes_that_differ_in_figures_alone_are_one() -> None:
    reasons = ("order 8841 is gone", "order 17 is gone", "no card")
    found = [
        letter_of(message(**{**WORDS, "DEAD_LETTER_REASON": text, "DEAD_LETTER_TIME": str(10 + n)}))
        for n, text in enumerate(reasons)
    ]
    first, second = dead_letters.causes(found)
    assert ("order # is gone", 2, 10, 11, {3}) == (
        first.reason, first.count, first.first_ms, first.last_ms, first.attempts,
    )  # fmt: skip
    assert ("no card", 1) == (second.reason, second.count)


def test_those_below_the_replay_groups_offset_are_dealt_with(box: ThreadBox, admin: Admin, topic: str) -> None:
    group = f"g-{topic}"
    queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
    box.send(queue.topic, texts(queue.topic, 5), queue=0, broker="broker-a")
    with Reader(ReaderSettings((box.address,))) as reader:
        reader.commit(dead_letters.replay_group(admin, group), queue, 3)

    places = dead_letters.queues(admin, group)
    assert [(0, 5, 3, 3)] == [(each.low, each.end, each.begin, each.done) for each in places if each.queue == queue]
    found = list(dead_letters.letters(admin, places, Scan()))
    assert [3, 4] == [each.message.queue_offset for each in found]
    assert 5 == len(list(dead_letters.letters(admin, places, Scan(), is_all=True)))


def test_a_long_group_has_a_replay_group_of_legal_length(admin: Admin) -> None:
    names = {dead_letters.replay_group(admin, "g" * 119 + end) for end in "ab"}
    assert 2 == len(names)
    assert max(map(len, names)) <= 120


def test_a_group_that_nobody_knows_is_an_error(admin: Admin, topic: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no broker knows a group 'g-{topic}'"):
        dead_letters.queues(admin, f"g-{topic}")
