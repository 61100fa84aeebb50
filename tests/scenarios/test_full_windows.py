"""Windows with little room: whatever a handler answers, what has ended makes room for what is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from framework import Message, consumer
from framework.declare import Consumer
from framework.model.outcome import Ack, DeadLetter, Drop, Outcome, RetryLater
from tests.simulation.cluster import Cluster
from tests.simulation.story import Story, tell
from tests.simulation.workload import GroupLoad, Workload

COUNT = 120


@pytest.mark.parametrize("answer", [Ack(), Drop("the test"), DeadLetter(), RetryLater()])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_window_of_ten_takes_what_comes_whatever_batches_answer(answer: Outcome, *, is_async: bool) -> None:
    """Batches that dropped their messages left their window full, and their queue stood still."""
    handled: set[str] = set()

    def note(messages: list[Message]) -> Outcome:
        handled.update(message.message_id for message in messages)
        return answer

    async def note_later(messages: list[Message]) -> Outcome:
        return note(messages)

    def consumers(_: Cluster) -> Sequence[Consumer[..., Any]]:
        handler = note_later if is_async else note
        return [consumer(topic="orders", group="billing", batch=5, linger="50ms")(handler)]

    async def scenario(story: Story) -> None:
        await story.start_apps(1)
        await story.send("orders", COUNT)
        await story.within("40s").until(lambda _: len(handled) == COUNT)

    workload = Workload(groups=(GroupLoad(batch=5),), settings={"cache_count": 10})
    tell(scenario, Cluster(apps=0, workload=workload, consumers=consumers))
