"""Live objects to one frozen Snapshot, and to a list of every handler that runs: no value and no body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from framework.core.queue_flow import QueueState, lag_of
from framework.core.window import Window
from framework.model.allocation import Allocation
from framework.model.namespaces import unwrap
from framework.model.rate import Rate
from framework.model.snapshot import BreakerSnapshot, GroupSnapshot, PauseSnapshot, QueueSnapshot
from framework.model.subscription import Start
from framework.ports import Clock
from framework.runtime.group.group import ConsumerGroup
from framework.runtime.plans.connect import consume_from
from framework.runtime.report.stacks import frames_of
from framework.services.pool.run import MessageCounts
from framework.services.queue.pull import PullLoop
from framework.settings.consumers import ConsumerSettings


def total(each: Iterable[MessageCounts]) -> MessageCounts:
    """The sum of several groups' counts."""
    found = MessageCounts()
    for counts in each:
        for name, count in asdict(counts).items():
            setattr(found, name, getattr(found, name) + count)
    return found


def idle_ms(groups: Sequence[ConsumerGroup], engines: Iterable[int], clock: Clock) -> int:
    """For how long nothing was handled and nothing was left to handle; 0 while there is work."""
    if not all(_is_caught_up(group) for group in groups):
        return 0
    now = clock.monotonic()
    return min([*engines, *(int((now - each.last_activity) * 1000) for each in groups)], default=0)


def _is_caught_up(group: ConsumerGroup) -> bool:
    """Every owned queue has handled what its broker had, as of the last answers."""
    flows = [pull.flow for pull in group.owned.values()]
    is_handled = all(flow.caught_up and flow.window.is_empty for flow in flows)
    return bool(flows) and not group.kind.pool.pending and is_handled


def group_picture(
    group: ConsumerGroup,
    settings: ConsumerSettings,
    clock: Clock,
    figures: Mapping[str, float],
    pause: PauseSnapshot | None,
) -> GroupSnapshot:
    now_ms, plan, pool = clock.monotonic_ms(), group.plan, group.kind.pool
    queues = tuple(_queue(pull, group, clock) for _, pull in sorted(group.owned.items()))
    at_work = pool.at_work()
    lags = [queue.lag for queue in queues if queue.lag is not None]
    onces = [handling.once for handling in group.plan.handling.values() if handling.once is not None]
    return GroupSnapshot(
        group=group.plan.name,
        topics=tuple(subscription.topic for subscription in group.plan.subscriptions),
        queues=queues,
        **asdict(group.counts),
        is_balanced=group.rebalance.is_settled,
        subscriptions=tuple(group.subscriptions.values()),
        paces={topic: rates.pace(now_ms) for topic, rates in sorted(group.rates.items())},
        settings={**shown(settings), "max_retries": str(group.plan.max_retries)},
        consume_from=consume_from(group.plan),
        is_orderly=group.plan.orderly,
        cannot_send_back=group.kind.pool.unsent,
        is_broadcasting=group.plan.broadcasting is not None,
        awaited=group.progress.awaited,
        absent=group.rebalance.absent,
        present=group.rebalance.present,
        missing={unwrap(plan.namespace, topic): why for topic, why in group.rebalance.missing.said.items()},
        flaps=group.rebalance.flaps,
        repeats=sum(once.dropped for once in onces),
        once_failures=sum(once.failures for once in onces),
        skipped=group.skipping.total if group.skipping is not None else 0,
        figures=figures,
        own_name=plan.own_name,
        concurrency=plan.settings.concurrency,
        is_paused=plan.settings.paused,
        pause=pause,
        breakers=tuple(
            BreakerSnapshot(
                unwrap(plan.namespace, each.topic),
                each.failures,
                each.cause,
                None if each.trial is not None else max(each.due_ms - now_ms, 0),
            )
            for each in pool.trials.open
        ),
        running=len(at_work),
        oldest_ms=max([max(now_ms - int(each.started * 1000), 0) for each in at_work], default=None),
        hanging=pool.hanging,
        retries_waiting=pool.retrying,
        lag=sum(lags) if lags else None,
        is_lag_least=len(lags) < len(queues) or any(queue.is_lag_least for queue in queues),
        behind_ms=_furthest([queue.behind_ms for queue in queues]),
        rebalances=group.moves.rebalances,
        queues_gained=group.moves.gained,
        queues_lost=group.moves.lost,
        times={topic: rates.times.picture() for topic, rates in sorted(group.rates.items()) if rates.times is not None},
        pulls={topic: rates.pulls.picture() for topic, rates in sorted(group.rates.items()) if rates.pulls is not None},
    )


