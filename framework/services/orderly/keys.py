"""Which key a message has, where order is per key. Nothing here raises.

Messages without a key are one line, for producers that choose a queue by hand name no key and mean the queue's order.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from framework.core.lanes import NO_KEY
from framework.hooks.failures import plugin_failure
from framework.model.message import SHARDING_KEY, Message

log = structlog.get_logger()


def sharding_key(message: Message) -> str:
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
