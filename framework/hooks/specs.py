"""Every hook, on one page.

Two families: `register_*` return things when the app is put together; the others are told, and some may answer.
Implementations are plain functions and quick. Each one is called on its own: what it raises is logged and counted under
its plugin's name, and the message goes on as if the plugin were not there. Arguments that an implementation does not
need may be left out of its signature.

Hooks for deliveries run where the handler is awaited: on the event loop for async handlers and for those that publish,
on a worker thread for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from framework.hooks.markers import hookspec
from framework.hooks.verdict import Skip
from framework.model.box import BoxHandler
from framework.model.contracts import (
    AllocationStrategy,
    Codec,
    Command,
    DedupStore,
    ExpiryPolicy,
    ProgressStore,
    Runner,
)
from framework.model.delivery import Delivery
from framework.model.happenings import ChunkSummary
from framework.model.outcome import Kind, Outcome, RetryLater
from framework.model.queue import MessageQueue

if TYPE_CHECKING:
    from framework import App  # as plugins do: what it is made of stands above this room

Around: TypeAlias = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


class Hooks:
    """The hooks; a class only to hold them together."""

    @hookspec
    def register_settings(self) -> type[BaseModel]:  # type: ignore[empty-body]  # a specification
        """The model of `plugins.settings.<name>`; a static method, and the plugin is made with an instance of it."""

    @hookspec
    def register_allocation_strategies(self) -> Sequence[AllocationStrategy]:  # type: ignore[empty-body]  # likewise
        """Strategies that `consumers.<group>.allocation` may then name."""

    @hookspec
    def register_expiry_policies(self) -> Sequence[ExpiryPolicy]:  # type: ignore[empty-body]  # likewise
        """Policies that `consumers.<group>.expiry` may then name; where one fails, its message is sent back."""

    @hookspec
    def register_progress_stores(self) -> Sequence[ProgressStore]:  # type: ignore[empty-body]  # likewise
        """Stores that `consumers.<group>.progress` may then name."""

    @hookspec
    def register_dedup_stores(self) -> Sequence[DedupStore]:  # type: ignore[empty-body]  # likewise
        """Stores that `consumers.<group>.once_store` may then name; where one fails, its message is handled."""

    @hookspec
    def register_runners(self) -> Mapping[str, Runner]:  # type: ignore[empty-body]  # likewise
        """Ways to run handlers of batches, by the name that `@consumer(engine=...)` then gives."""

    @hookspec
    def register_codecs(self) -> Mapping[str, Codec]:  # type: ignore[empty-body]  # likewise
        """Ways to read and write bodies, by the name that `@consumer(codec=...)` then gives."""

    @hookspec
    def register_commands(self) -> Mapping[str, Command]:  # type: ignore[empty-body]  # likewise
        """Commands of `framework-app`, by name; asked for where somebody types a name that is none of its own."""

    @hookspec
    def register_broker_handlers(self) -> Mapping[int, BoxHandler]:  # type: ignore[empty-body]  # likewise
        """What the broker in the box answers to requests of these codes; asked before its own handlers."""

    @hookspec
    def app_started(self, app: App) -> None:
        """Told once, on the event loop, when every group has joined."""

    @hookspec
    def app_stopping(self, app: App) -> None:
        """Told once, on the event loop, when stopping begins: deliveries that run end after it."""

    @hookspec
    def before_consume(self, delivery: Delivery) -> Skip | RetryLater | None:
        """Told before each start of a handler; the first that answers decides, and the handler is not called."""

    @hookspec
    def around_consume(self, delivery: Delivery) -> Around | None:
        """A context in which the handler runs, from before its body is decoded until what it returned is published; the
        first plugin's is the outermost. Handlers that are awaited take async contexts, too.

        It is left with what the handler raised, with `NotDone(outcome)` where it answered RetryLater, DeadLetter,
        Suspend or Rollback, else with nothing. Neither answer nor exception is changed by it, but by raising `TryAgain`
        it has the message delivered again: entering, before the handler is called; leaving, where the handler was done.
        """

    @hookspec
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
        """Told after each end of a handler, in the reverse order of `before_consume`.

        `kind` is how it ended: success, failed (by its answer), exception, nothing (where `explicit_ack` asks for an
        answer), or timed_out.
        """

    @hookspec
    def after_chunk(self, summary: ChunkSummary) -> None:
        """Told on the event loop each time a worker leaves a chunk (of an orderly group: a message, or a batch): what
        it counted since it was last told. For whoever only counts; it costs a chunk, and not a message.
        """

    @hookspec
    def delivery_stuck(self, delivery: Delivery, age_ms: int) -> None:
        """Told once of each delivery whose handler takes longer than its group's `timeout`, before the policy decides;
        of an orderly group, of each message that has blocked what follows it for longer than `stuck_after`.
        """

    @hookspec
    def assignment_changed(self, group: str, gained: Sequence[MessageQueue], lost: Sequence[MessageQueue]) -> None:
        """Told when this member is given queues of a topic, or loses some, while its group runs. Those that are lost
        may still be on their way out: what runs may end first.
        """

    @hookspec
    def offsets_committed(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Told each second, and when a queue is left, of the offsets that brokers have been told since."""

    @hookspec
    def queue_held(self, group: str, queue: MessageQueue, reason: str) -> None:
        """Told when a queue stops pulling: it is paused, holds as much as it may, or has a message that cannot be
        opened. Once, until it pulls again or the reason is another one.
        """


NAMES = tuple(name for name in vars(Hooks) if not name.startswith("_"))