def _furthest(behind: Sequence[int | None]) -> int | None:
    """Of the queue furthest behind. Where one does not know, that the others have nothing to do is no answer."""
    known = max((each for each in behind if each is not None), default=0)
    return known if known or (behind and None not in behind) else None


def shown(settings: ConsumerSettings) -> dict[str, str]:
    """The settings that people may see. A kind of value that is not known to be harmless is left out, and so are the
    options of a strategy, which may be a plugin's and hold anything.
    """
    texts: dict[str, str] = {}
    for name, value in settings:
        match value:
            case bool():
                texts[name] = str(value).lower()
            case int() | float() | str():
                texts[name] = str(value)
            case Start(policy=policy, ms=ms):
                texts[name] = f"{policy} {ms} ms" if ms else policy
            case Rate():
                texts[name] = str(value)
            case Allocation(name=strategy):
                texts[name] = strategy
            case _:
                pass
    return texts


def _queue(pull: PullLoop, group: ConsumerGroup, clock: Clock) -> QueueSnapshot:
    flow, blocked, leases = pull.flow, group.blocked_because(pull), group.kind.pool.leases
    lease = None if leases is None else leases.of(pull.queue)
    window = flow.window
    held = [chunk.messages for chunk in window.chunks if chunk.count]
    began_ms, now_ms = clock.now_ms() - clock.monotonic() * 1000, clock.now_ms()
    lag = lag_of(flow)
    is_pulled = flow.state is QueueState.FLOWING and flow.failure is None and not pull.waits_for_rate
    is_least = lag is not None and not is_pulled
    return QueueSnapshot(
        queue=str(pull.queue),
        state="held" if flow.is_tripped and flow.state is QueueState.FLOWING else flow.state.value,
        reason=flow.failure or blocked or flow.held_because or ("rate" if pull.waits_for_rate else None),
        committable=window.committable,
        next_offset=flow.next_offset,
        max_offset=flow.max_offset,
        messages=window.unfinished if flow.is_popped else window.messages,
        bytes=window.bytes,
        running=pull.running,
        place=pull.queue,
        offset_min=held[0][0].queue_offset if held else -1,
        offset_max=held[-1][-1].queue_offset if held else -1,
        pulled_ms=int(began_ms + pull.pulled_at * 1000),
        handled_ms=int(began_ms + pull.left_at * 1000),
        is_retiring=flow.state is QueueState.RETIRING,
        is_locked=lease is not None and lease.holds(clock.monotonic_ms()),
        locked_ms=int(began_ms + lease.granted_ms) if lease is not None and lease.granted_ms else 0,
        lag=lag,
        is_lag_least=is_least,
        behind_ms=0 if lag == 0 and not is_least else _behind_ms(window, now_ms),
    )


def _behind_ms(window: Window, now_ms: int) -> int | None:
    """How long ago the lowest message that has not ended was stored; None where none is held."""
    for chunk in window.chunks:
        if chunk.low < chunk.count:
            return max(now_ms - chunk.messages[chunk.low].stored_ms, 0)
    return None


HANDLERS_MAX = 500
NOBODY: Mapping[object, int] = {}
MESSAGES_MAX = 5
"""Of a batch, that are named."""


def running_handlers(
    groups: Iterable[ConsumerGroup], clock: Clock, at_its_step: Mapping[object, int] = NOBODY
) -> list[dict[str, Any]]:
    """The oldest first, and so many at most. From the event loop's thread, or while that is blocked: then the task that
    blocks it is `at_its_step`, with the loop's thread, whose frames are its own.
    """
    now = clock.monotonic()
    at_work = [(group, each) for group in list(groups) for each in group.kind.pool.at_work()]
    at_work.sort(key=lambda pair: pair[1].started)
    return [
        {
            "group": group.plan.own_name,
            "topic": each.messages[0].topic,
            "broker": each.queue.broker,
            "queue": each.queue.number,
            "offset": each.messages[0].queue_offset,
            "message_id": each.messages[0].message_id,
            "keys": each.messages[0].keys,
            "attempt": each.messages[0].attempt,
            "messages": len(each.messages),
            "offsets": [message.queue_offset for message in each.messages[:MESSAGES_MAX]],
            "age_ms": max(round((now - each.started) * 1000), 0),
            "is_given_up": each.is_given_up,
            "in": "thread" if isinstance(each.worker, int) else "task",
            "stack": frames_of(at_its_step.get(each.worker, each.worker)),
        }
        for group, each in at_work[:HANDLERS_MAX]
    ]
