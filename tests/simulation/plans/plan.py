"""The plan of a seed: everything that is drawn before its run begins.

Plans have two shapes. A wide one has several groups, ways and faults and few messages, and finds what comes of
mixtures; a narrow one has one group, one way, one fault and hundreds of messages, and looks long at one pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from framework.testing.sim.streams import Stream, Streams
from framework.testing.sim.virtual_loop import Policy
from tests.simulation.faults.kinds import ALL_KINDS, NAMES, FaultKind, kind_named
from tests.simulation.faults.nemesis import Strike, draw_strikes
from tests.simulation.plans.turns import shape_of, turn_of
from tests.simulation.plans.ways import USUAL, WAYS, dressed, ways_of
from tests.simulation.rare.bends import made_rare
from tests.simulation.workload import GroupLoad, Workload

SECONDS = 60.0
FAULT_SHARE = 0.7
"""Of a run's time; the rest is for healing."""
WIDE_KINDS = (3, 5, 5, 5, 5)
WIDE_WAYS = (1, 5, 6, 7)
NARROW_MESSAGES = (300, 600, 1_200, 2_400)
BRING_A_GROUP = frozenset({"pop-switched"})
"""Ways that are a group of their own: a narrow run that goes another one has no room for it."""
BESIDE, BESIDE_RATE = ("breaker", "bad-deploy"), 0.2
"""A way and the kind of fault that needs it, which take no turns: so many wide runs have them, for a last kind."""
NARROW_STUCK = 3.0
"""So many messages of a narrow run find a handler that gets stuck, where some do at all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn; printed first, so that a failure is one line to repeat."""

    seed: int
    policy: Policy
    is_calm: bool
    kinds: tuple[FaultKind, ...]
    apps: int
    brokers: int
    workload: Workload
    seconds: float
    given: str = ""
    """What was not drawn of faults and ways, as options of the command that repeats it."""
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


def draw(
    seed: int,
    *,
    seconds: float = SECONDS,
    kinds: Sequence[FaultKind] | None = None,
    ways: Sequence[str] | None = None,
    apps: int | None = None,
    brokers: int | None = None,
    policy: Policy | None = None,
) -> Plan:
    """A seed's plan. What is given is not drawn."""
    chance = Stream(f"{seed}/plan")
    drawn_policy = cast("Policy", chance.pick(("shuffle", "shuffle", "shuffle", "fifo", "pct")))
    drawn_apps, drawn_brokers = 2 + chance.below(3), chance.pick((1, 1, 1, 2))
    shape = shape_of(seed)
    calm = shape == "calm" if kinds is None else not kinds
    is_narrow = shape == "narrow" and not calm
    turn = turn_of(seed, _apart(WAYS), _apart(NAMES), USUAL)
    chosen_ways, ways_most = (turn.ways, 1 if is_narrow else chance.pick(WIDE_WAYS)) if ways is None else (ways, None)
    if kinds is not None:
        chosen_kinds = list(kinds)
    elif calm:
        chosen_kinds = [kind for kind in ALL_KINDS if kind.is_calm]
    else:
        wanted = 1 if is_narrow else chance.pick(WIDE_KINDS)
        chosen_kinds = _drawn_kinds(chosen_ways if ways is not None else chosen_ways[:1], turn.faults, wanted, chance)
        if is_narrow and chosen_kinds[0].needs in BRING_A_GROUP - set(chosen_ways[:1]):
            others = [
                name for name in _apart(NAMES) if not kind_named(name).needs and name not in WAYS[chosen_ways[0]].shuns
            ]
            chosen_kinds = [kind_named(chance.pick(others))]
    if ways is None:
        chosen_ways = [
            way for way in chosen_ways if not _shunned(way, chosen_kinds) and (WAYS[way].in_calm or not calm)
        ]
    if kinds is None and shape == "wide" and Stream(f"{seed}/beside").happens(BESIDE_RATE):
        chosen_kinds = [*chosen_kinds[:-1], kind_named(BESIDE[1])]
    workload = _workload(Stream(f"{seed}/workload"), is_narrow=is_narrow)
    workload = dressed(workload, chosen_ways, lambda way: Stream(f"{seed}/ways/{way}"), most=ways_most)
    if is_narrow:
        workload = _narrowed(workload, chance)
    needed = [kind.needs for kind in chosen_kinds if kind.needs and not (calm and kinds is None)]
    workload = dressed(workload, needed, lambda way: Stream(f"{seed}/ways/{way}"))
    workload = made_rare(workload, lambda name: Stream(f"{seed}/rare/{name}"), is_calm=calm)
    if calm:
        workload = replace(workload, groups=tuple(replace(load, stuck_rate=0.0) for load in workload.groups))
    if kinds is None:
        chosen_kinds = [kind for kind in chosen_kinds if not kind.needs or kind.needs in workload.ways]
    return Plan(
        seed=seed,
        policy=policy or drawn_policy,
        is_calm=calm,
        kinds=tuple(chosen_kinds),
        apps=apps or drawn_apps,
        brokers=len(workload.broker_names) or brokers or drawn_brokers,
        workload=workload,
        seconds=seconds,
        given=_given("--faults", None if kinds is None else [kind.name for kind in kinds]) + _given("--ways", ways),
    )


