"""Handlers of a namespace: they see their own names, while all around them messages keep the cluster's. Wiring only.

What is sent back, sent again or dead-lettered must name the topic as the broker knows it: nothing is renamed in place.
"""

from __future__ import annotations

from dataclasses import replace

from framework.model.namespaces import unwrapping
from framework.runtime.group.plan import Handling


def without_namespace(handling: Handling, namespace: str) -> Handling:
    """The same handling, whose calls get messages without the namespace."""
    seen, call, key_of, batching = unwrapping(namespace), handling.call, handling.key_of, handling.batching
    if batching is not None:
        many = batching.call
        batching = replace(batching, call=lambda messages: many([seen(message) for message in messages]))
    return replace(
        handling,
        call=lambda message: call(seen(message)),
        key_of=None if key_of is None else lambda message: key_of(seen(message)),
        batching=batching,
    )
