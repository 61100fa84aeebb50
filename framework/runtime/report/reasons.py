"""Reasons: why an application is not ready, and what of it only a restart mends, each as a sentence for people.

Whoever answers a probe reads these and nothing else: `App.is_ready`, the snapshot, `framework-app health`, listeners.
`health` in docs/commands.md says what the two mean. They are asked on the event loop; what is wrong with the loop
itself is added by whoever looks at it from outside (`blocked`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.core.queue_flow import QueueState
from framework.model.namespaces import unwrap

if TYPE_CHECKING:
    from framework.runtime.engine_groups import EngineGroups
    from framework.runtime.group.group import ConsumerGroup
    from framework.runtime.life import Life
    from framework.runtime.membership import Membership


def why_not_ready(joined: Membership, life: Life, engines: EngineGroups) -> Iterator[str]:
    """Nothing where every group has joined and is balanced, with all its workers, and none waits for its `ready_when`;
    brokers take back what fails, no breaker is open, no group is orderly in part, no queue stalls and no loop stands
    back after an error.
    """
    if not life.goes_on:
        yield f"the application is {life.phase}"
    if not (joined.groups or joined.dormant.names or engines):
        yield "no group runs here"
    if not joined.accepted.is_set():
        because = joined.unheard_because()
        yield f"no broker has accepted this member's heartbeat yet{f': {because}' if because else ''}"
    for group in joined.groups:
        yield from (f"group {group.plan.own_name}: {reason}" for reason in _of_group(group))
        yield from joined.cluster.retry_rooms.complaints(group.plan.name)
    for name, held_ms in joined.joining.held.items():
        yield f"group {name} joins {held_ms / 1000:g} s after its start, since this member came and went too often"
    for check in joined.consistency_checks:
        if check.is_mixed_up:
            yield f"group {check.group}: some members lock its queues and some do not, so that nobody keeps the order"
    for plan in joined.dormant.gated:
        yield f"group {plan.own_name} waits for its ready_when"
    for name, failures in joined.failed_loops.items():
        if failures.standing_back:
            yield f"loop {name} failed and is tried again soon: {failures.reason}"
    yield from why_not_live(joined, engines)


def _of_group(group: ConsumerGroup) -> Iterator[str]:
    pool = group.kind.pool
    if (unsettled := group.rebalance.unsettled_because) is not None:
        yield unsettled
    flows = [pull.flow for pull in group.owned.values()]
    if flows and all(flow.state is QueueState.POSITIONING for flow in flows):
        why = next((f": {flow.failure}" for flow in flows if flow.failure), "")
        yield f"where its {len(flows)} queues begin is not known yet{why}"
    elif flows and all(flow.failure and flow.health.trouble == "broker away" for flow in flows):
        yield f"the brokers of all its {len(flows)} queues are away: {flows[0].failure}"
    for breaker in pool.trials.open:
        yield (
            f"the handler of {unwrap(group.plan.namespace, breaker.topic)} fails: {breaker.failures} messages since "
            f"the last success, mostly {breaker.cause}; one at a time is tried"
        )
    if pool.unsent:
        yield f"no broker keeps a copy of {pool.unsent} failed messages yet"
    if pool.hanging:
        yield f"{pool.hanging} workers are missing: handlers that were given up do not end"


def why_not_live(joined: Membership, engines: EngineGroups) -> Iterator[str]:
    """Nothing where a restart would mend nothing. Outages of brokers, failing handlers and lag are no reasons."""
    yield from engines.failed
    for queue in joined.standstill.named if joined.standstill is not None else ():
        yield f"queue {queue} has stalled: messages wait, and nothing moves for no known reason"


def blocked(blocked_ms: int, place: str) -> str:
    """The reason that only another thread can give."""
    return f"the event loop has not answered for {blocked_ms / 1000:.0f} s: blocked at {_inner(place)}"


def _inner(place: str) -> str:
    """Its innermost frames: which handler it is, and what it waits in, in a line."""
    return " < ".join(place.split(" < ")[:2])
