"""One seed, from its plan to the verdict: a fault phase, healing, a demand for progress, and the checkers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from framework.testing.errors import SimulationError, Violation
from tests.simulation.checkers import ALL, Checker
from tests.simulation.cluster import Cluster
from tests.simulation.failures.plan_text import ONE_RUN, replay_line
from tests.simulation.faults.nemesis import Nemesis
from tests.simulation.history import History
from tests.simulation.plans.matrix import Pair, met
from tests.simulation.plans.plan import SECONDS, Plan, draw
from tests.simulation.stuck_step import StuckStep, watched

__all__ = ["SECONDS", "Plan", "Verdict", "draw", "play", "replay_command"]

PROGRESS_S, MESSAGE_S = 180.0, 0.1
"""Patience after healing, and so much more for each message. A broker forgets a silent member after 120 s; its queues
are nobody's until then. One handler and one sender of copies take a minute for a thousand that fail in batches.
"""
VIOLATIONS_MAX = 20
CPU_MIN_S = 60.0
"""A run takes a second of processor time; one that takes a minute more than its virtual time never ends."""


@dataclass(slots=True)
class Verdict:
    """What became of one seed. Small enough to be sent between processes, without its history."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    excuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(truth, reason) -> how often it let something pass."""
    met: frozenset[Pair] = frozenset()
    """Ways and kinds of fault that came together."""
    trace: str = ""
    virtual_s: float = 0.0
    steps: int = 0

    @property
    def is_ok(self) -> bool:
        return not self.violations


def play(plan: Plan, *, mutants: Collection[str] = (), checkers: Sequence[Checker] = ALL) -> tuple[Verdict, History]:
    """Run a plan and judge it. A run that breaks a promise, or breaks down, is a verdict and not an exception."""
    cluster = Cluster(
        plan.seed, apps=plan.apps, brokers=plan.brokers, policy=plan.policy, workload=plan.workload, mutants=mutants
    )
    cluster.history.is_calm = plan.is_calm
    nemesis = Nemesis(cluster, plan.kinds, plan.strikes)
    verdict = Verdict(plan)
    try:
        with watched(CPU_MIN_S + plan.seconds):
            cluster.run(lambda world: _scenario(world, nemesis, plan))
    except StuckStep as stuck:
        verdict.violations.append(Violation("every step returns", str(stuck), cluster.loop.now))
    except Violation as violation:
        verdict.violations.append(violation)
    except SimulationError as error:
        verdict.violations.append(Violation("the run ends", str(error), cluster.loop.now))
    for checker in checkers:
        verdict.violations += list(checker(cluster.history))[:VIOLATIONS_MAX]
    verdict.fired = nemesis.fired
    verdict.met = met(plan.workload, cluster.history, verdict.fired)
    verdict.marks = Counter(cluster.history.marks)
    verdict.excuses = cluster.history.excuses
    verdict.trace = cluster.loop.trace_hash()
    verdict.virtual_s = cluster.loop.now
    verdict.steps = cluster.loop.steps
    return verdict, cluster.history


async def _scenario(cluster: Cluster, nemesis: Nemesis, plan: Plan) -> None:
    await cluster.start()
    faults_s = plan.faults_s
    sending = cluster.loop.create_task(
        cluster.send(plan.workload.messages, period_s=faults_s * 0.95), name="the world sends"
    )
    await nemesis.run(faults_s)
    await nemesis.heal()
    await sending
    await cluster.drain(PROGRESS_S + plan.workload.messages * MESSAGE_S)
    await cluster.wait_until(plan.seconds)
    await cluster.settle(PROGRESS_S)
    await cluster.leave_all()


def replay_command(plan: Plan) -> str:
    """The line that repeats a run."""
    if plan.strikes is not None:  # nothing of it was drawn
        return replay_line(plan)
    return f"{ONE_RUN} --seed {plan.seed} --for {plan.seconds:g}s{plan.given}"
