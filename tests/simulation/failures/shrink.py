"""Shrinks a plan that fails: leaves out what the failure does not need, and finds the nearest plan that holds.

Delta debugging (Zeller): single faults, kinds of weather, groups, members, brokers, messages, queues, time, and every
way of consuming are left out or lowered, as long as the same invariant is broken. Each trial is a whole run. Owns the
search; it knows no clock: the caller says when the time is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from framework.testing.errors import Violation
from tests.simulation.failures.difference import (
    Difference,
    Event,
    events,
    first_consequence,
    first_difference,
)
from tests.simulation.failures.plan_text import usual, written
from tests.simulation.faults.kinds import kind_named
from tests.simulation.history import History
from tests.simulation.plans.plan import Plan
from tests.simulation.simulation import Verdict, play
from tests.simulation.workload import GroupLoad, Workload

T = TypeVar("T")
OTHER_SEEDS = 2
"""How many others a plan is tried with, once nothing can be left out with its own: chance falls otherwise in a smaller
run, and the failure may need only a little luck."""
SECONDS_MIN = 4
COMPARED_MAX = 12
"""Plans without one fault that are tried at the end, for the nearest that holds."""
PLAIN = {"fail_rate": 0.0, "poison_rate": 0.0, "concurrency": 1}
"""What is plainer than a field's usual value."""
KEPT = ("name", "topic", "groups", "queues", "messages", "small", "rare")
"""Fields that are lowered by a step of their own, or mean nothing."""
MANY_CAUSES = ("nothing unexpected", "the run ends", "every step returns")
"""Invariants that anything may break: there the words must be the same, too, but for numbers."""
WORDS_COMPARED = 60


