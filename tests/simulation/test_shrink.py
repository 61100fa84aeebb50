"""A plan that fails is made small, replays from its text, and is compared with the nearest one that holds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from framework.errors import ConfigurationError
from framework.testing.errors import Violation
from tests.simulation.facts import Fault
from tests.simulation.failures import shrink as shrinking
from tests.simulation.failures.deadline import Deadline, deadline
from tests.simulation.failures.difference import Difference, Event, first_consequence, first_difference
from tests.simulation.failures.plan_text import read, replay_line, written
from tests.simulation.failures.shrink import shrink
from tests.simulation.faults.kinds import kind_named
from tests.simulation.history import History
from tests.simulation.mutant import Mutant
from tests.simulation.mutants import MUTANTS, hunt
from tests.simulation.plans.plan import Plan, draw
from tests.simulation.simulation import Verdict, play

pytestmark = pytest.mark.timeout(600)  # whole clusters; a busy machine takes ten times as long
SEEDS, MOST, SECONDS = range(3_000, 9_000), 60, 30.0


def mutant_named(safeguard: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.safeguard == safeguard)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("safeguard", "faults_most"), [("a commit reaches the disk", 2), ("commits stop at the first gap", 1)]
)
def test_a_mistake_needs_few_faults(safeguard: str, faults_most: int) -> None:
    mutant = mutant_named(safeguard)
    found = hunt(mutant, SEEDS, most=MOST, seconds=SECONDS)
    assert found is not None
    whole = draw(found[0], seconds=SECONDS).with_strikes()
    shrunk = shrink(whole, mutants=(safeguard,))
    assert shrunk is not None
    assert shrunk.is_finished
    plan = shrunk.smallest.plan

    assert plan.strikes is not None
    assert whole.strikes is not None
    assert len(plan.strikes) <= faults_most < len(whole.strikes)
    assert plan.apps <= 2
    assert plan.workload.messages < whole.workload.messages
    assert plan.seconds < whole.seconds
    broken = shrunk.smallest.verdict.violations
    assert shrunk.violation.truth in {violation.truth for violation in broken}

    again, _ = play(read(written(plan)), mutants=(safeguard,))
    assert shrunk.smallest.verdict.trace == again.trace
    assert [str(violation) for violation in broken] == [str(violation) for violation in again.violations]
    whole_again, _ = play(plan)
    assert whole_again.is_ok, "without the mistake the smallest plan holds"
    assert shrunk.nearest is not None
    assert shrunk.nearest.verdict.is_ok
    assert shrunk.difference is not None


def test_a_run_that_holds_is_not_made_smaller() -> None:
    assert shrink(draw(3, seconds=8)) is None


# -- the search alone, in a world where what fails is known


class FakeWorld:
    """Plays no cluster: `broken` says which violations a plan has; each fault is a fact at its time."""

    def __init__(self, broken: Callable[[Plan], list[Violation]]) -> None:
        self.broken = broken
        self.runs = 0

    def play(self, plan: Plan, *, mutants: Collection[str] = ()) -> tuple[Verdict, History]:
        self.runs += 1
        history = History(plan.seed)
        history.facts += [Fault(strike.at, "somebody", strike.kind) for strike in plan.strikes or ()]
        return Verdict(plan, self.broken(plan)), history


def made(monkeypatch: pytest.MonkeyPatch, broken: Callable[[Plan], list[Violation]]) -> FakeWorld:
    world = FakeWorld(broken)
    monkeypatch.setattr(shrinking, "play", world.play)
    return world


def a_plan() -> Plan:
    plan = draw(11, kinds=[kind_named("crash"), kind_named("cut"), kind_named("stall")], apps=4, brokers=2)
    return replace(plan, workload=replace(plan.workload, messages=100)).with_strikes()


def has(plan: Plan, *numbers: int) -> bool:
    return {*numbers} <= {strike.number for strike in plan.strikes or ()}


def test_the_smallest_plan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs two faults that are far apart, three members and seventeen messages."""

    def broken(plan: Plan) -> list[Violation]:
        fails = has(plan, 1, 7) and plan.apps >= 3 and plan.workload.messages >= 17
        return [Violation("nothing lost", "m", 5.0)] if fails else []

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    plan = shrunk.smallest.plan

    assert plan.strikes is not None
    assert ([], ()) == (plan.workload.small.names, plan.workload.rare.active)
    assert [1, 7] == [strike.number for strike in plan.strikes]
    assert (3, 1, 17, 1) == (plan.apps, plan.brokers, plan.workload.messages, plan.workload.queues)
    assert {kind.name for kind in plan.kinds} == {strike.kind for strike in plan.strikes}
    assert (0.0, 0.0, 1) == (
        plan.workload.groups[0].fail_rate,
        plan.workload.groups[0].poison_rate,
        plan.workload.groups[0].concurrency,
    )
    assert "fifo" == plan.policy
    assert plan.strikes[-1].at < plan.faults_s < plan.strikes[-1].at + 2
    assert shrunk.nearest is not None
    fault = Event(plan.strikes[1].at, "somebody", f"FAULT {plan.strikes[1].kind}", is_fault=True)
    assert Difference(fault, None) == shrunk.difference


