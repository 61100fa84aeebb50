"""What options of Spark's Kafka source and sink are called here: people who come from there write them first."""

from __future__ import annotations

_INSTEAD = {
    "subscribe": "write topic",
    "subscribePattern": "write topicPattern",
    "groupIdPrefix": "write group",
    "includeHeaders": "leave it out: the column properties has what headers are there",
    "kafkaConsumer.pollTimeoutMs": "write requestTimeout, for one request, and brokerWait, for all of them",
    "fetchOffset.numRetries": "write fetchRetries, and brokerWait for how long a broker may be away",
    "fetchOffset.retryIntervalMs": "write brokerWait",
    "kafka.bootstrap.servers": "write nameServers, with the addresses of RocketMQ's name servers",
    "kafka.group.id": "write group",
}
_BY_LOWER = {name.lower(): (name, instead) for name, instead in _INSTEAD.items()}
_PREFIXES = (
    ("kafka.sasl.", "write credentials"),
    ("kafka.ssl.", "write tls, tlsCaFile, tlsCertFile, tlsKeyFile"),
    ("kafka.security.", "write tls"),
    ("kafka.", "leave it out: there is no client of Kafka's that it could be for"),
)


def instead_of(name: str) -> tuple[str, str] | None:
    """Kafka's name as it is documented, and what to do here; None for what is not Kafka's."""
    lower = name.lower()
    if lower in _BY_LOWER:
        return _BY_LOWER[lower]
    return next(((name, instead) for prefix, instead in _PREFIXES if lower.startswith(prefix)), None)
