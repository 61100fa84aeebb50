"""Generated scenarios for two brokers: what a few clients ask in one topic and one group, step by step.

A scenario is made from its seed alone, so it can be printed, repeated and played on any broker. Places that only a
broker knows (where its log holds a message) are found while it plays.

Steps that the box answers otherwise on purpose, and that would leave two brokers in different states, have a group or a
topic to themselves: so everything else is the same to the end, and is compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

SEEDS_IN_CI = 20
SEEDS = 200

_TAGS = ("red", "blue", "green", "")
_FILTERS = (
    ("*", "TAG"), ("red", "TAG"), ("red || blue", "TAG"), ("red||none", "TAG"), ("", "TAG"), ("none", "TAG"),
    ("weight > 3", "SQL92"), ("TAGS = 'red' AND weight IS NOT NULL", "SQL92"), ("weight >", "SQL92"),
    ("TAGS IN ('red', 'green') OR weight BETWEEN 2 AND 4", "SQL92"), ("*", "NEITHER"),
)  # fmt: skip
_PLACES = ("start", "middle", "last", "end", "past", "negative", "far")
_TIMES = ("zero", "future", "negative")
_CLIENTS = ("a", "b")
ODD = "odd"
"""The group of commits that nobody means, and of filters that nobody understands."""
_WISHES = (
    ("DELAY", "1"), ("DELAY", "0"), ("DELAY", "-2"), ("TIMER_DELAY_SEC", "1"), ("TIMER_DELAY_MS", "400"),
    ("TIMER_DELAY_SEC", "300000"), ("TIMER_DELIVER_MS", "5"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is done; `client` says on which connection."""

    kind: str
    client: str = "a"
    how: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}({self.client}{''.join(f', {name}={value!r}' for name, value in self.how.items())})"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is played. All names end in `suffix`, which no other run has."""

    seed: int
    queues: int
    steps: tuple[Step, ...]


def generate(seed: int) -> Scenario:
    """The scenario of a seed; the same wherever it is made."""
    chance = random.Random(seed)
    queues = chance.choice((1, 2, 4))
    steps = [_send(chance, queues) for _ in range(chance.randint(1, 6))]
    kinds = chance.choices(list(_MAKERS), weights=[weight for _, weight in _MAKERS.values()], k=chance.randint(12, 30))
    steps += [_MAKERS[kind][0](chance, queues, kind) for kind in kinds]
    return Scenario(seed, queues, tuple(_without_late_commits(steps)))


def _without_late_commits(steps: list[Step]) -> Iterator[Step]:
    """What a pull commits while it takes a reset counts in one broker only: `reset_late` plays that by itself."""
    is_reset = False
    for step in steps:
        is_reset |= step.kind == "reset"
        has_commit = step.kind == "pull" and step.how["commits"]
        yield Step(step.kind, step.client, {**step.how, "commits": None}) if is_reset and has_commit else step


def is_nonsense(how: dict[str, Any]) -> bool:
    """Whether a step's filter is one that nobody can understand."""
    wanted = how.get("filter")
    return wanted is not None and (wanted[0] == "weight >" or wanted[1] == "NEITHER")


def is_odd_commit(how: dict[str, Any]) -> bool:
    """Whether a commit is one that no client means, below 0 or of no queue."""
    return bool(how["group"] == ODD)


def _queue(chance: random.Random, queues: int) -> int:
    """Mostly one that is there."""
    return chance.choice((-1, queues, queues + 3)) if chance.random() < 0.08 else chance.randrange(queues)


def _properties(chance: random.Random) -> dict[str, str]:
    texts: dict[str, str] = {}
    if tag := chance.choice(_TAGS):
        texts["TAGS"] = tag
    if chance.random() < 0.4:
        texts["KEYS"] = " ".join(f"k{chance.randrange(4)}" for _ in range(chance.randint(1, 2)))
    if chance.random() < 0.6:
        texts["weight"] = str(chance.randrange(8))
    return texts


def _send(chance: random.Random, queues: int, kind: str = "send") -> Step:
    topic = chance.choices(("own", "absent", "illegal", "system", "empty"), (24, 1, 1, 1, 1))[0]
    how = {
        "topic": topic,
        # Which queue a stock broker takes for -1 is chance.
        "queue": max(_queue(chance, queues), 0) if topic == "own" else 0,
        "size": chance.choice((1, 10, 10, 100, 5000)),
        "flag": chance.choice((0, 0, 7, -1)),
        "properties": _properties(chance),
        "is_short": chance.random() < 0.7,
    }
    return Step(kind, chance.choice(_CLIENTS), how)


def _batch(chance: random.Random, queues: int, kind: str) -> Step:
    parts = [_properties(chance) for _ in range(chance.randint(1, 5))]
    return Step(kind, "a", {"queue": max(_queue(chance, queues), 0), "parts": parts})


def _pull(chance: random.Random, queues: int, kind: str) -> Step:
    expression, expression_type = chance.choice(_FILTERS)
    how = {
        "queue": _queue(chance, queues),
        "at": chance.choice(_PLACES),
        "count": chance.choice((1, 2, 32, 100)),
        # Without one it is the last heartbeat's.
        "filter": (expression, expression_type) if chance.random() < 0.6 else None,
        "commits": chance.choice((None, None, "middle", "end", "past")),
        "group": "other" if chance.random() < 0.1 else "own",
        "topic": "absent" if chance.random() < 0.05 else "own",
    }
    if is_nonsense(how):
        how |= {"group": ODD, "commits": None}
    return Step(kind, chance.choice(_CLIENTS), how)


