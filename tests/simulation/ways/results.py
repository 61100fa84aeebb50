"""The ways `results` and `results-in-order`: handlers return each kind of result, for a message and for a batch.

A pair of an answer and its record: what the handler returns (or raises), and what that means for each of its messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from framework.model.outcome import Ack, BatchFailed, Commit, DeadLetter, Drop, RetryLater, Rollback, Suspend
from framework.testing.sim.streams import Stream
from tests.simulation.facts import BURIED, DROPPED, FAILED, LEVEL, OK
from tests.simulation.workload import GroupLoad, Workload

ODD_RATE = 0.25
"""How often a message whose handler could have returned nothing is answered otherwise."""
ODD_BATCH_RATE = 0.5
DROPPING, DROP_RATE = 0.4, 0.9
"""In so many runs most batches are dropped whole, to the run's end: windows that nothing else empties."""
LEVELS = {"500ms": 1, "5s": 2, "8s": 3, "30s": 4}
"""What is asked for -> RocketMQ's level of delays for that, as its documentation has them."""
PAUSES = ("20ms", "200ms", "1s")
"""Where a message stays in its place."""
WINDOWS = (10, 10, 20, 0)
"""`cache_count`; 0: the usual one, which no run fills."""
BURSTS = (1, 25, 100)
"""So many messages are sent at a time, and pulls are small, so that windows are full at all."""
MESSAGES, PULLS = (110, 160, 220), (2, 8)


DROPS = "drops"


class _Failed(Exception):
    """A handler's own."""


def dress(workload: Workload, chance: Stream) -> Workload:
    """The first group, which is concurrent: on threads or not, in batches or not."""
    load = _drawn(chance, workload.groups[0])
    load = replace(load, is_async=chance.happens(0.5), concurrency=chance.pick((1, 2, 4)))
    return _crowded(replace(workload, groups=(load, *workload.groups[1:])), chance)


def dress_in_order(workload: Workload, chance: Stream) -> Workload:
    """The group that keeps order, of queues or of keys; made where there is none yet."""
    usual = GroupLoad("inventory", pauses_s=(0.002, 0.005, 0.02), fail_rate=0.02, poison_rate=chance.pick((0.0, 0.01)))
    found = next((load for load in workload.groups if load.orderly and not load.broadcasting), usual)
    orderly: bool | Literal["key"] = "key" if chance.happens(0.5) else True
    load = replace(_drawn(chance, found), orderly=orderly, is_async=chance.happens(0.4), concurrency=4)
    others = (each for each in workload.groups if each.name != load.name)
    return _crowded(replace(workload, groups=(*others, load)), chance)


def goes(workload: Workload, load: GroupLoad) -> bool:
    return bool(load.results) and not load.orderly


def goes_in_order(workload: Workload, load: GroupLoad) -> bool:
    """Not where commits are made by hand: there the results are commits."""
    return bool(load.results and load.orderly) and not load.by_hand


def _crowded(workload: Workload, chance: Stream) -> Workload:
    """Many messages at a time, unless each of them is handled by everybody."""
    burst, pull_batch, messages = chance.pick(BURSTS), chance.pick(PULLS), chance.pick(MESSAGES)
    if any(load.results == DROPS for load in workload.groups):
        burst = BURSTS[-1]
    if any(load.broadcasting for load in workload.groups):
        messages = workload.messages
    return replace(workload, burst=burst, pull_batch=pull_batch, messages=max(messages, workload.messages))


def _drawn(chance: Stream, load: GroupLoad) -> GroupLoad:
    batch, linger, window = chance.pick((0, 2, 5, 16)), chance.pick(("0s", "0s", "50ms")), chance.pick(WINDOWS)
    if chance.happens(DROPPING):
        return replace(load, results=DROPS, batch=max(batch, 2), linger="0s", cache_count=WINDOWS[0])
    return replace(load, results="all", batch=batch, linger=linger if batch else "0s", cache_count=window)


