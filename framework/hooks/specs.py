"""Every hook, on one page.

There are two families: `register_*` hooks return things when the application is put together; the others are called as
things happen, and some may answer. Implementations are plain functions and quick. Each one is called on its own: if it
raises, that is logged and counted under its plugin's name, and the message goes on as if the plugin were not there. An
implementation may leave out arguments that it does not need.

Hooks for deliveries run where the handler is awaited: on the event loop for async handlers and for those that publish,
on a worker thread for others. Plugins lock what they share between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from framework.hooks.markers import hookspec
from framework.hooks.verdict import NothingFor, Skip
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
from framework.model.message import Message
from framework.model.outcome import Kind, Outcome, RetryLater
from framework.model.pulled import ChunkSummary
from framework.model.queue import MessageQueue

if TYPE_CHECKING:
    from framework import App, SendResult  # as plugins do: what they are made of stands above this room

Around: TypeAlias = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


class Hooks:
    """The hooks; a class only to hold them together."""

    @hookspec
    def register_settings(self) -> type[BaseModel]:  # type: ignore[empty-body]  # a specification
        """The model of `plugins.settings.<name>`; a static method, and the plugin is made with an instance of it."""

    @hookspec
    def register_allocation_strategies(self) -> Sequence[AllocationStrategy]:  # type: ignore[empty-body]  # a specification
        """Strategies that `consumers.<group>.allocation` may then name."""

    @hookspec
    def register_expiry_policies(self) -> Sequence[ExpiryPolicy]:  # type: ignore[empty-body]  # a specification
        """Policies that `consumers.<group>.expiry` may then name; where one fails, its message is sent back."""

    @hookspec
    def register_progress_stores(self) -> Sequence[ProgressStore]:  # type: ignore[empty-body]  # a specification
        """Stores that `consumers.<group>.progress` may then name."""

    @hookspec
    def register_dedup_stores(self) -> Sequence[DedupStore]:  # type: ignore[empty-body]  # a specification
        """Stores that `consumers.<group>.once_store` may then name; where one fails, its message is handled."""

    @hookspec
    def register_runners(self) -> Mapping[str, Runner]:  # type: ignore[empty-body]  # a specification
        """Engines for handlers of batches, by the name that `@consumer(engine=...)` then gives."""

    @hookspec
    def register_codecs(self) -> Mapping[str, Codec]:  # type: ignore[empty-body]  # a specification
        """Ways to read and write bodies, by the name that `@consumer(codec=...)` then gives."""

    @hookspec
    def register_commands(self) -> Mapping[str, Command]:  # type: ignore[empty-body]  # a specification
        """Commands of `framework-app`, by name; called when a user types a name that is not built in."""

    @hookspec
    def register_broker_handlers(self) -> Mapping[int, BoxHandler]:  # type: ignore[empty-body]  # a specification
        """What the built-in broker answers to requests of these codes; called before its own handlers."""

    @hookspec
    def app_started(self, app: App) -> None:
        """Called once, on the event loop, when a broker has taken our heartbeat and the groups begin."""

    @hookspec
    def app_stopping(self, app: App) -> None:
        """Called once, on the event loop, when stopping begins; running handlers return after it. Not where the stop
        came before `app_started`.
        """

    @hookspec
    def before_consume(self, delivery: Delivery) -> Skip | RetryLater | None:
        """Called before each call of a handler. The first answer decides, and the handler is then not called."""

    @hookspec
    def around_consume(self, delivery: Delivery) -> Around | NothingFor | None:
        """A context in which the handler runs, from before its body is decoded until its return value is published. The
        first plugin's is the outermost. Handlers that are awaited take async contexts, too.

        It is left with the handler's exception; with `NotDone(outcome)` if the handler answered RetryLater, DeadLetter,
        Suspend or Rollback; else with nothing. It cannot change an answer or an exception. By raising `TryAgain` it has
        the message delivered again: on entering, before the handler is called; on leaving, if the handler was done.

        Who wants few messages answers `NothingFor(count)` instead of None, and is not asked for so many of the pull.
        """

    @hookspec
    def after_consume(self, delivery: Delivery, outcome: Outcome, elapsed_ms: float, kind: Kind) -> None:
        """Called after each call of a handler, in the reverse order of `before_consume`.

        `kind` is `success`, `failed` (by its answer), `exception`, `nothing` (if `explicit_ack` asks for an answer), or
        `timed_out`.
        """

    @hookspec
    def before_send(self, message: Message) -> Mapping[str, str] | None:
        """Called on the event loop before a message of the application's is sent, once for all attempts. The answer has
        properties to add, such as a trace context. Nothing else about the message can be changed: a property that it
        has stays, and RocketMQ's own, tags, keys and delays are refused.
        """

    @hookspec
    def after_send(
        self, message: Message, result: SendResult | None, error: BaseException | None, elapsed_ms: float
    ) -> None:
        """Called on the event loop when a send has ended, in the reverse order of `before_send`. `message` has the
        properties that were added. Without an error it is stored; a one-way message is written, and has no result.

        A message that was not tried, since it cannot be sent or its call gave up before, has none.
        """

    @hookspec
    def after_chunk(self, summary: ChunkSummary) -> None:
        """Called on the event loop when a worker leaves a chunk, one pull result (in orderly groups: a message or a
        batch), with the counts since the last call. The cheapest hook for counting: it is not called per message.
        """

    @hookspec
    def delivery_stuck(self, delivery: Delivery, age_ms: int) -> None:
        """Called once per delivery whose handler exceeds its group's `timeout`, before the policy decides. In orderly
        groups: once per message that has blocked its queue or key for longer than `stuck_after`.
        """

    @hookspec
    def assignment_changed(self, group: str, gained: Sequence[MessageQueue], lost: Sequence[MessageQueue]) -> None:
        """Called when this member gets queues of a topic, or loses some, while its group runs. Handlers may still run
        on messages of the lost ones.
        """

    @hookspec
    def offsets_committed(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Called each second, and when a queue is released, with the offsets that were committed since."""

    @hookspec
    def queue_held(self, group: str, queue: MessageQueue, reason: str) -> None:
        """Called when a queue stops pulling: it is paused, holds as much as it may, or has a message that cannot be
        opened. Once, until it pulls again or the reason changes.
        """

    @hookspec
    def figures(self) -> Mapping[str, float]:  # type: ignore[empty-body]  # a specification
        """What the plugin counts, for metrics: name -> number. What only grows ends in `_total`; of what ends in `_max`
        the largest of all workers counts; all else is as it was last, and added up. Called on the event loop for each
        snapshot.
        """


NAMES = tuple(name for name in vars(Hooks) if not name.startswith("_"))
