"""What can be wrong with how the outbox is used; `framework-app explain ID` prints the page of an id."""

from __future__ import annotations

from framework.errors import ConfigurationError


class OutboxMisused(ConfigurationError):
    id = "FA-O001"