def _given(option: str, names: Sequence[str] | None) -> str:
    return "" if names is None else f" {option} {','.join(names) or 'none'}"


def clashes(ways: Iterable[str], kinds: Iterable[FaultKind]) -> Iterator[str]:
    """Which of them make no sense together, and why."""
    names = [kind.name for kind in kinds]
    for way in ways:
        yield from (f"{way} and {name}: {why}" for name, why in WAYS[way].shuns.items() if name in names)


def _drawn_kinds(ways: Sequence[str], faults: Sequence[str], count: int, chance: Stream) -> list[FaultKind]:
    """Those whose turn it is first; none that one of these ways shuns."""
    names = _apart(NAMES)
    rest = [name for name in chance.sample(names, len(names)) if name not in faults]
    chosen: list[FaultKind] = []
    shunned = {name for way in ways for name in WAYS[way].shuns}
    for kind in (kind_named(name) for name in (*faults, *rest)):
        own = WAYS[kind.needs].shuns if kind.needs else {}
        if len(chosen) < count and kind.name not in shunned and not any(each.name in own for each in chosen):
            chosen.append(kind)
            shunned |= own.keys()
    return chosen


def _apart(names: Iterable[str]) -> tuple[str, ...]:
    """Those that take turns."""
    return tuple(name for name in names if name not in BESIDE)


def _shunned(way: str, kinds: Iterable[FaultKind]) -> bool:
    return any(kind.name in WAYS[way].shuns for kind in kinds)


def _workload(chance: Stream, *, is_narrow: bool) -> Workload:
    """What every run has: a topic, and one group of coroutines."""
    usual = GroupLoad(
        concurrency=chance.pick((1, 2, 4, 8)),
        fail_rate=chance.pick((0.0, 0.05, 0.2)),
        poison_rate=chance.pick((0.0, 0.02)),
        stuck_rate=chance.pick((0.0, 0.0, 0.02)),
        stuck_s=chance.pick((8.0, 40.0)),
    )
    return Workload(
        queues=chance.pick((2, 4, 6)),
        groups=(usual,),
        messages=chance.pick((30, 70, 110)),
        pull_batch=chance.pick((2, 8, 32)),
        sync_s=chance.pick((0.002, 0.02) if is_narrow else (0.002, 0.02, 0.2)),
    )


def _narrowed(workload: Workload, chance: Stream) -> Workload:
    """With nothing but the group that goes all its ways, and many messages for it."""
    messages = chance.pick(NARROW_MESSAGES)
    fitting = [load for load in workload.groups if set(workload.ways) <= set(ways_of(workload, load))]
    groups = [
        replace(load, stuck_rate=min(load.stuck_rate, NARROW_STUCK / messages)) for load in fitting or workload.groups
    ]
    if any(load.broadcasting for load in groups):
        messages = NARROW_MESSAGES[0]
    return replace(workload, groups=tuple(groups[:1] if fitting else groups), messages=messages)
