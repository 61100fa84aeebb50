"""Our strategies divide as RocketMQ's own classes were seen to divide, queue for queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.core.assignment import allocate
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.hooks.builtin.allocation.consistent_hash import ConsistentHash
from framework.hooks.builtin.allocation.machine_room import MachineRoom
from framework.hooks.builtin.allocation.nearby import Nearby
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from tests.golden.allocations import answers, questions

OURS: dict[str, Callable[[dict[str, Any]], AllocationStrategy]] = {
    "averaging": lambda _: Averaging(),
    "circle": lambda _: Circle(),
    "consistent_hash": lambda question: ConsistentHash(question["virtual_nodes"]),
    "machine_room": lambda question: MachineRoom(question["rooms"]),
    "nearby": lambda question: Nearby(OURS[question["over"]](question)),
}


def answered(question: dict[str, Any]) -> list[list[int]]:
    strategy = OURS[question["strategy"]](question)
    queues = [MessageQueue(*queue) for queue in question["queues"]]
    return [
        [queues.index(queue) for queue in allocate(strategy, member, question["members"], queues)]
        for member in question["members"]
    ]


def in_order(answer: list[list[int]]) -> list[list[int]]:
    """A share is sorted before anybody sees it, here as in Java."""
    return [sorted(share) for share in answer]


@pytest.mark.parametrize("name", sorted(OURS))
def test_strategies_answer_what_java_answered(name: str) -> None:
    asked = [(question, answer) for question, answer in zip(questions(), answers(), strict=True)]
    ours = [(question, answer) for question, answer in asked if question["strategy"] == name]

    assert ours
    for question, answer in ours:
        assert in_order(answer) == answered(question), question
