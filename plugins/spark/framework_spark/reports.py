"""Spark's report of a query's newest batch, in our words: its offsets, its lag, a few figures. Pure.

The source reports more than offsets in `latestOffset`, which no checkpoint has: entries in brackets, which are no
topics, in the same shape of text -> text -> text -> number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.model.queue import MessageQueue
from framework_spark.offsets import Offsets, flat

BEHIND, AWAY = "(behind)", "(away)"


def said(behind: Mapping[MessageQueue, int], seconds: Mapping[MessageQueue, int], away: Mapping[str, int]) -> Offsets:
    """What a report has beside offsets: only what there is to say."""
    found: Offsets = {}
    if behind:
        found[BEHIND] = {"messages": {str(queue): count for queue, count in behind.items()}}
        if seconds:
            found[BEHIND]["seconds"] = {str(queue): count for queue, count in seconds.items()}
    if away:
        found[AWAY] = {"seconds": dict(away)}
    return found


def seconds_behind(source: Mapping[str, Any]) -> int | None:
    """How long the oldest message waits that no batch has asked for; None where that is not known."""
    behind = _dict(source.get("latestOffset")).get(BEHIND, {})
    return max(behind.get("seconds", {}).values(), default=None)


def read_until(source: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """Up to where each queue was read: a queue of which nothing was read yet is where its first message is."""
    ends, waiting = end_offsets(source), _dict(source.get("latestOffset")).get(BEHIND, {}).get("messages", {})
    latest = offsets_in(source.get("latestOffset"))
    return {queue: offset - waiting.get(str(queue), 0) for queue, offset in latest.items()} | ends if ends else ends


def brokers_away(source: Mapping[str, Any]) -> dict[str, int]:
    """Broker that did not answer -> for how many seconds."""
    return dict(_dict(source.get("latestOffset")).get(AWAY, {}).get("seconds", {}))


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
    if most is not None and behind[most]:
        found["lag_most"] = f"{most} {behind[most]}"
    seconds = seconds_behind(progress["sources"][0])
    return found if seconds is None else {**found, "lag_seconds": str(seconds)}


def progress_lag(progress: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """Queue -> its messages that no batch had asked for when the newest one ended."""
    source = progress["sources"][0]
    latest, end = offsets_in(source.get("latestOffset")), read_until(source)
    return {queue: max(offset - end.get(queue, 0), 0) for queue, offset in latest.items()}


def messages_in(progress: Mapping[str, Any], begins: Mapping[MessageQueue, int], *, is_filtered: bool) -> int:
    """The messages of a batch. Its `numInputRows` counts those twice that a handler's second job reads again.

    `begins` is where a query without a checkpoint began, which Spark does not say of its first batch. Of a filtered
    batch the offsets count what the broker left out, so the lower number stands.
    """
    source = progress["sources"][0]
    starts = {**begins, **offsets_in(source.get("startOffset"))}
    offsets = sum(max(end - starts.get(queue, 0), 0) for queue, end in end_offsets(source).items())
    return min(offsets, int(progress["numInputRows"])) if is_filtered else offsets


def end_offsets(source: Mapping[str, Any]) -> dict[MessageQueue, int]:
    """Up to where one source of the query was read; nothing where it is no source of ours."""
    return offsets_in(source.get("endOffset"))


def offsets_in(given: Any) -> dict[MessageQueue, int]:
    """Of one field of a source's report."""
    found = _dict(given)
    brokers = [queues for topic in found.values() if isinstance(topic, dict) for queues in topic.values()]
    is_ours = all(isinstance(topic, dict) for topic in found.values()) and all(
        isinstance(queues, dict) for queues in brokers
    )
    return flat(found) if is_ours else {}


def _dict(given: Any) -> dict[str, Any]:
    """A field as an object; empty for that of another source. Spark's None comes as a text, too."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