def _of_queue(chance: random.Random, queues: int, kind: str) -> Step:
    how: dict[str, Any] = {
        "queue": _queue(chance, queues),
        "at": chance.choice(_PLACES),
        "time": chance.choice(_TIMES),
        "boundary": chance.choice(("LOWER", "UPPER")),
        "zero": chance.choice((None, True, False)),
        "topic": "absent" if chance.random() < 0.06 else "own",
        "group": chance.choices(("own", "other", ODD), (17, 2, 1))[0],
    }
    if kind == "hold":
        how |= {"queue": max(how["queue"], 0) % queues, "topic": "own"}
    if kind == "commit":
        is_odd = how["at"] == "negative" or not 0 <= how["queue"] < queues
        how["group"] = ODD if is_odd else "own" if how["group"] == ODD else how["group"]
    return Step(kind, chance.choice(_CLIENTS), how)


def _back(chance: random.Random, queues: int, kind: str) -> Step:
    how = {
        "index": chance.randrange(6),
        "level": chance.choice((-1, -1, 1, 1, 1)),
        "reconsumed": chance.choice((None, 16, 0)),
        "group": "strange" if chance.random() < 0.1 else "own",
        "is_lost": chance.random() < 0.1,
    }
    return Step(kind, "a", how)


def _lock(chance: random.Random, queues: int, kind: str) -> Step:
    return Step(kind, chance.choice(_CLIENTS), {"queues": sorted(chance.sample(range(queues + 1), k=1 + queues // 2))})


def _heartbeat(chance: random.Random, queues: int, kind: str) -> Step:
    expression, expression_type = chance.choice(_FILTERS[:7])
    how = {
        "filter": (expression, expression_type),
        "version": chance.randint(1, 3),
        "model": chance.choice(("CLUSTERING", "CLUSTERING", "CLUSTERING", "BROADCASTING")),
        "produces": chance.random() < 0.3,
    }
    return Step(kind, chance.choice(_CLIENTS), how)


def _check_filter(chance: random.Random, queues: int, kind: str) -> Step:
    return Step(kind, "a", {**_heartbeat(chance, queues, kind).how, "filter": chance.choice(_FILTERS)})


def _plain(chance: random.Random, queues: int, kind: str) -> Step:
    how = {
        "group": "strange" if chance.random() < 0.15 else "own",
        "topic": "absent" if chance.random() < 0.15 else "own",
    }
    return Step(kind, chance.choice(_CLIENTS), how)


def _reset(chance: random.Random, queues: int, kind: str) -> Step:
    how: dict[str, Any] = {"group": "own", "topic": "absent" if chance.random() < 0.1 else "own"}
    if chance.random() < 0.5:
        how |= {"time": chance.choice(("zero", "end"))}
    else:
        how |= {"queue": chance.randrange(queues), "at": chance.choice(("start", "middle", "end", "far"))}
    return Step(kind, "a", how)


def _update_topic(chance: random.Random, queues: int, kind: str) -> Step:
    how = {
        "name": chance.choice(("own", "own", "own", "illegal", "system", "empty")),
        "queues": queues + chance.choice((0, 0, 1)),
        # Not without 2: the box refuses sends then, and from there on two queues would differ. `sealed` plays that.
        "perm": chance.choice((6, 6, 6, 2, 2, 6)),
        "order": chance.random() < 0.1,
    }
    return Step(kind, "a", how)


def _update_group(chance: random.Random, queues: int, kind: str) -> Step:
    how = {
        "consumes": chance.random() < 0.8,
        "broadcasts": chance.random() < 0.8,
        "retry_queues": chance.choice((1, 1, 2)),
        "retries": chance.choice((16, 16, 0, 3)),
        "name": "illegal" if chance.random() < 0.1 else "own",
    }
    return Step(kind, "a", how)


def _later(chance: random.Random, queues: int, kind: str) -> Step:
    return Step(kind, "a", {"wish": chance.choice(_WISHES), "properties": _properties(chance)})


def _key(chance: random.Random, queues: int, kind: str) -> Step:
    return Step(kind, "a", {"key": f"k{chance.randrange(5)}", "max": chance.choice((1, 32))})


_MAKERS = {
    "send": (_send, 16), "batch": (_batch, 6), "pull": (_pull, 26), "hold": (_of_queue, 2), "send_later": (_later, 2),
    "commit": (_of_queue, 7), "committed": (_of_queue, 7), "search": (_of_queue, 4), "max": (_of_queue, 3),
    "min": (_of_queue, 3), "earliest": (_of_queue, 2), "back": (_back, 6), "lock": (_lock, 4), "unlock": (_lock, 3),
    "heartbeat": (_heartbeat, 7), "members": (_plain, 3), "leave": (_plain, 2), "connections": (_plain, 2),
    "producers": (_plain, 1), "reset": (_reset, 2), "update_topic": (_update_topic, 2), "topic": (_plain, 2),
    "update_group": (_update_group, 2), "group": (_plain, 2), "stats": (_plain, 2), "progress": (_plain, 2),
    "groups_of_topic": (_plain, 1), "topics_of_group": (_plain, 1), "subscription": (_plain, 3),
    "forbid": (_plain, 1), "clone": (_plain, 1), "key": (_key, 3), "view": (_back, 2), "places": (_of_queue, 1),
    "check_filter": (_check_filter, 2), "unknown": (_plain, 1), "time_span": (_plain, 3), "delete_group": (_plain, 1),
    "delete_topic": (_plain, 1), "sealed": (_plain, 1), "brief": (_plain, 1), "reset_late": (_plain, 1),
    "unwritten": (_plain, 1),
}  # fmt: skip
