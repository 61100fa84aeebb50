"""Laws that a strategy must keep before members may trust it with their queues. For the tests of plugin authors, too:

    def test_my_strategy_keeps_the_laws() -> None:
        check_allocation(MyStrategy())

A broken law is an AssertionError that names the law and the case. Strategies are asked as the framework asks them, with
sorted lists; what they do with one member, none of the queues, or more members than queues is tried as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from framework.core.assignment import allocate
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue

T = TypeVar("T")

MEMBERS = tuple(f"10.0.{at % 3}.{at}@{1000 + 7 * at}#{at:04x}" for at in range(12))
"""Members as they are called in real groups: address, process, and something to tell apart two in one process."""
QUEUES = tuple(MessageQueue("orders", f"broker-{'abc'[at % 3]}", at // 3) for at in range(30))


def check_allocation(
    strategy: AllocationStrategy,
    *,
    covers: bool = True,
    within: int | None = None,
    members: Sequence[str] = MEMBERS,
    queues: Sequence[MessageQueue] = QUEUES,
) -> None:
    """Raise AssertionError unless the strategy keeps the laws for these members and queues, and for fewer of them.

    - cover: every queue has an owner (leave it out by `covers=False`, for strategies that leave queues to others)
    - no overlap: no queue has two, and nobody is given a queue that was not offered
    - determinism: asked again, it answers the same
    - permutation: it answers the same however the broker happened to list members and queues
    - strangers: who is not on the list owns nothing
    - balance: shares differ by at most `within`; not checked when it is None
    """
    assert isinstance(strategy, AllocationStrategy), f"{strategy!r} has no name or no allocate()"
    for some_members, some_queues in _cases(members, queues):
        case = f"strategy {strategy.name!r}, {len(some_members)} members, {len(some_queues)} queues"
        shares = [allocate(strategy, each, some_members, some_queues) for each in some_members]
        owned = [queue for share in shares for queue in share]
        twice = sorted({queue for queue in owned if owned.count(queue) > 1})
        assert not twice, f"{case}: no overlap: {twice[0]} has more than one owner"
        nobodys = [queue for queue in some_queues if queue not in owned]
        assert not (covers and nobodys), f"{case}: cover: {nobodys[0]} has no owner"
        for member, share in zip(some_members, shares, strict=True):
            _check_member(strategy, member, share, some_members, some_queues, case)
        sizes = [len(share) for share in shares]
        assert within is None or max(sizes) - min(sizes) <= within, f"{case}: balance: shares of {sorted(sizes)}"
        stranger = strategy.allocate("nobody", sorted(some_members), sorted(some_queues))
        assert not stranger, f"{case}: strangers: a member that is not on the list was given {stranger[0]}"


def _check_member(
    strategy: AllocationStrategy,
    member: str,
    share: list[MessageQueue],
    members: Sequence[str],
    queues: Sequence[MessageQueue],
    case: str,
) -> None:
    again = allocate(strategy, member, members, queues)
    assert share == again, f"{case}: determinism: {member} got {_shown(share)}, and then {_shown(again)}"
    for other_members in _permuted(members):
        for other_queues in _permuted(queues):
            found = allocate(strategy, member, other_members, other_queues)
            assert share == found, (
                f"{case}: permutation: {member} got {_shown(share)}, and {_shown(found)} in another order"
            )


def _cases(members: Sequence[str], queues: Sequence[MessageQueue]) -> Iterator[tuple[list[str], list[MessageQueue]]]:
    """Groups of every size, with no queue, one, as many as members, one more, and all."""
    for count in range(1, len(members) + 1):
        for size in sorted({0, 1, count - 1, count, count + 1, len(queues)}):
            yield list(members[:count]), list(queues[:size])


def _permuted(things: Sequence[T]) -> Iterator[list[T]]:
    """Three orders that have little in common; chosen by rule, so that a failure is the same for everybody."""
    yield list(reversed(things))
    yield [*things[len(things) // 2 :], *things[: len(things) // 2]]
    yield [*things[1::2], *things[::2]]


def _shown(share: Sequence[MessageQueue]) -> str:
    return ", ".join(map(str, share)) or "nothing"
