"""What RocketMQ's own strategies answered: questions, and Java's answers to them in `allocations.json`.

    python -m tests.golden.allocations

asks Java again (JDK and RocketMQ's jars needed) and writes the file anew. The questions are made here, by rule.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("allocations.json")

MEMBERS = [
    "10.0.0.1@a", "10.0.0.2@b", "10.0.0.3@c", "10.0.0.4@1234#9f3a5c017b2e", "10.0.0.5@77", "east-1@5", "east-2@6",
    "west-1@7", "192.168.17.5@DEFAULT", "worker@1@unit", "größe@8", "工人@9",
]  # fmt: skip
TOPICS = ["TopicTest", "%RETRY%billing"]
BROKERS = ["broker-a", "broker-b", "east-b1", "west-b1", "north-b1"]
ROOMS = ["room1@a", "room1@b", "room2@a", "room3@a", "plain", "room1@", "@room1", "room1@x@y", "room1@z@"]


def questions() -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    for count in (1, 2, 3, 5, 8, len(MEMBERS)):
        members = sorted(MEMBERS[:count])
        for topic in TOPICS:
            for brokers, size in ((1, 1), (1, 8), (2, 8), (5, 4), (3, 16)):
                queues = sorted([topic, broker, at] for broker in BROKERS[:brokers] for at in range(size))
                common = {"members": members, "queues": queues}
                asked += [
                    {"strategy": "averaging", **common},
                    {"strategy": "circle", **common},
                    *({"strategy": "consistent_hash", "virtual_nodes": nodes, **common} for nodes in (1, 10, 100)),
                    *({"strategy": "nearby", "over": over, **common} for over in ("averaging", "circle")),
                ]
        rooms = sorted(["TopicTest", broker, at] for broker in ROOMS for at in range(3))
        for wanted in (["room1"], ["room1", "room3"], ["nowhere"]):
            asked.append({"strategy": "machine_room", "rooms": wanted, "members": members, "queues": rooms})
    return asked


def answers() -> list[list[list[int]]]:
    """Of each question: each member's queues, by their places on the list."""
    found: list[list[list[int]]] = json.loads(FILE.read_text())
    return found


if __name__ == "__main__":
    from tests.interop import oracle

    lines = ",\n".join(json.dumps(answer, separators=(",", ":")) for answer in oracle.ask(questions()))
    FILE.write_text(f"[\n{lines}\n]\n")
