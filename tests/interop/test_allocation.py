"""Our strategies beside RocketMQ's, asked today: the stored answers still hold, and so do random groups."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.golden.allocations import ROOMS, answers, questions
from tests.golden.test_allocations import OURS, answered, in_order
from tests.interop import oracle

pytestmark = pytest.mark.interop


def random_question(chance: random.Random) -> dict[str, Any]:
    strategy = chance.choice(sorted(OURS))
    brokers = chance.sample(ROOMS if strategy == "machine_room" else ["east-a", "east-b", "west-a", "plain"], 3)
    rooms = ("east-", "west-", "10.0.0.")
    return {
        "strategy": strategy,
        "over": chance.choice(["averaging", "circle", "consistent_hash"]),
        "virtual_nodes": chance.randint(1, 40),
        "rooms": chance.sample(["room1", "room2", "room3", "plain"], 2),
        "members": sorted({f"{chance.choice(rooms)}{chance.randrange(10**6)}" for _ in range(chance.randint(1, 20))}),
        "queues": sorted(["orders", broker, number] for broker in brokers for number in range(chance.randint(1, 20))),
    }


def test_the_stored_answers_are_javas() -> None:
    assert answers() == oracle.ask(questions())


def test_random_groups_are_divided_alike() -> None:
    chance = random.Random(23)
    asked = [random_question(chance) for _ in range(1_000)]

    assert [in_order(answer) for answer in oracle.ask(asked)] == [answered(question) for question in asked]
