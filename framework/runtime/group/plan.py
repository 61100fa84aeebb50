"""What one group is to do, as settings, handlers and plugins describe it. Frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framework.core import limits
from framework.core.results import Result
from framework.core.skipping import SkipRules
from framework.core.window import FlowLimits
from framework.hooks.listeners import Listeners
from framework.model.contracts import AllocationStrategy, ExpiryPolicy, ProgressStore
from framework.model.message import Message
from framework.model.namespaces import unwrap
from framework.model.reserved import retry_topic
from framework.model.subscription import Subscription
from framework.ports import Workers
from framework.services.call.batch_calls import Batching
from framework.services.call.once import Once
from framework.services.call.resources import AnyResource
from framework.services.call.run_once import run_once
from framework.services.call.trace import ConsumeTrace
from framework.services.call.undecodable import Undecodable
from framework.services.offsets.local_offsets import OffsetFiles
from framework.services.orderly.desk import InOrder
from framework.services.outcome.trials import Trials
from framework.services.pool.run import is_given_up
from framework.settings.consumers import ConsumerSettings


@dataclass(frozen=True, slots=True)
class Handling:
    """How the messages of one topic are run: the call with its hooks, and whether it is awaited or takes a thread."""

    call: Callable[[Message], Any]
    is_async: bool
    judged: Callable[[Message, object], object]
    """What a result that is not plain success means, as far as the call has not judged it itself."""
    undecodable: Undecodable
    commits_by_hand: bool = False
    """In order: offsets move when the handler answers `Commit`."""
    key_of: Callable[[Message], str] | None = None
    """In order: whose order is kept; the queue's where nobody says."""
    batching: Batching | None = None
    """How it is given several messages at once; `call` is then for one that comes alone."""
    once: Once | None = None
    """What drops its repeats."""

    @property
    def in_order(self) -> InOrder:
        return InOrder(self.is_async, self.commits_by_hand, self.key_of, self.batching)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Which store a group keeps its progress in."""

    store: ProgressStore
    instead: ProgressStore | None
    """Where that one may not be made at the brokers."""
    folder: str
    is_auto: bool = False
    """From the first gap that lasts, or where records are there already; else nothing is asked or written."""
    has_ranges: bool = True
    """What has ended above a gap is kept; else the epoch of each acquisition alone: a queue in order has no gaps."""
    key: bytes = field(default=b"", repr=False)
    """For proofs of what members write where others may, too; empty without credentials."""


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group as settings, handlers and plugins describe it. What may change while it runs comes as another plan."""

    name: str
    subscriptions: tuple[Subscription, ...]
    """One a topic; the retry topic's is added by the group."""
    handling: dict[str, Handling]
    settings: ConsumerSettings
    """The group's settings; below stand those that need a plugin, or mean different things for different groups."""
    max_retries: int
    strategy: AllocationStrategy
    expiry: ExpiryPolicy
    """Decides about messages whose handlers take longer than `settings.timeout`."""
    orderly: bool
    gates: tuple[AnyResource, ...]
    """The group joins when each of these answers True."""
    skip: SkipRules | None
    broadcasting: OffsetFiles | None
    """Where a broadcasting group keeps its offsets; None for other groups."""
    progress: Keeping | None
    """Where messages that are done above a gap are kept; None where they are not."""
    trace: ConsumeTrace | None
    """Records each delivery for the trace topic."""
    listeners: Listeners
    """Which plugins are told what happens beside deliveries."""
    namespace: str
    """What the names in here begin with, which settings and handlers leave out."""
    keeps_times: bool = False
    """How long handlers take is counted: somebody may read it at `observe.listen`."""

    @property
    def wanted(self) -> dict[str, Subscription]:
        """Topic -> what is wanted of it, the retry topic among them where there is one."""
        retried = () if self.broadcasting else (Subscription(retry_topic(self.name), version=self.version),)
        return {each.topic: each for each in (*self.subscriptions, *retried)}

    def counts_for(self, topic: str) -> str:
        """The topic whose breaker a queue has: the retry topic of a group with one topic has that one's."""
        if topic == retry_topic(self.name) and len(self.handling) == 1:
            (topic,) = self.handling
        return topic

    @property
    def needs_locks(self) -> bool:
        """Whether each of its queues is consumed under a broker's lock."""
        return self.orderly and self.broadcasting is None

    @property
    def version(self) -> int:
        """Rises with each change of the subscriptions."""
        return max(each.version for each in self.subscriptions)

    @property
    def flow_limits(self) -> FlowLimits:
        """The span bounds the duplicates that one stuck message costs; in a queue's order nothing runs ahead of it."""
        in_queue_order = self.orderly and all(each.key_of is None for each in self.handling.values())
        return FlowLimits(
            messages_max=self._messages_max,
            bytes_max=self.settings.cache_bytes,
            span_max=limits.NO_SPAN if in_queue_order else limits.SPAN_MAX,
            topic_messages_max=self.settings.topic_count,
            topic_bytes_max=self.settings.topic_bytes,
        )

    @property
    def _messages_max(self) -> int:
        """Of popped messages few: what one member holds, no other can handle."""
        chosen = self.settings
        if chosen.delivery == "pull":
            return chosen.cache_count
        return min(chosen.cache_count, max(limits.POP_HELD_MAX, 2 * chosen.concurrency))

    def with_settings(self, changed: Mapping[str, Any], expiry: ExpiryPolicy) -> GroupPlan:
        """The plan with other values of live settings; `expiry` is the policy that they name."""
        return replace(self, settings=self.settings.model_copy(update=changed), expiry=expiry)

    @property
    def own_name(self) -> str:
        """The group as settings and handlers call it."""
        return unwrap(self.namespace, self.name)

    def judged(self, message: Message, result: object) -> object:
        """What a result means, by what was declared about its topic's handler."""
        handling = self.handling.get(message.topic)
        return result if handling is None or isinstance(result, Result) else handling.judged(message, result)


def retry_handling(plan: GroupPlan, workers: Workers, trials: Callable[[], Trials]) -> Handling:
    """The retry topic holds messages of every topic of the group; with one topic its handler does. Where there are
    several, `trials` hear of which one that was that went well.
    """
    handling = plan.handling
    if len(handling) == 1:
        (only,) = handling.values()
        return Handling(only.call, only.is_async, only.judged, only.undecodable, batching=only.batching)

    async def dispatch(message: Message) -> object:
        chosen = handling.get(message.topic)
        if chosen is None:
            raise LookupError(f"group {plan.name!r} has no handler for topic {message.topic!r}")
        result = await run_once(chosen.call, message, is_async=chosen.is_async, workers=workers)
        if result is None and not is_given_up():
            trials().retried_well(message.topic)
        return result

    first = next(iter(handling.values()))
    return Handling(dispatch, is_async=True, judged=first.judged, undecodable=first.undecodable)