def test_only_the_small_limit_that_is_needed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = next(plan for seed in range(300) if len((plan := draw(seed)).workload.small.names) >= 3)
    needed = plan.workload.small.names[1]
    made(
        monkeypatch,
        lambda plan: [Violation("nothing lost", "m", 5.0)] if needed in plan.workload.small.names else [],
    )
    shrunk = shrink(plan)
    assert shrunk is not None
    assert [needed] == shrunk.smallest.plan.workload.small.names


def test_another_invariant_is_not_the_same_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> list[Violation]:
        return [Violation("nothing lost" if has(plan, 2) else "order kept", "m", 5.0)]

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert has(shrunk.smallest.plan, 2)
    assert shrunk.nearest is None, "none of these plans holds"


def test_the_first_violation_is_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late one follows from an early one, or comes from something else."""

    def broken(plan: Plan) -> list[Violation]:
        late = Violation("progress", "not drained", 200.0)
        return [late, Violation("order kept", "m", 5.0)] if has(plan, 2) else [late]

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert "order kept" == shrunk.violation.truth
    assert has(shrunk.smallest.plan, 2)


def test_an_unforeseen_error_is_told_from_another_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> list[Violation]:
        what = "KeyError('lane 17')" if has(plan, 2) else "ConfigurationError('no such group')"
        return [Violation("nothing unexpected", f"app-{plan.apps}.1: ended by {what}", 5.0)]

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert has(shrunk.smallest.plan, 2)
    assert 1 == shrunk.smallest.plan.apps, "numbers in the words do not matter"


def test_a_little_luck_is_looked_for_with_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> list[Violation]:
        fails = plan.seed == 12 or plan.workload.messages == 100
        return [Violation("nothing lost", "m", 5.0)] if fails else []

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert (12, 1) == (shrunk.smallest.plan.seed, shrunk.smallest.plan.workload.messages)


def test_a_search_ends_though_each_seed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed alone is no smaller plan."""
    world = made(monkeypatch, lambda plan: [Violation("nothing lost", "m", 5.0)])
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert () == shrunk.smallest.plan.strikes
    assert world.runs < 100


def test_a_plan_that_breaks_the_world_itself_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(plan: Plan) -> list[Violation]:
        if plan.apps < 2:
            raise KeyError("nobody has thought of that")
        return [Violation("nothing lost", "m", 5.0)]

    made(monkeypatch, broken)
    shrunk = shrink(a_plan())
    assert shrunk is not None
    assert 2 == shrunk.smallest.plan.apps


def test_when_the_time_is_over_the_smallest_so_far_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = made(monkeypatch, lambda plan: [Violation("nothing lost", "m", 5.0)] if has(plan, 0) else [])
    told: list[int] = []
    shrunk = shrink(a_plan(), is_over=lambda: world.runs >= 3, tell=lambda runs, plan: told.append(runs))
    assert shrunk is not None
    assert not shrunk.is_finished
    assert told
    assert shrunk.smallest.plan.seconds < a_plan().seconds
    at_once = shrink(a_plan(), is_over=lambda: True)
    assert at_once is not None
    assert replace(a_plan(), given="") == at_once.smallest.plan


