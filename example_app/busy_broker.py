"""Busy broker: a plugin of the built-in broker that refuses every third send, as a broker under load does.

It shows what a producer, or a handler with `@publishes`, does about that:

    framework-app dev example_app --box-plugin example_app.busy_broker
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.hooks import BoxAnswer, BoxRequest, hookimpl

SENDS = (10, 310, 320)  # SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE
SYSTEM_BUSY = 2
EACH = 3


class BusyBroker:
    """None is an answer, too: the built-in broker takes the message itself."""

    def __init__(self) -> None:
        self._seen = 0

    @hookimpl
    def register_broker_handlers(self) -> Mapping[int, Callable[[BoxRequest], BoxAnswer | None]]:
        return dict.fromkeys(SENDS, self._send)

    def _send(self, request: BoxRequest) -> BoxAnswer | None:
        self._seen += 1
        if self._seen % EACH:
            return None
        return BoxAnswer(SYSTEM_BUSY, remark="[TIMEOUT_CLEAN_QUEUE]broker busy, for the sake of the example")
