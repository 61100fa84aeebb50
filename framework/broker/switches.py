"""What an administrator may change of a running broker. Every switch is acted on; there are none for show.

Changes outlive a restart. The names and their values are RocketMQ's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from framework.broker.store.tables import NamedValues
from framework.broker.store.topics import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from framework.errors import shorten


class _Switch(NamedTuple):
    """The attribute of `Switches` that it sets, what it may be, and what it is where nobody says."""

    attribute: str
    values: Mapping[str, int] | range
    usual: str


_FLAGS = {"true": True, "false": False}
# In milliseconds, and how often.
_SWITCHES = {
    "brokerPermission": _Switch("permission", {"2": PERM_WRITE, "4": PERM_READ, "6": PERM_READ_WRITE}, "6"),
    "autoCreateTopicEnable": _Switch("creates_topics", _FLAGS, "true"),
    "autoCreateSubscriptionGroup": _Switch("creates_groups", _FLAGS, "true"),
    "notifyConsumerIdsChangedEnable": _Switch("notifies_members", _FLAGS, "true"),
    "longPollingEnable": _Switch("holds_pulls", _FLAGS, "true"),
    "litePullMessageEnable": _Switch("pulls_lite", _FLAGS, "true"),
    "enablePropertyFilter": _Switch("filters_sql", _FLAGS, "true"),
    "recallMessageEnable": _Switch("recalls", _FLAGS, "true"),
    "rejectTransactionMessage": _Switch("rejects_transactions", _FLAGS, "false"),
    "transactionTimeOut": _Switch("transaction_timeout_ms", range(100, 86_400_001), "6000"),
    "transactionCheckInterval": _Switch("transaction_interval_ms", range(100, 86_400_001), "30000"),
    "transactionCheckMax": _Switch("transaction_checks_max", range(1, 10_001), "15"),
}
_DIGITS_MAX = 9
NAMES = tuple(_SWITCHES)


class Switches:
    """Those of one logical broker."""

    permission: int
    creates_topics: bool
    creates_groups: bool
    notifies_members: bool
    holds_pulls: bool
    pulls_lite: bool
    filters_sql: bool
    recalls: bool
    rejects_transactions: bool
    transaction_timeout_ms: int
    """How long a transaction may be open before its producers are asked."""
    transaction_interval_ms: int
    transaction_checks_max: int

    def __init__(self, values: NamedValues, broker: str) -> None:
        self._values = values
        self._scope = f"broker:{broker}"
        self._apply()

    def wrong(self, name: str, text: str) -> str | None:
        """Why one of them cannot be set so, or None."""
        values = _SWITCHES[name].values
        if isinstance(values, range):
            is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
            fits = is_number and int(text) in values
            return None if fits else f"{name}={shorten(text)}: use a whole number from {values[0]} to {values[-1]}"
        return None if text in values else f"{name}={text}: use {' or '.join(values)}"

    def put(self, name: str, text: str) -> None:
        """Set what `wrong` has nothing against."""
        self._values.put(self._scope, name, text)
        self._apply()

    def texts(self) -> dict[str, str]:
        """All of them as they stand."""
        saved = self._values.of_scope(self._scope)
        return {name: saved.get(name, switch.usual) for name, switch in _SWITCHES.items()}

    def _apply(self) -> None:
        for name, text in self.texts().items():
            attribute, values, _ = _SWITCHES[name]
            setattr(self, attribute, int(text) if isinstance(values, range) else values[text])
        self.is_readable = bool(self.permission & PERM_READ)
        self.is_writable = bool(self.permission & PERM_WRITE)