def test_the_time_is_over_by_the_clock_or_by_the_first_signal() -> None:
    now = [100.0]
    until = Deadline(10.0, lambda: now[0])
    assert not until.is_over()
    assert 10.0 == until.left_s
    until.interrupt()
    until.interrupt()  # make passes on what the whole process group has had
    assert until.is_over()
    now[0] = 101.0
    with pytest.raises(KeyboardInterrupt):
        until.interrupt()
    by_clock = Deadline(10.0, lambda: now[0])
    now[0] = 111.5
    assert by_clock.is_over()
    assert not by_clock.is_interrupted
    assert (10.5, 0.0) == (by_clock.passed_s, by_clock.left_s)


def test_a_signal_within_ends_the_time_and_is_an_interrupt_again_behind_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    with deadline(60.0) as until:
        os.kill(os.getpid(), signal.SIGINT)
        assert until.is_over()
    assert before == signal.getsignal(signal.SIGINT)


# -- where two runs part


def test_the_first_difference_goes_by_time_and_the_consequence_by_what_each_process_did() -> None:
    fault = Event(2.0, "app-1", "FAULT cut", is_fault=True)
    fails = [Event(1.0, "app-1.1", "a"), fault, Event(3.0, "app-2.1", "b"), Event(3.1, "app-1.1", "c")]
    holds = [Event(1.0, "app-1.1", "a"), Event(2.9, "app-1.1", "c"), Event(3.2, "app-2.1", "d")]

    assert Difference(fault, holds[1]) == first_difference(fails, holds)
    assert Difference(fails[2], holds[2]) == first_consequence(fails, holds)
    assert 2.0 == Difference(fault, holds[1]).at


def test_a_run_that_goes_on_differs_from_one_that_ends() -> None:
    fails = [Event(1.0, "app-1.1", "a"), Event(2.0, "app-1.1", "b")]
    assert Difference(fails[1], None) == first_difference(fails, fails[:1])
    assert Difference(None, fails[1]) == first_consequence(fails[:1], fails)
    assert first_difference(fails, fails) is None
    assert first_consequence(fails, fails) is None


# -- plans as text


def test_a_plan_is_what_its_text_says() -> None:
    for seed in range(500):
        plan = draw(seed)
        assert plan == read(written(plan))
        named = plan.with_strikes()
        assert named == read(written(named))


def test_a_line_replays_the_plan_in_a_shell() -> None:
    line = replay_line(draw(5))
    assert line.startswith('python -m tests.simulation.one --plan \'{"seed":5,')
    assert line.endswith("}'")
    assert "\n" not in line


def test_a_plan_can_be_copied_out_of_its_line() -> None:
    """The name of a limit may have an apostrophe in it."""
    plan = next(plan for plan in map(draw, range(3_000)) if "'" in "".join(plan.workload.small.names))
    text = written(plan)
    assert "'" not in text
    assert plan == read(text)
    assert replay_line(plan).endswith(f"--plan '{text}'")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"seed":5', '"seed":"x"', "seed"),
        ('"seed":5', '"sead":5', "seed"),
        ('"messages"', '"massages"', "workload.massages"),
        ('"kinds":["', '"kinds":["crush","', "did you mean 'crash'?"),
        ('"kinds":[', '"kinds":"all","others":[', "no list"),
        ('"policy":"', '"policy":"x', "policy"),
        ('"strikes":[[0,', '"strikes":[["a",', "[number, seconds, kind]"),
        ('{"seed"', '["seed"', "not JSON"),
    ],
)
def test_a_text_that_is_no_plan_is_an_error_of_the_user(old: str, new: str, words: str) -> None:
    text = written(draw(5).with_strikes())
    assert old in text
    with pytest.raises(ConfigurationError) as raised:
        read(text.replace(old, new, 1))
    assert words in str(raised.value)


def test_a_fault_whose_kind_is_not_there_is_an_error() -> None:
    plan = draw(5, kinds=[kind_named("crash")]).with_strikes()
    with pytest.raises(ConfigurationError, match="crash is none of the kinds cut"):
        read(written(plan).replace('"kinds":["crash"]', '"kinds":["cut"]'))