@dataclass(frozen=True, slots=True)
class Run:
    """A plan, and what became of it."""

    plan: Plan
    verdict: Verdict
    history: History

    @property
    def events(self) -> list[Event]:
        return events(self.history)


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest run that was found, and the nearest one that holds."""

    violation: Violation
    smallest: Run
    nearest: Run | None
    runs: int
    is_finished: bool
    """Nothing more can be left out; else the time was over before."""

    @property
    def difference(self) -> Difference | None:
        """The first event in which the smallest run differs from the nearest that holds."""
        return first_difference(self.smallest.events, self.nearest.events) if self.nearest else None

    @property
    def consequence(self) -> Difference | None:
        """The first that is no fault."""
        return first_consequence(self.smallest.events, self.nearest.events) if self.nearest else None


def first_violation(violations: Sequence[Violation]) -> Violation:
    """The one that happened first: the others may follow from it."""
    return min(violations, key=lambda violation: violation.at)


def shrink(
    plan: Plan,
    *,
    mutants: Collection[str] = (),
    is_over: Callable[[], bool] = lambda: False,
    tell: Callable[[int, Plan], object] = lambda runs, plan: None,
) -> Shrunk | None:
    """The smallest plan that fails as this one does; None where this one holds. `tell(runs, plan)` at each step."""
    plan = replace(plan.with_strikes(), given="")
    verdict, history = play(plan, mutants=mutants)
    if verdict.is_ok:
        return None
    search = _Search(Run(plan, verdict, history), mutants, is_over, tell)
    is_finished = search.run()
    search.compare()
    return Shrunk(search.violation, search.best, search.nearest, search.runs, is_finished)


class _TimeIsOver(Exception):
    """Ends the search wherever it is."""


class _Search:
    """One search; `best` is the smallest run so far that fails."""

    def __init__(
        self, first: Run, mutants: Collection[str], is_over: Callable[[], bool], tell: Callable[[int, Plan], object]
    ) -> None:
        self.best = first
        self.violation = first_violation(first.verdict.violations)
        self.nearest: Run | None = None
        """The run that holds and is like the best one for the longest time."""
        self.runs = 1
        self._mutants = mutants
        self._is_over = is_over
        self._tell = tell
        self._tried = {written(first.plan)}
        self._other_seeds = 0
        self._like_until = -1.0

    def run(self) -> bool:
        """Whether it came to its end, at which nothing more can be left out."""
        try:
            self._until_nothing_goes()
            self._other_seeds = OTHER_SEEDS
            self._until_nothing_goes()
        except _TimeIsOver:
            return False
        return True

    def _until_nothing_goes(self) -> None:
        before = None
        while before != self.best.plan:
            before = self.best.plan
            self._cut_short()
            self._leave_out(_strikes, _with_strikes)
            self._leave_out(_weather, _with_weather)
            self._leave_out(lambda plan: plan.workload.groups, _with_groups, least=1)
            self._lower(lambda plan: plan.apps, lambda plan, apps: replace(plan, apps=apps), 1)
            self._lower(lambda plan: plan.brokers, lambda plan, brokers: replace(plan, brokers=brokers), 1)
            self._lower(lambda plan: plan.workload.messages, lambda plan, count: _loaded(plan, messages=count), 1)
            self._lower(lambda plan: plan.workload.queues, lambda plan, count: _loaded(plan, queues=count), 1)
            self._lower(lambda plan: int(plan.seconds), _with_seconds, SECONDS_MIN)
            self._leave_out(_rarities, _with_rarities)
            self._leave_out(_oddities, _with_oddities)
            self._fails(replace(self.best.plan, policy="fifo"))

    def _cut_short(self) -> None:
        """Fewer messages and less time at once: what happens until then stays as it was."""
        whole = self.best.plan
        least = max(1, round(whole.workload.messages * SECONDS_MIN / whole.seconds))
        self._lower(lambda plan: plan.workload.messages, lambda plan, messages: _cut(whole, messages), least)

    def _leave_out(
        self, parts: Callable[[Plan], Sequence[T]], rebuilt: Callable[[Plan, Sequence[T]], Plan], *, least: int = 0
    ) -> None:
        """All of them, halves, quarters, down to single ones."""
        size = len(parts(self.best.plan))
        while size:
            at = 0
            while at < len(now := parts(self.best.plan)):
                kept = [*now[:at], *now[at + size :]]
                if len(kept) < least or not self._fails(rebuilt(self.best.plan, kept)):
                    at += size
            size //= 2

    def _lower(self, value: Callable[[Plan], int], rebuilt: Callable[[Plan, int], Plan], least: int) -> None:
        """The least, else half way, half of the rest, and so on."""
        low, middle = least, least
        while low < value(self.best.plan):
            if not self._fails(rebuilt(self.best.plan, middle)):
                low = middle + 1
            middle = (low + value(self.best.plan)) // 2

    def _fails(self, plan: Plan) -> bool:
        """Whether it breaks the same invariant; then it is the best one. Another seed alone is no smaller plan."""
        if plan == self.best.plan:
            return False
        return any(self._tries(replace(plan, seed=plan.seed + other)) for other in range(1 + self._other_seeds))

    def _tries(self, plan: Plan) -> bool:
        text = written(plan)
        if text in self._tried:
            return False
        if self._is_over():
            raise _TimeIsOver
        self._tried.add(text)
        run = self._played(plan)
        if run is None or not self._is_the_same(run.verdict):
            return False
        self.best, self.nearest, self._like_until = run, None, -1.0
        self._tell(self.runs, plan)
        return True

    def _played(self, plan: Plan) -> Run | None:
        """None for a plan that cannot be run at all: what was left out of it was needed by something else."""
        self.runs += 1
        try:
            run = Run(plan, *play(plan, mutants=self._mutants))
        except Exception:  # noqa: BLE001 - border: a plan that nobody draws may break the world itself
            return None
        if run.verdict.is_ok and plan.seed == self.best.plan.seed:
            self._see_how_near(run)
        return run

    def _see_how_near(self, run: Run) -> None:
        difference = first_difference(self.best.events, run.events)
        if difference is not None and difference.at > self._like_until:
            self.nearest, self._like_until = run, difference.at

    def _is_the_same(self, verdict: Verdict) -> bool:
        return any(_failure(violation) == _failure(self.violation) for violation in verdict.violations)

    def compare(self) -> None:
        """Leave out each fault that is left, the latest first: the nearest run that holds is mostly one of these."""
        best = self.best.plan
        strikes = _strikes(best)
        for left_out in strikes[: -COMPARED_MAX - 1 : -1]:
            self._played(_with_strikes(best, [each for each in strikes if each is not left_out]))
        if best.workload.messages > 1:
            self._played(_cut(best, best.workload.messages - 1))


def _failure(violation: Violation) -> tuple[str, str]:
    words = re.sub(r"[\d.]+", "#", violation.fact)[:WORDS_COMPARED] if violation.truth in MANY_CAUSES else ""
    return violation.truth, words


# -- the parts of a plan


def _strikes(plan: Plan) -> tuple[Any, ...]:
    return plan.strikes or ()


def _with_strikes(plan: Plan, strikes: Sequence[Any]) -> Plan:
    struck = {strike.kind for strike in strikes}
    kinds = tuple(kind for kind in plan.kinds if kind.strike is None or kind.name in struck)
    return replace(plan, strikes=tuple(strikes), kinds=kinds)


def _weather(plan: Plan) -> list[str]:
    return [kind.name for kind in plan.kinds if kind.strike is None]


def _with_weather(plan: Plan, names: Sequence[str]) -> Plan:
    striking = tuple(kind for kind in plan.kinds if kind.strike is not None)
    return replace(plan, kinds=(*map(kind_named, names), *striking))


def _with_groups(plan: Plan, groups: Sequence[GroupLoad]) -> Plan:
    return _loaded(plan, groups=tuple(groups))


def _with_seconds(plan: Plan, seconds: float) -> Plan:
    """Without the faults that come too late for it."""
    shorter = replace(plan, seconds=float(seconds))
    return _with_strikes(shorter, [strike for strike in _strikes(plan) if strike.at < shorter.faults_s])


def _cut(plan: Plan, messages: int) -> Plan:
    """Fewer messages at the same distances, and the end of faults after the last of them."""
    seconds = plan.seconds * messages / plan.workload.messages
    return _loaded(_with_seconds(plan, seconds), messages=messages)


def _loaded(plan: Plan, **changed: Any) -> Plan:
    return replace(plan, workload=replace(plan.workload, **changed))


def _rarities(plan: Plan) -> list[tuple[str, str]]:
    """Limits that are small and marks that are awake."""
    load = plan.workload
    return [*(("limit", name) for name in load.small.names), *(("mark", name) for name in load.rare.names)]


def _with_rarities(plan: Plan, kept: Sequence[tuple[str, str]]) -> Plan:
    small, rare = plan.workload.small, plan.workload.rare
    for what, name in set(_rarities(plan)) - set(kept):
        if what == "limit":
            small = small.without(name)
        else:
            rare = rare.without(name)
    return _loaded(plan, small=small, rare=rare)


def _oddities(plan: Plan) -> list[tuple[int, str]]:
    """(number of the group, field) of all that is not plain; -1 for the whole workload."""
    loads: list[tuple[int, Workload | GroupLoad]] = [(-1, plan.workload), *enumerate(plan.workload.groups)]
    return [
        (number, name) for number, load in loads for name in _plain(load) if getattr(load, name) != _plain(load)[name]
    ]


def _with_oddities(plan: Plan, kept: Sequence[tuple[int, str]]) -> Plan:
    left_out = set(_oddities(plan)) - set(kept)

    def plainer(number: int, load: T) -> T:
        changed = {name: value for name, value in _plain(load).items() if (number, name) in left_out}
        return replace(load, **changed)  # type: ignore[type-var]  # both are dataclasses

    groups = tuple(plainer(number, load) for number, load in enumerate(plan.workload.groups))
    return replace(plan, workload=replace(plainer(-1, plan.workload), groups=groups))


def _plain(load: Any) -> dict[str, Any]:
    return {each.name: PLAIN.get(each.name, usual(each)) for each in fields(load) if each.name not in KEPT}
