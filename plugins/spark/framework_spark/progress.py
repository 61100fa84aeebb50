"""Spark's report of a query's newest batch, in our words: its offsets, its lag, a few figures. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.model.queue import MessageQueue
from framework_spark.offsets import flat


def progress_facts(progress: Mapping[str, Any]) -> dict[str, str]:
    """The newest batch of a query in a few figures; `lag` is what had not been read when it ended."""
    behind = progress_lag(progress)
    found = {
        "spark_batch": str(progress["batchId"]),
        "rows": str(progress["numInputRows"]),
        "batch_ms": str(progress["durationMs"].get("triggerExecution", 0)),
        "lag": str(sum(behind.values())),
    }
    most = max(behind, key=lambda queue: behind[queue], default=None)
    return {**found, "lag_most": f"{most} {behind[most]}"} if most is not None and behind[most] else found


def progress_lag(progress: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """Queue -> its messages that no batch had asked for when the newest one ended."""
    source = progress["sources"][0]
    latest, end = _offsets(source.get("latestOffset")), end_offsets(source)
    return {queue: max(offset - end.get(queue, 0), 0) for queue, offset in latest.items()}


def messages_in(progress: Mapping[str, Any], begins: Mapping[MessageQueue, int], *, is_filtered: bool) -> int:
    """The messages of a batch. Its `numInputRows` counts those twice that a handler's second job reads again.

    `begins` is where a query without a checkpoint began, which Spark does not say of its first batch. Of a filtered
    batch the offsets count what the broker left out, so the lower number stands.
    """
    source = progress["sources"][0]
    starts = {**begins, **_offsets(source.get("startOffset"))}
    offsets = sum(max(end - starts.get(queue, 0), 0) for queue, end in end_offsets(source).items())
    return min(offsets, int(progress["numInputRows"])) if is_filtered else offsets


def end_offsets(source: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """Up to where one source of the query was read; nothing where it is no source of ours."""
    return _offsets(source.get("endOffset"))


def _offsets(given: Any) -> dict[MessageQueue, int]:
    found = json.loads(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        return {}
    brokers = [queues for topic in found.values() if isinstance(topic, dict) for queues in topic.values()]
    is_ours = all(isinstance(topic, dict) for topic in found.values()) and all(
        isinstance(queues, dict) for queues in brokers
    )
    return flat(found) if is_ours else {}
