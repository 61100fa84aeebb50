"""The plugin: hooks in, spans out. It sets up no SDK: where the process has none, contexts are passed on and no span is
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from framework import Delivery, Message, SendResult
from framework.hooks import NothingFor, hookimpl
from framework_otel.settings import OtelSettings

if TYPE_CHECKING:
    from framework import App
    from framework_otel.attempts import Attempt, BatchPart

VERSION = "0.1.0"


class Otel:
    """One an application."""

    def __init__(self, settings: OtelSettings) -> None:
        if not settings.enabled:
            # Not implemented then: a hook without an implementation costs nothing per message.
            for hook in ("app_started", "around_consume", "before_send", "after_send"):
                setattr(self, hook, None)
            return
        from opentelemetry import trace

        from framework_otel.attempts import Attempts
        from framework_otel.sends import Sends

        tracer = trace.get_tracer("framework_otel", VERSION)
        self._attempts, self._sends = Attempts(settings, tracer), Sends(settings, tracer)

    @staticmethod
    @hookimpl
    def register_settings() -> type[OtelSettings]:
        return OtelSettings

    @hookimpl
    def app_started(self, app: App) -> None:
        from framework_otel import names

        fixed = {names.NAMESPACE: app.settings.cluster.namespace, names.CLIENT: names.fit(app.member)}
        self._attempts.fixed = self._sends.fixed = fixed
        self._attempts.broadcasting = frozenset(each.group for each in app.snapshot().groups if each.is_broadcasting)

    # The outermost of all plugins' contexts, so that what they do is within the span.
    @hookimpl(tryfirst=True)
    def around_consume(self, delivery: Delivery) -> Attempt | BatchPart | NothingFor | None:
        return self._attempts.around(delivery)

    @hookimpl
    def before_send(self, message: Message) -> Mapping[str, str] | None:
        return self._sends.begun(message)

    @hookimpl
    def after_send(self, message: Message, result: SendResult | None, error: BaseException | None) -> None:
        self._sends.ended(message, result, error)
