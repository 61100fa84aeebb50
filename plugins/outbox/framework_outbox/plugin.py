"""The plugin: its settings, a relay for as long as the application runs, and the command."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from framework.hooks import hookimpl
from framework.model.delivery import Delivery
from framework_outbox.command import OutboxCommand
from framework_outbox.ids import running
from framework_outbox.settings import OutboxMisused, OutboxSettings

if TYPE_CHECKING:
    from framework import App
    from framework_outbox.relay import Relay
    from framework_outbox.table import Table

PRODUCER = "framework_outbox"
_MISSING = "the outbox has no database; write plugins: {settings: {outbox: {database: shop.db}}}"


class OutboxPlugin:
    """One an application; nothing is opened before that runs."""

    def __init__(self, settings: OutboxSettings) -> None:
        self.settings = settings
        self._relay: Relay | None = None
        self._app: App | None = None
        if not settings.database:
            # Not implemented then: a hook without an implementation costs nothing per message.
            self.around_consume = None  # type: ignore[method-assign, assignment]  # which is what takes it away
            self.figures = None  # type: ignore[method-assign, assignment]
        elif settings.is_postgresql:
            from framework_outbox.postgresql import driver

            driver()  # where it is missing, the start ends with that

    def table(self) -> Table:
        """The table by a connection of its own; ConfigurationError where the settings name none."""
        where = self.settings.database.reveal()
        if not where:
            raise OutboxMisused(_MISSING)
        if self.settings.is_postgresql:
            from framework_outbox.postgresql import PostgresqlTable

            return PostgresqlTable(where, self.settings.table)
        from framework_outbox.sqlite import SqliteTable

        return SqliteTable(where, self.settings.table)

    @staticmethod
    @hookimpl
    def register_settings() -> type[OutboxSettings]:
        return OutboxSettings

    @hookimpl
    def register_commands(self) -> Mapping[str, OutboxCommand]:
        return {"outbox": OutboxCommand(self.table)}

    @hookimpl
    def app_started(self, app: App) -> None:
        if not self.settings.database or not self.settings.relay:
            return
        from framework import Producer
        from framework_outbox.relay import Relay

        self._app = app
        timeout = self.settings.timeout / 1000
        # A key whose broker is away fails at once: its row waits in the table, and no sender waits with it.
        producer = Producer(cluster=app.cluster, group=PRODUCER, timeout=timeout, when_away="fail")
        self._relay = Relay(
            self.table(),
            self.settings,
            app.member,
            send=producer.send,
            in_thread=app.world.workers.run,
            monotonic=app.world.clock.monotonic,
        )
        app.accompany(self._relay.run(), name="outbox relay")

    @hookimpl
    def app_stopping(self) -> None:
        if self._relay is not None:
            self._relay.stop()

    @hookimpl
    def around_consume(self, delivery: Delivery) -> AbstractContextManager[None]:
        return running(delivery, self._wrote)

    @hookimpl
    def figures(self) -> Mapping[str, float]:
        relay = self._relay
        if relay is None:
            return {}
        return {
            "sent_total": relay.sent, "failed_total": relay.failed, "table_failures_total": relay.table_failures,
            "waiting_max": relay.backlog.waiting, "refused_max": relay.backlog.refused,
            "oldest_seconds_max": relay.backlog.oldest_ms / 1000,
        }  # fmt: skip

    def _wrote(self) -> None:
        """On whichever thread the handler ran."""
        if self._app is not None and self._relay is not None:
            self._app.world.workers.call_soon(self._relay.wake)
