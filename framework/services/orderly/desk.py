"""Desk: one queue of an orderly group at work, with its lanes, its lease and its pull loop; and which key a message
has, where order is per key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.expiry import LineSlot
from framework.core.line import NO_KEY, Lanes, Line, Portion
from framework.core.order_lease import OrderLease
from framework.hooks.failures import plugin_failure
from framework.model.message import SHARDING_KEY, Message
from framework.model.outcome import Ack, Outcome
from framework.services.call.batch_calls import Batching
from framework.services.queue.pull import PullLoop


@dataclass(frozen=True, slots=True)
class InOrder:
    """How one topic is handled in order."""

    is_async: bool
    is_manual: bool = False
    """Offsets move when the handler answers `Commit`."""
    key_of: Callable[[Message], str] | None = None
    """Whose order is kept; that of the whole queue where nobody says. It does not raise."""
    batching: Batching | None = None
    """How the handler is given several messages at once; None where it takes one."""


@dataclass(eq=False, slots=True)
class Desk:
    """What is the queue's."""

    pull: PullLoop
    lease: OrderLease
    how: InOrder
    lanes: Lanes
    running: int = 0
    """Handlers that run now."""
    busy: int = 0
    """Lanes that run or stand in line for a worker."""
    is_left: bool = False
    """The queue was given back while a handler still ran: the desk stays until that has ended."""
    is_told: bool = False
    """It was said that nothing of the full window can be started."""


@dataclass(eq=False, slots=True)
class Lane:
    """What is one line's. Its line carries it as its `run`."""

    desk: Desk
    line: Line
    backoff: Backoff = field(default_factory=lambda: Backoff(limits.FAILURE_DELAY_MS, limits.SUSPEND_MAX_MS))
    """For what is tried again without being an attempt."""
    is_unsent: bool = False
    """No broker took its dead letter when that was last tried."""
    is_running: bool = False
    is_ready: bool = False
    wakes_ms: int = 0
    """When it stands in line again; 0 where it does not wait."""
    lingers_ms: int = 0
    """Until when its batch may fill; 0 where nobody waits for that."""
    at: Portion | None = None
    """What its worker goes along."""
    unsaid: int = 0
    """Messages of that portion that have ended since the pull loop was last told."""
    failed_leaving: int = 0
    """Tries that have failed since its queue is being given back."""
    slot: LineSlot | None = None
    """By which its deliveries learn the epoch; None before the first."""
    started: float = 0.0
    """When the running handler began, seconds on the monotonic clock."""
    outcome: Outcome = field(default_factory=Ack)
    """What the first message came to at its last try, and how long that took."""
    elapsed_ms: float = 0.0
    error: str = ""
    """The class of what was raised then."""
    trial: int = 0
    """Which trial of the group its last one was, while the breaker of its topic is open."""

    @property
    def is_held_back(self) -> bool:
        """The breaker of its topic is open, and another message is tried, or none. What is given up is sent even so."""
        pull = self.desk.pull
        return pull.flow.is_tripped and pull.breaker.trial is not self and not self.line.copies


log = structlog.get_logger()


def sharding_key(message: Message) -> str:
    """Messages without one are one line: producers that choose a queue by hand mean the queue's order."""
    return message.properties.get(SHARDING_KEY, NO_KEY)


def contained(function: Callable[[Message], object], group: str) -> Callable[[Message], str]:
    """A user's function: no key where it names none, and where it fails, which is said."""
    name = getattr(function, "__qualname__", repr(function))

    def key_of(message: Message) -> str:
        try:
            key = function(message)
            return NO_KEY if key is None else str(key)
        except BaseException as error:  # noqa: BLE001 - border: the user's function
            plugin_failure(error)
            log.warning(
                "key not found",
                group=group, function=name, queue=str(message.queue), offset=message.queue_offset,
                reason=f"{type(error).__name__}: {error}",
            )  # fmt: skip
            return NO_KEY

    return key_of
