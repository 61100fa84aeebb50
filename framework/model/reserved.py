"""Names that RocketMQ reserves, and which names are legal."""

from __future__ import annotations

import re

from framework.errors import shorten
from framework.mistakes import NameWrong

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
PROGRESS_PREFIX = "%ACK%"
"""Of our own topics for what a group has finished above a gap; no name of RocketMQ's, but nobody else's either."""
TOOLS_GROUP = "TOOLS_CONSUMER"
"""Named in pulls of whoever only looks. Every broker has it; a group of another name is made by its first pull, and one
that has members would lose the news of its reset to whoever pulls in its name.
"""
REPLAY_PREFIX = "DLQ_REPLAY_"
"""Of our own groups, whose offsets say how far a group's dead letters are dealt with."""
AUTO_CREATE_TOPIC = "TBW102"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"  # RocketMQ's own name: the four X are part of it
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Of messages whose transactions are open."""
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Of those whose producers did not say how they ended, however often they were asked."""
SYSTEM_TOPICS = frozenset({
    AUTO_CREATE_TOPIC, TRACE_TOPIC, "BenchmarkTest", "CHECKPOINT_TOPIC", "OFFSET_MOVED_EVENT",
    HALF_TOPIC, "RMQ_SYS_TRANS_OP_HALF_TOPIC", SCHEDULE_TOPIC, "SELF_TEST_TOPIC",
    GIVEN_UP_TOPIC,
})  # fmt: skip

TOPIC_LENGTH_MAX = 127  # the broker's own check on a send; a retry or dead-letter topic may be longer
GROUP_LENGTH_MAX = 120  # leaves room for %RETRY% within a topic of 127
LONG_TOPIC_LENGTH_MAX = 255

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_OF_A_GROUP = re.compile(r"%[^%]+%(.+)", re.DOTALL)


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    """Where brokers put popped messages of a topic whose invisible time is over."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where replies to requests are sent: brokers hand them on, and keep them under this name if at all."""
    return f"{cluster}_REPLY_TOPIC"


def progress_topic(group: str) -> str:
    return PROGRESS_PREFIX + group


def group_of(topic: str) -> str | None:
    """The group whose own topic it is: `%RETRY%billing`, `%DLQ%billing`, `%ACK%billing`; None for everybody's."""
    found = _OF_A_GROUP.fullmatch(topic)
    return None if found is None else found[1]


def is_legal(name: str, length_max: int = LONG_TOPIC_LENGTH_MAX) -> bool:
    """Whether RocketMQ accepts the name: 1 to `length_max` of letters, digits, _ - % and |."""
    return len(name) <= length_max and _LEGAL.fullmatch(name) is not None


def check_name(kind: str, name: str, length_max: int) -> str:
    """The name, or a ConfigurationError that says what is wrong with it."""
    if not is_legal(name, length_max):
        raise NameWrong(f"{kind} {shorten(name)}: use 1 to {length_max} of the characters A-Z a-z 0-9 _ - % |")
    return name


def check_topic(name: str) -> str:
    """The topic, or a ConfigurationError. Retry and dead-letter topics may be longer than others; those of pop are."""
    is_made_by_brokers = name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    return check_name("topic", name, LONG_TOPIC_LENGTH_MAX if is_made_by_brokers else TOPIC_LENGTH_MAX)
