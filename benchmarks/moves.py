"""What a newcomer costs: how many queues change hands when one member joins, by each strategy, against the least.

    python -m benchmarks.moves

The least is the newcomer's own share, rounded up. A cell is a number of members before and of queues; its figure is the
mean over several groups. A leaver costs what the same member cost as a newcomer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from framework.core.assignment import allocate
from framework.hooks.builtin.allocation.averaging import Averaging
from framework.hooks.builtin.allocation.circle import Circle
from framework.hooks.builtin.allocation.consistent_hash import ConsistentHash
from framework.hooks.builtin.allocation.sticky import Sticky
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue

MEMBERS = range(1, 12)
"""Before the newcomer."""
QUEUES = range(3, 101)
GROUPS = 4


@dataclass(frozen=True, slots=True)
class Figures:
    """Moves divided by the least, over a grid."""

    mean: float
    worst_cell: tuple[int, int]
    """Members before, and queues."""
    worst_mean: float
    worst: float
    """The worst single group."""
    by_members: dict[int, float]


def figures(
    strategy: AllocationStrategy,
    members: Sequence[int] = MEMBERS,
    queues: Sequence[int] = QUEUES,
    groups: int = GROUPS,
) -> Figures:
    """The figures of a strategy; the same on every machine, since groups are made from their number."""
    cells: dict[tuple[int, int], list[float]] = {}
    for count in members:
        for size in queues:
            cells[count, size] = [
                _moved(strategy, count, size, group) / -(-size // (count + 1)) for group in range(groups)
            ]
    means = {cell: sum(ratios) / len(ratios) for cell, ratios in cells.items()}
    worst_cell = max(means, key=lambda cell: means[cell])
    return Figures(
        mean=sum(means.values()) / len(means),
        worst_cell=worst_cell,
        worst_mean=means[worst_cell],
        worst=max(max(ratios) for ratios in cells.values()),
        by_members={count: sum(means[count, size] for size in queues) / len(queues) for count in members},
    )


def _moved(strategy: AllocationStrategy, count: int, size: int, group: int) -> int:
    names = [_name(group, at) for at in range(count + 1)]
    topic = f"orders-{group}"
    queues = [MessageQueue(topic, f"broker-{'ab'[at % 2]}", at // 2) for at in range(size)]
    before, after = (_owners(strategy, names[:upto], queues) for upto in (count, count + 1))
    return sum(before[queue] != after[queue] for queue in queues)


def _owners(
    strategy: AllocationStrategy, members: Sequence[str], queues: Sequence[MessageQueue]
) -> dict[MessageQueue, str]:
    return {queue: member for member in members for queue in allocate(strategy, member, members, queues)}


def _name(group: int, at: int) -> str:
    """A client id that sorts anywhere among the others."""
    digest = hashlib.sha256(f"{group} {at}".encode()).digest()
    return f"10.{digest[0]}.{digest[1]}.{digest[2]}@{int.from_bytes(digest[3:5], 'big')}#{digest[5:11].hex()}"


def main() -> None:
    strategies: tuple[AllocationStrategy, ...] = (Sticky(), ConsistentHash(), Averaging(), Circle())
    print(f"moves when one joins, against the least; {len(QUEUES)} topics of 3 to 100 queues, {GROUPS} groups each")
    print("members before:  " + "".join(f"{count:>6}" for count in MEMBERS) + "    mean   worst cell's mean      worst")
    for strategy in strategies:
        found = figures(strategy)
        row = "".join(f"{found.by_members[count]:>6.2f}" for count in MEMBERS)
        count, size = found.worst_cell
        worst = f"{found.worst_mean:.2f} ({count} members, {size} queues)"
        print(f"{strategy.name:<17}{row}{found.mean:>8.2f}   {worst:<30}{found.worst:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
