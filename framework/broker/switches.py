"""What an administrator may change of a running broker. Every switch is acted on; there are none for show.

Changes outlive a restart. The names and their values are RocketMQ's.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.broker.store.tables import NamedValues
from framework.broker.store.topics import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from framework.errors import shorten

PERMISSION = "brokerPermission"
CREATES_TOPICS = "autoCreateTopicEnable"
CREATES_GROUPS = "autoCreateSubscriptionGroup"
NOTIFIES = "notifyConsumerIdsChangedEnable"
HOLDS = "longPollingEnable"
LITE = "litePullMessageEnable"
SQL = "enablePropertyFilter"
RECALLS = "recallMessageEnable"
REJECTS_TRANSACTIONS = "rejectTransactionMessage"
TRANSACTION_TIMEOUT = "transactionTimeOut"
TRANSACTION_INTERVAL = "transactionCheckInterval"
TRANSACTION_CHECKS = "transactionCheckMax"

_FLAGS = {"true": True, "false": False}
_PERMISSIONS = {"2": PERM_WRITE, "4": PERM_READ, "6": PERM_READ_WRITE}
_VALUES: dict[str, Mapping[str, int]] = {
    PERMISSION: _PERMISSIONS,
    CREATES_TOPICS: _FLAGS,
    CREATES_GROUPS: _FLAGS,
    NOTIFIES: _FLAGS,
    HOLDS: _FLAGS,
    LITE: _FLAGS,
    SQL: _FLAGS,
    RECALLS: _FLAGS,
    REJECTS_TRANSACTIONS: _FLAGS,
}
# In milliseconds, and how often; the least and the most that each may be, and what it is where nobody says.
_NUMBERS: dict[str, tuple[int, int, int]] = {
    TRANSACTION_TIMEOUT: (100, 86_400_000, 6_000),
    TRANSACTION_INTERVAL: (100, 86_400_000, 30_000),
    TRANSACTION_CHECKS: (1, 10_000, 15),
}
_DIGITS_MAX = 9
NAMES = (*_VALUES, *_NUMBERS)
_USUAL = {
    **dict.fromkeys(_VALUES, "true"),
    PERMISSION: "6",
    REJECTS_TRANSACTIONS: "false",
    **{name: str(usual) for name, (_, _, usual) in _NUMBERS.items()},
}


class Switches:
    """Those of one logical broker."""

    __slots__ = (
        "_scope", "_values", "creates_groups", "creates_topics", "filters_sql", "holds_pulls", "is_readable",
        "is_writable", "notifies_members", "permission", "pulls_lite", "recalls", "takes_transactions",
        "transaction_checks_max", "transaction_interval_ms", "transaction_timeout_ms",
    )  # fmt: skip

    def __init__(self, values: NamedValues, broker: str) -> None:
        self._values = values
        self._scope = f"broker:{broker}"
        self._apply()

    def wrong(self, name: str, text: str) -> str | None:
        """Why one of them cannot be set so, or None."""
        if name in _NUMBERS:
            least, most, _ = _NUMBERS[name]
            is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
            fits = is_number and least <= int(text) <= most
            return None if fits else f"{name}={shorten(text)}: use a whole number from {least} to {most}"
        allowed = _VALUES[name]
        return None if text in allowed else f"{name}={text}: use {' or '.join(allowed)}"

    def put(self, name: str, text: str) -> None:
        """Set what `wrong` has nothing against."""
        self._values.put(self._scope, name, text)
        self._apply()

    def texts(self) -> dict[str, str]:
        """All of them as they stand."""
        saved = self._values.of_scope(self._scope)
        return {name: saved.get(name, usual) for name, usual in _USUAL.items()}

    def _apply(self) -> None:
        texts = self.texts()
        self.permission = _PERMISSIONS[texts[PERMISSION]]
        self.is_readable = bool(self.permission & PERM_READ)
        self.is_writable = bool(self.permission & PERM_WRITE)
        self.creates_topics = _FLAGS[texts[CREATES_TOPICS]]
        self.creates_groups = _FLAGS[texts[CREATES_GROUPS]]
        self.notifies_members = _FLAGS[texts[NOTIFIES]]
        self.holds_pulls = _FLAGS[texts[HOLDS]]
        self.filters_sql = _FLAGS[texts[SQL]]
        self.pulls_lite = _FLAGS[texts[LITE]]
        self.recalls = _FLAGS[texts[RECALLS]]
        self.takes_transactions = not _FLAGS[texts[REJECTS_TRANSACTIONS]]
        self.transaction_timeout_ms = int(texts[TRANSACTION_TIMEOUT])
        """How long a transaction may be open before its producers are asked."""
        self.transaction_interval_ms = int(texts[TRANSACTION_INTERVAL])
        self.transaction_checks_max = int(texts[TRANSACTION_CHECKS])
