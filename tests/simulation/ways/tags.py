"""The way `tags`: a group wants some of the messages only, by their tags or by a condition on a property.

What it does not want counts as settled for it, and must never reach its handlers (`checkers/only_what_was_asked.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from framework.testing.sim.streams import Stream
from tests.simulation.workload import GroupLoad, Workload

TAGS = ("red", "green", "blue", "white")
"""Of what is sent, in turn."""
PROPERTY = "shade"
"""Says the same, for conditions."""
SQL_SHARE = 0.4


def dress(workload: Workload, chance: Stream) -> Workload:
    """The first group that can."""
    tags, by_sql = tuple(sorted(chance.sample(TAGS, 1 + chance.below(len(TAGS) - 1)))), chance.happens(SQL_SHARE)
    able = [load for load in workload.groups if is_able(load)]
    if not able:
        return workload
    chosen = replace(able[0], tags=tags, by_sql=by_sql)
    return replace(workload, groups=tuple(chosen if each is able[0] else each for each in workload.groups))


def goes(workload: Workload, load: GroupLoad) -> bool:
    return bool(load.tags) and is_able(load)


def is_able(load: GroupLoad) -> bool:
    """Who keeps an order is asked for the very next message, a commit by hand for the last one there is, and a rule for
    the old and the far for each that it skips.
    """
    return not (
        load.orderly or load.broadcasting or load.by_hand or load.skip_older_s or load.skip_backlog or load.pops
    )


def filters(load: GroupLoad) -> dict[str, Any]:
    """As `@consumer` is told."""
    if not load.tags:
        return {}
    if load.by_sql:
        return {"sql": f"{PROPERTY} IN ({', '.join(repr(tag) for tag in load.tags)})"}
    return {"tags": "||".join(load.tags)}


def marked(workload: Workload, number: int) -> dict[str, Any]:
    """What the sender says of its message of this number; nothing where nobody asks."""
    if not any(load.tags for load in workload.groups):
        return {}
    tag = TAGS[number % len(TAGS)]
    return {"tags": tag, "properties": {PROPERTY: tag}}
