"""Invariant: while a topic's breaker is open in a process, it starts one message at a time, a second apart at least."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model.reserved import RETRY_PREFIX
from framework.testing.errors import Violation
from tests.simulation.facts import Said, Started
from tests.simulation.history import History

NAME = "one is tried at a time"
PAUSE_S = 1.0
TRIALS = 2
"""One that is under way when it closes, and one whose queue is lost just then."""


def one_is_tried_at_a_time(history: History) -> Iterator[Violation]:
    """What the process had in hand ends as ever. Retried messages count where one topic alone is held."""
    opened: dict[tuple[str, str], dict[str, tuple[float, int]]] = {}
    for fact in history.facts:
        if type(fact) is Said and fact.event in {"breaker opened", "breaker closed"}:
            topics = opened.setdefault((fact.who, fact.fields["group"]), {})
            topics.pop(fact.fields["topic"], None)
            if fact.event == "breaker opened":
                topics[fact.fields["topic"]] = fact.at, 0
        elif type(fact) is Started and fact.group in history.breakers:
            topics = opened.get((fact.who, fact.group), {})
            topic = fact.queue.topic
            if topic.startswith(RETRY_PREFIX) and len(topics) == 1:
                (topic,) = topics
            if topic not in topics:
                continue
            since, starts = topics[topic]
            topics[topic] = since, starts + 1
            if starts + 1 > history.breakers[fact.group] + TRIALS + (fact.at - since) / PAUSE_S:
                what = f"{fact.who} started {starts + 1} messages of {topic} for {fact.group}"
                yield Violation(NAME, f"{what} in the {fact.at - since:.3f} s since its breaker opened", fact.at)
                del topics[topic]
