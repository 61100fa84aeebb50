"""Rules: whether a user may do something to a topic, a group or the cluster, as RocketMQ's access control 2.0 has it.

The most specific rule that fits decides: an exact name before a prefix, a longer prefix before a shorter one, any name
after those and `*` last. Where none fits, the answer is no. Pure: no file, no request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

TOPIC, GROUP, CLUSTER, ANY = "Topic", "Group", "Cluster", "*"
KINDS = (TOPIC, GROUP, CLUSTER)

PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST = "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"
ACTIONS = (PUB, SUB, CREATE, UPDATE, DELETE, GET, LIST)

Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Want:
    """What a request would do: any one of the actions is enough."""

    kind: str
    name: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """`name` ends in `*` for a prefix. No sources: from anywhere."""

    kind: str
    name: str
    actions: frozenset[str]
    is_allowed: bool = True
    sources: tuple[Network, ...] = ()

    def fits(self, want: Want, source: IPv4Address | IPv6Address | None) -> bool:
        return (
            self._names(want)
            and not self.actions.isdisjoint(want.actions)
            and (not self.sources or any(source is not None and source in network for network in self.sources))
        )

    def _names(self, want: Want) -> bool:
        if self.kind == ANY:
            return True
        if self.kind != want.kind:
            return False
        return want.name.startswith(self.name[:-1]) if self.name.endswith("*") else want.name == self.name

    @property
    def order(self) -> tuple[bool, bool, int, bool]:
        """The smallest decides; between two of the same name a denial."""
        return self.kind == ANY, self.name.endswith("*"), -len(self.name), self.is_allowed


@dataclass(frozen=True, slots=True)
class User:
    """A super user may do everything; others what their rules say."""

    name: str
    password: str = field(repr=False)
    is_super: bool = False
    rules: tuple[Rule, ...] = ()


def refusal(user: User, wants: Iterable[Want], host: str) -> str | None:
    """Why the user may not do all of this from there, in RocketMQ's words; None where he may."""
    if user.is_super:
        return None
    source = address(host)
    for want in wants:
        rule = min((rule for rule in user.rules if rule.fits(want, source)), key=lambda rule: rule.order, default=None)
        if rule is None or not rule.is_allowed:
            reason = "no matched policies." if rule is None else "the decision is deny."
            return f"User:{user.name} has no permission to access {want.kind}:{want.name} from {host}, {reason}"
    return None


def address(host: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address as such, also where it came by a port that speaks IPv6."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(found, IPv6Address) and found.ipv4_mapped) or found
