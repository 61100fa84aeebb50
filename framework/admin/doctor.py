"""Doctor: gathers the facts, and puts every check to them. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from framework.admin import facts
from framework.admin.cluster import Admin
from framework.admin.cluster_checks import CLUSTER_CHECKS
from framework.admin.facts import ClusterFacts
from framework.admin.findings import SEVERITIES, Check, Finding, Told, Unlooked, tried
from framework.admin.group_checks import GROUP_CHECKS
from framework.admin.groups import all_groups, check_known, reason_of
from framework.admin.positions import Positions
from framework.errors import FrameworkError
from framework.mistakes import NotInCluster

F = TypeVar("F")

STUCK_SECONDS = 10.0


@dataclass(slots=True)
class Diagnosis:
    """What was found, the worst first, and what could not be looked at."""

    findings: list[Finding] = field(default_factory=list)
    unlooked: list[Unlooked] = field(default_factory=list)
    checks: int = 0
    """That were to be made."""
    in_part: int = 0
    """Of those: could not be made, or not everywhere."""

    @property
    def is_severe(self) -> bool:
        return any(each.severity == "severe" for each in self.findings)

    def put(self, checks: Sequence[Check[F]], about: F) -> None:
        """Put each of them to the facts."""
        for check in checks:
            said = list(check.ask(about))
            self.checks += 1
            self.in_part += any(isinstance(each, Unlooked) for each in said)
            for each in said:
                known: list[Finding] | list[Unlooked] = self.findings if isinstance(each, Finding) else self.unlooked
                if each not in known:
                    known.append(each)  # type: ignore[arg-type]  # the list is that of its kind
        self.findings.sort(key=lambda each: SEVERITIES.index(each.severity))


def diagnose(
    admin: Admin,
    now_ms: Callable[[], int],
    *,
    group: str | None = None,
    topics: Sequence[str] = (),
    stuck_s: float = STUCK_SECONDS,
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Diagnosis:
    """Of the cluster, and of one group or of all; names are the cluster's. `topics`: what the group should read.

    ConfigurationError where no broker has heard of the group and no topic is named: then its name is a mistake.
    """
    found = Diagnosis()
    cluster = facts.cluster(admin, now_ms)
    found.put(CLUSTER_CHECKS, cluster)
    names = [group] if group is not None else list(_groups(admin, found))
    for number, name in enumerate(names):
        advance(number, len(names))
        of_group = facts.group(admin, cluster, name, topics, stuck_s=stuck_s, now_ms=now_ms)
        if group is not None and not topics and _is_stranger(of_group.positions, cluster, name):
            _check_known(admin, name)
        found.put(GROUP_CHECKS, of_group)
    advance(len(names), len(names))
    return found


def _groups(admin: Admin, found: Diagnosis) -> Iterator[str]:
    """Every group; those of brokers that do not say are unknown."""
    told = tried(lambda: all_groups(admin))
    if isinstance(told, FrameworkError):
        found.unlooked.append(Unlooked("which groups there are", "the cluster", reason_of(told)))
        return
    names, failed = told
    for broker, reason in failed.items():
        found.unlooked.append(Unlooked("which groups it has", broker, reason))
    yield from names


def _check_known(admin: Admin, group: str) -> None:
    try:
        check_known(admin, group)
    except NotInCluster as error:
        raise NotInCluster(f"{error}; for a group before its first start, name its topic: --topic TOPIC") from None


def _is_stranger(positions: Told[Positions], cluster: ClusterFacts, name: str) -> bool:
    if isinstance(positions, FrameworkError) or not positions.is_nobody:
        return False
    told = [each.groups for each in cluster.brokers]
    return not any(isinstance(each, FrameworkError) or name in each for each in told)
