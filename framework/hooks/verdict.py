"""What `before_consume` may answer beside nothing and RetryLater."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not handle this message: it is settled as `Drop` under the plugin's name, counted and logged."""

    reason: str
