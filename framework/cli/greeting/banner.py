"""What an application consumes, in a few lines: where its cluster is, the command that sends, a line per consumer.

A child says the facts as an event (`configured`, `ready`); its parent, or the command itself, shows them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framework.cli import table
from framework.cli.output import Event
from framework.cli.table import Column

if TYPE_CHECKING:
    from framework.declare.decorator import ConsumerSpec
    from framework.runtime.app import App

LINES_MAX = 10
_AROUND = 4
"""Where it connects, how to send, the table's title, and `ready`."""
_COLUMNS = (
    Column("topic", "topic"),
    Column("filter", "filter"),
    Column("group", "group"),
    Column("mode", "mode"),
    Column("concurrency", "concurrency", is_number=True),
    Column("retries", "max_retries", is_number=True),
    Column("handler", "handler"),
)
FOREVER = "unlimited"
BODY = "BODY"


def facts(app: App, event: str, *, first_message: bool = False) -> Event:
    """Everything that the banner shows, and `ready` of `--json`; with `first_message` also what could be sent."""
    found = {
        "event": event,
        "app": app.settings.app.name,
        "name_servers": list(app.settings.cluster.name_servers),
        "consumers": [_consumer(consumer.spec, app) for consumer in app.consumers],
    }
    return {**found, "send": _first_message(app.consumers[0].spec)} if first_message else found


def _first_message(spec: ConsumerSpec) -> dict[str, Any]:
    from framework.cli.greeting.sample import sample

    return {"topic": spec.topic, "body": sample(spec), "tag": spec.tags.partition("||")[0].strip()}


def _consumer(spec: ConsumerSpec, app: App) -> dict[str, Any]:
    from framework.core.limits import MAX_RETRIES_IN_ORDER
    from framework.runtime.plans.collect import max_retries_of

    settings = app.settings.consumer(spec.group)
    most = max_retries_of(settings, spec)
    if spec.retry is not None and spec.retry.max is not None:
        most = spec.retry.max
    return {
        "topic": spec.topic,
        "filter": spec.tags if spec.sql is None else spec.sql,
        "group": spec.group,
        "mode": _mode(spec),
        "concurrency": None if spec.engine else settings.concurrency,
        "max_retries": None if most == MAX_RETRIES_IN_ORDER else most,
        "handler": spec.name,
    }


def _mode(spec: ConsumerSpec) -> str:
    if spec.orderly:
        mode = "orderly by key" if spec.by_key else "orderly"
    else:
        mode = "broadcasting" if spec.broadcasting else "concurrent"
    if spec.engine:
        mode = f"engine {spec.engine}"
    return f"{mode}, batches of {spec.batch}" if spec.batch else mode


def ready_line(of: Event) -> str:
    """For people; once."""
    return f"ready: namesrv={','.join(of['name_servers'])}"


def lines(of: Event, cluster: str, workers: int, send_options: Sequence[str]) -> list[str]:
    """At most nine: `ready` is the tenth."""
    processes = f"; {workers} processes" if workers > 1 else ""
    return [f"cluster: {cluster}{processes}", _send(of, send_options), *consumer_lines(of)]


def consumer_lines(of: Event) -> list[str]:
    """The table; the last consumers are only counted where they are too many."""
    rows = of["consumers"]
    room = LINES_MAX - _AROUND
    shown = rows if len(rows) <= room else rows[: room - 1]
    cells = [{**row, "max_retries": FOREVER if row["max_retries"] is None else row["max_retries"]} for row in shown]
    found = table.lines_of(_COLUMNS, cells)
    return found if shown is rows else [*found, f"and {len(rows) - len(shown)} more consumers"]


def _send(of: Event, options: Sequence[str]) -> str:
    first = of["send"]
    words = ["framework-app", "send", first["topic"], first["body"] or BODY]
    if first["tag"] not in {"", "*"}:
        words += ["--tag", first["tag"]]
    return f"send: {shlex.join([*words, *options])}"
