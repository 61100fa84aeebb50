"""One seed, from the draw to the verdict: a fault phase, healing, a demand for progress, and the checkers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from framework.testing.errors import SimulationError, Violation
from framework.testing.sim.streams import Stream, Streams
from framework.testing.sim.stuck_step import StuckStep, watched
from framework.testing.sim.virtual_loop import Policy
from framework.testing.swarm.checkers import ALL, Checker
from framework.testing.swarm.cluster import Cluster
from framework.testing.swarm.faults.kinds import LEAVE, FaultKind, draw_kinds, with_damage, with_kinds, with_later_kind
from framework.testing.swarm.faults.nemesis import Nemesis, Strike, draw_strikes
from framework.testing.swarm.history import History
from framework.testing.swarm.rare.bends import made_rare
from framework.testing.swarm.variety import BROUGHT, IN_ORDER, vary
from framework.testing.swarm.workload import Workload, draw_workload

SECONDS = 60.0
FAULT_SHARE = 0.7
"""Of a run's time; the rest is for healing."""
PROGRESS_S = 180.0
"""A broker forgets a silent member after 120 s; its queues are nobody's until then."""
CALM_EACH = 5
VIOLATIONS_MAX = 20
CPU_MIN_S = 60.0
"""A run takes a second of processor time; one that takes a minute more than its virtual time never ends."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is drawn before a run begins; printed first, so that a failure is one line to repeat."""

    seed: int
    policy: Policy
    is_calm: bool
    kinds: tuple[FaultKind, ...]
    apps: int
    brokers: int
    workload: Workload
    seconds: float
    strikes: tuple[Strike, ...] | None = None
    """The faults one by one, where they are not drawn."""

    @property
    def faults_s(self) -> float:
        """How long faults may happen, and messages are sent."""
        return self.seconds * FAULT_SHARE

    def with_strikes(self) -> Plan:
        """The same run with each of its faults named."""
        if self.strikes is not None:
            return self
        return replace(self, strikes=draw_strikes(Streams(self.seed).faults, self.kinds, self.faults_s))

    def has(self, *kinds: str) -> bool:
        """Whether any of these kinds of fault may happen."""
        return any(kind.name in kinds for kind in self.kinds)

    def __str__(self) -> str:
        kinds = ",".join(kind.name for kind in self.kinds)
        strikes = "" if self.strikes is None else f" strikes={len(self.strikes)}"
        load = self.workload
        groups = " ".join(
            f"{group.name}({'async' if group.is_async else 'threads'} x{group.concurrency} fail={group.fail_rate:g} "
            f"poison={group.poison_rate:g} stuck={group.stuck_rate:g} limit={group.timeout_s:g}s)"
            for group in load.groups
        )
        return (
            f"seed={self.seed} policy={self.policy} calm={self.is_calm} for={self.seconds:g}s apps={self.apps} "
            f"brokers={self.brokers} faults={kinds or 'none'}{strikes} queues={load.queues} messages={load.messages} "
            f"sync={load.sync_s:g}s ways={','.join(load.ways) or 'none'} {groups} "
            f"small={load.small} rare={load.rare}"
        )


@dataclass(slots=True)
class Verdict:
    """What became of one seed. Small enough to be sent between processes, without its history."""

    plan: Plan
    violations: list[Violation] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    excuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(truth, reason) -> how often it let something pass."""
    trace: str = ""
    virtual_s: float = 0.0
    steps: int = 0

    @property
    def is_ok(self) -> bool:
        return not self.violations


def draw(
    seed: int,
    *,
    seconds: float = SECONDS,
    kinds: Sequence[FaultKind] | None = None,
    apps: int | None = None,
    brokers: int | None = None,
    policy: Policy | None = None,
) -> Plan:
    """A seed's plan. What is given is not drawn; the draws of the rest stay the same."""
    chance = Stream(f"{seed}/plan")
    drawn_policy = cast("Policy", chance.pick(("shuffle", "shuffle", "shuffle", "fifo", "pct")))
    drawn_apps, drawn_brokers = 2 + chance.below(3), chance.pick((1, 1, 1, 2))
    is_calm = seed % CALM_EACH == CALM_EACH - 1 if kinds is None else not kinds
    drawn_kinds = (LEAVE,) if is_calm else tuple(draw_kinds(chance))
    workload = draw_workload(chance, is_calm=is_calm)
    if not is_calm:
        drawn_kinds = with_later_kind(drawn_kinds, Stream(f"{seed}/later kinds"))
        drawn_kinds = with_damage(drawn_kinds, Stream(f"{seed}/damage"))
    chosen = drawn_kinds if kinds is None else tuple(kinds)
    workload = vary(
        workload,
        lambda way: Stream(f"{seed}/variety/{way}"),
        is_calm=is_calm,
        kinds=frozenset(kind.name for kind in chosen),
    )
    workload = made_rare(workload, lambda name: Stream(f"{seed}/rare/{name}"), is_calm=is_calm)
    if kinds is None:
        brought = [BROUGHT[way] for way in workload.ways if way in BROUGHT]
        chosen = with_kinds(chosen, [name for name in brought if name in IN_ORDER or not is_calm])
    return Plan(
        seed=seed,
        policy=policy or drawn_policy,
        is_calm=is_calm,
        kinds=chosen,
        apps=apps or drawn_apps,
        brokers=len(workload.broker_names) or brokers or drawn_brokers,
        workload=workload,
        seconds=seconds,
    )


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
    await cluster.drain(PROGRESS_S)
    await cluster.wait_until(plan.seconds)
    await cluster.settle(PROGRESS_S)
    await cluster.leave_all()


def replay_command(plan: Plan) -> str:
    """The line that repeats a run."""
    return f"framework-app simulate --seed {plan.seed} --for {plan.seconds:g}s"
