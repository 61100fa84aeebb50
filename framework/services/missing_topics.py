"""MissingTopics: topics of a group of which there is nothing to read, since when, and what a person can do about it.

That nobody has made a topic yet is usual where brokers make it with its first message, so that is said once. Where
they make none by themselves, or where it may not be read, the group would wait in silence for ever: a warning a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from framework.errors import FrameworkError
from framework.model.reserved import RETRY_PREFIX
from framework.ports import Clock

log = structlog.get_logger()

NO_TOPIC = "the name server knows no such topic yet"
NOT_READABLE = "the topic may not be read: no broker offers a queue of it to consumers"
SAY_AGAIN_MS = 60_000


@dataclass(slots=True)
class _MissingTopic:
    reason: str
    since_ms: int
    say_ms: int
    is_said: bool = False


class MissingTopics:
    """One per group; `RebalanceLoop` tells it what it found."""

    def __init__(self, group: str, clock: Clock, makes_topics: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._group, self._clock, self._makes_topics = group, clock, makes_topics
        self._topics: dict[str, _MissingTopic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def said(self) -> Mapping[str, str]:
        """Topics that somebody has to do something about -> what is wrong, and the way out."""
        said = {topic: each for topic, each in self._topics.items() if each.is_said}
        return {topic: f"{each.reason}; {remedy_of(topic, each.reason)}" for topic, each in said.items()}

    def note(self, topic: str, reason: str) -> str:
        """Answers the reason."""
        before = self._topics.get(topic)
        if before is None or before.reason != reason:
            now_ms = self._clock.monotonic_ms()
            wait_ms = SAY_AGAIN_MS if reason == NO_TOPIC else 0
            self._topics[topic] = _MissingTopic(reason, now_ms, now_ms + wait_ms)
        return reason

    def found(self, topic: str) -> None:
        self._topics.pop(topic, None)

    async def say(self, topic: str, complaint: str) -> None:
        """Where it is that which keeps the topic from being divided, and time to. A retry topic comes by itself: with
        the group's first heartbeat, or the first message that fails.
        """
        missing, now_ms = self._topics.get(topic), self._clock.monotonic_ms()
        if missing is None or missing.reason != complaint or now_ms < missing.say_ms:
            return
        if complaint == NO_TOPIC and topic.startswith(RETRY_PREFIX):
            return
        missing.say_ms = now_ms + SAY_AGAIN_MS
        missing.is_said = missing.reason != NO_TOPIC or not await self._is_made_by_a_send()
        if missing.is_said and self._topics.get(topic) is missing:
            log.warning(
                "topic missing", group=self._group, topic=topic, since_ms=now_ms - missing.since_ms,
                reason=missing.reason, remedy=remedy_of(topic, missing.reason),
            )  # fmt: skip

    async def _is_made_by_a_send(self) -> bool:
        try:
            return await self._makes_topics()
        except FrameworkError:
            return False  # who may not ask is told what would be said to others


def remedy_of(topic: str, reason: str = NO_TOPIC, *, server: str = "NAME_SERVER", cluster: str = "CLUSTER") -> str:
    """What makes it, or lets it be read. mqadmin asks on the internet for a name server that it is not told."""
    if reason == NO_TOPIC:
        return f"mqadmin updateTopic -n {server} -c {cluster} -t {topic}, or look for a mistake in its name"
    return f"mqadmin updateTopicPerm -n {server} -c {cluster} -t {topic} -p 6"