class Results:
    """One group's, in one process."""

    def __init__(self, load: GroupLoad, chance: Stream) -> None:
        self._load, self._chance = load, chance
        self._well: object = Ack() if load.explicit_ack else None

    def are_given(self, *, is_healed: bool) -> bool:
        """To the end of a run where they leave nothing to be done; else until it is healed."""
        return not is_healed or self._load.results == DROPS

    def one(self) -> tuple[object, str]:
        """Of a message that nothing is wrong with: what is returned, and what it means."""
        if self._load.results == DROPS and self._chance.happens(DROP_RATE):
            return Drop("the simulation", "nothing is"), DROPPED
        if not self._chance.happens(ODD_RATE):
            return self._well, OK
        chance, is_orderly = self._chance, bool(self._load.orderly)
        match chance.pick(("drop", "drop", "later", "wish", "bury", "suspend", "back", "value")):
            case "drop":
                return Drop("the simulation", "not wanted"), DROPPED
            case "bury":
                return DeadLetter("simulated"), BURIED
            case "later":
                return RetryLater(), FAILED
            case "back":
                return Rollback(chance.pick(PAUSES)), FAILED
            case "wish" | "suspend" as manner if is_orderly:
                pause = chance.pick(PAUSES)
                return Suspend(pause) if manner == "suspend" else RetryLater(pause), FAILED
            case "wish" | "suspend" as manner:
                wish = chance.pick(tuple(LEVELS))
                return Suspend(wish) if manner == "suspend" else RetryLater(wish), f"{LEVEL}{LEVELS[wish]}"
            case _:
                return self._well if self._load.explicit_ack else "a value that is no result", OK

    def of_batch(self, count: int) -> tuple[object, list[str]]:
        """The same of a batch. An answer that is to be raised is an exception."""
        chance = self._chance
        if self._load.results == DROPS and chance.happens(DROP_RATE):
            return Drop("the simulation", "nothing of it"), [DROPPED] * count
        if not chance.happens(ODD_BATCH_RATE):
            return self._well, [OK] * count
        match chance.pick(("each", "each", "all", "all", "commit", "up to", "from", "misfit", "raise")):
            case "each":
                ones = [self._of_each() for _ in range(count)]
                return [answer for answer, _ in ones], [meaning for _, meaning in ones]
            case "all":
                answer, meaning = self.one()
                return (answer, [meaning] * count) if _is_result(answer) else (self._well, [OK] * count)
            case "commit":
                return (self._well if self._load.explicit_ack else Commit()), [OK] * count
            case "up to" if not self._load.explicit_ack:  # an index says nothing of success
                last = chance.below(count + 1) - 1
                return last, _until(last + 1, count)
            case "from" if not self._load.explicit_ack:
                first = chance.below(count)
                return BatchFailed("simulated", at=first), _until(first, count)
            case "misfit":
                misfits: tuple[Any, ...] = ([None] * (count + 1), [None] * (count - 1) + ["?"], "?", count, True)
                return chance.pick(misfits), [FAILED] * count
            case _:
                return _Failed("simulated"), [FAILED] * count

    def _of_each(self) -> tuple[object, str]:
        """In a list no text is a result, and what is said of the whole batch is not."""
        answer, meaning = self.one()
        if isinstance(answer, Rollback):
            return RetryLater(), FAILED
        return (answer, meaning) if _is_result(answer) else (self._well, OK)


def _is_result(answer: object) -> bool:
    return isinstance(answer, (Ack, RetryLater, DeadLetter, Suspend, Drop, Rollback))


def _until(done: int, count: int) -> list[str]:
    return [OK] * done + [FAILED] * (count - done)


def settings(load: GroupLoad) -> dict[str, Any]:
    """What the way adds to its group's settings."""
    return {"cache_count": load.cache_count} if load.cache_count else {}
