"""Each figure says what happened: of sends, of groups of engines, of plugins, and by the names that users know."""

from __future__ import annotations

import asyncio
import math
from dataclasses import asdict
from typing import Any

import pytest

from framework import App, Delivery, Message, RetryLater, consumer
from framework.core.statistics import Sends
from framework.errors import RequestTimedOut
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.model.queue import MessageQueue
from framework.model.snapshot import (
    ClockSnapshot,
    GroupSnapshot,
    LoopSnapshot,
    QueueSnapshot,
    Snapshot,
    StallSnapshot,
)
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import text_of
from framework.testing import Harness
from tests.runtime.observe.asking import series
from tests.runtime.test_engine_groups import Engine, host, revenue

OBSERVED = {"observe": {"listen": "127.0.0.1:9464"}}
NAMESPACE = {"cluster": {"namespace": "tenant"}}


def shown(picture: Snapshot) -> dict[str, float]:
    return series(text_of(families([{"worker": 0, "snapshot": asdict(picture)}], "1")))


def test_messages_that_were_sent_are_counted_one_by_one_and_those_that_were_not_by_their_error() -> None:
    sends = Sends()
    sends.ended(100, 0.02, None)
    sends.ended(3, 5.0, RequestTimedOut("no answer"))
    sends.ended(1, 0.02, None)
    picture = Snapshot(
        "shop", "m", is_ready=True, groups=(), budget_used=0, budget_limit=0, sends=sends.times.picture(),
        sent=sends.messages,
    )  # fmt: skip

    found = shown(picture)
    assert 101 == found["messaging_client_sent_messages_total"]
    assert 3 == found['messaging_client_sent_messages_total{error_type="RequestTimedOut"}']
    assert 3 == found['messaging_client_operation_duration_seconds_count{operation="send"}']


@consumer("orders", "billing")
async def bill(message: Message) -> None:
    await asyncio.sleep(0.01)


def test_a_namespace_is_in_no_label() -> None:
    """Groups and topics are named as settings and handlers name them."""
    with Harness(bill, settings={**NAMESPACE, **OBSERVED}) as desk:
        desk.send("orders", "tea")
        desk.settle()
        found = shown(desk.snapshot())

    assert 1 == found['messaging_process_duration_seconds_count{consumer_group="billing",topic="orders"}']
    assert 0 == found['framework_app_lag_messages{consumer_group="billing",topic="%RETRY%billing"}']
    assert not [name for name in found if "tenant" in name]


@pytest.mark.parametrize("settings", [{}, NAMESPACE])
def test_a_group_that_an_engine_consumes_has_its_messages_and_its_lag(settings: dict[str, Any]) -> None:
    """Else no alert for dead letters fires for it."""
    with Harness(revenue, settings=settings, plugins=host(Engine())) as desk:
        found = shown(desk.snapshot())

    group = 'consumer_group="revenue"'
    assert [200, 3, 1] == [
        found[f'framework_app_messages_total{{{group},outcome="{outcome}"}}']
        for outcome in ("handled", "retried", "dead_lettered")
    ]
    assert 7 == found[f'framework_app_lag_messages{{{group},topic="clicks"}}']
    assert 12.5 == found[f'framework_app_engine_figure{{{group},figure="batch_ms"}}']


def test_a_plugin_that_has_not_failed_has_a_count_of_failures() -> None:
    """A counter that begins with 1 hides its first failure from every rate."""

    class Quiet:
        @hookimpl
        def app_started(self, app: App) -> None: ...

    with Harness(bill, plugins=PluginHost(objects={"quiet": Quiet()}, discover=tuple)) as desk:
        found = shown(desk.snapshot())

    assert 0 == found['framework_app_plugin_failures_total{plugin="quiet"}']
    assert 0 == found['framework_app_plugin_slow_calls_total{plugin="quiet"}']
    assert not [name for name in found if "once_memory" in name], "what is built in is no plugin of anybody's"


def test_how_far_a_group_is_behind_is_not_0_where_what_waits_is_still_at_the_broker() -> None:
    """A queue with nothing to do, such as the one for retries, does not speak for the others."""
    with Harness(bill, settings={"consumers": {"billing": {"rate": "1/m"}}}) as desk:
        calm = shown(desk.snapshot())
        for number in range(20):
            desk.send("orders", str(number))
        desk.sleep("90s")
        found = shown(desk.snapshot())

    behind = 'framework_app_oldest_unhandled_timestamp_seconds{consumer_group="billing"}'
    lag = 'framework_app_lag_messages{consumer_group="billing",topic="orders"}'
    unknown = 'framework_app_lag_unknown_queues{consumer_group="billing",topic="orders"}'
    assert behind in calm
    assert behind not in found
    assert 0 < found.get(lag, 0) + found[unknown], "0 messages, and of all queues it is known"


def test_each_attempt_at_a_message_that_blocks_its_queue_is_timed() -> None:
    attempts: list[int] = []

    @consumer("orders", "billing", orderly=True)
    async def stubborn(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        await asyncio.sleep(0.2)
        if len(attempts) < 5:
            raise KeyError("card")

    with Harness(stubborn, settings=OBSERVED) as desk:
        desk.send("orders", "tea")
        while len(attempts) < 4:
            desk.sleep("100ms")
        desk.sleep("300ms")
        found = shown(desk.snapshot())
        desk.settle()

    labels = '{consumer_group="billing",topic="orders"}'
    assert 4 == found[f"messaging_client_consumed_messages_total{labels}"]
    assert 0.8 == round(found[f"messaging_process_duration_seconds_sum{labels}"], 3)
    assert 4 == found['framework_app_failures_total{consumer_group="billing",reason="exception"}']


def test_an_example_is_of_the_class_that_shows_it() -> None:
    """Messages of a batch share its time, whether they fail or not."""

    @consumer("orders", "billing", batch=4, linger="1s")
    async def slow(batch: list[Message]) -> RetryLater:
        await asyncio.sleep(3)
        return RetryLater("1h")

    with Harness(slow, settings=OBSERVED) as desk:
        for number in range(8):
            desk.send("orders", str(number))
        desk.sleep("20s")
        times = desk.snapshot().groups[0].times

    examples = [
        (low, example.seconds, high)
        for each in times.values()
        for low, high, example in zip((0, *each.bounds), (*each.bounds, math.inf), each.examples, strict=True)
        if example is not None
    ]
    assert examples
    assert all(low < seconds <= high for low, seconds, high in examples), examples


WHOLE = Snapshot(
    "shop", "m", is_ready=False, budget_used=1, budget_limit=2, started_ms=3_000, taken_ms=100_000,
    not_ready=("a", "b"), not_live=("a",), hook_failures={"audit": 4}, slow_hooks={"audit": 5},
    plugin_figures={"outbox": {"sent_total": 6, "open": 7, "waiting_max": 8}}, lost_lines=8,
    replies={"sent": 43, "dropped": 44, "late": 45},
    failed_loops=(LoopSnapshot("x", 9, "?", stands_back=False), LoopSnapshot("y", 1, "?", stands_back=False)),
    clock=ClockSnapshot(-3_000, -2_000, ("broker-a",)), stalls=StallSnapshot(11, 12_000, 0, 13_000),
    groups=(
        GroupSnapshot(
            "billing", ("orders",), own_name="billing", is_balanced=True, handled=14, retried=15, dead_lettered=16,
            dropped=17, late=18, skipped=19, damaged=20, abandoned=21, raised=22, failed=23, nothing=24, timed_out=25,
            repeats=26, once_failures=27, concurrency=28, running=29, hanging=30, retries_waiting=31,
            cannot_send_back=32, is_paused=True, rebalances=33, queues_gained=34, queues_lost=35, absent={"m2": 1},
            behind_ms=36_000, oldest_ms=37_000, figures={"rows_total": 38, "rows": 39},
            queues=(
                QueueSnapshot(
                    "q", "held", "span", 0, 0, 0, messages=40, bytes=41, running=0,
                    place=MessageQueue("orders", "broker-a", 0), lag=42,
                ),
            ),
        ),
    ),
)  # fmt: skip
GROUP_AND_TOPIC = 'consumer_group="billing",topic="orders"'
EXPECTED = """
ready 0|live 0|not_ready_reasons 2|stalled_queues 1|start_timestamp_seconds 3|budget_bytes 2|lost_lines_total 8
failed_loops_total 10|clock_off_seconds 2|loop_stalls_total 11|loop_blocked_max_seconds 12|loop_lag_seconds 13
replies_total{outcome="sent"} 43|replies_total{outcome="dropped"} 44|replies_total{outcome="late"} 45
plugin_failures_total{plugin="audit"} 4|plugin_slow_calls_total{plugin="audit"} 5
plugin_count_total{figure="sent",plugin="outbox"} 6|plugin_figure{figure="open",plugin="outbox"} 7
plugin_figure_max{figure="waiting",plugin="outbox"} 8
messages_total{G,outcome="handled"} 14|messages_total{G,outcome="retried"} 15
messages_total{G,outcome="dead_lettered"} 16|messages_total{G,outcome="dropped"} 17|messages_total{G,outcome="late"} 18
messages_total{G,outcome="skipped"} 19|messages_total{G,outcome="damaged"} 20|messages_total{G,outcome="abandoned"} 21
failures_total{G,reason="exception"} 22|failures_total{G,reason="answer"} 23|failures_total{G,reason="no_answer"} 24
failures_total{G,reason="timed_out"} 25|repeats_avoided_total{G} 26|once_failures_total{G} 27|workers{G} 28
workers_busy{G} 29|workers_hanging{G} 30|retries_waiting_messages{G} 31|cannot_send_back_messages{G} 32|paused{G} 1
balanced{G} 1|rebalances_total{G} 33|queues_moved_total{G,direction="gained"} 34
queues_moved_total{G,direction="lost"} 35|members_absent{G} 1|oldest_unhandled_timestamp_seconds{G} 64
oldest_in_flight_timestamp_seconds{G} 63|engine_count_total{G,figure="rows"} 38|engine_figure{G,figure="rows"} 39
in_flight_messages{T} 40|held_bytes{T} 41|lag_messages{T} 42|lag_unknown_queues{T} 0|queues_owned{T} 1
queues_held{G,reason="span"} 1|processes_silent 0|build_info{version="1"} 1
"""


def test_each_figure_of_the_snapshot_is_in_its_metric_and_in_no_other() -> None:
    expected = {}
    for each in EXPECTED.strip().replace("\n", "|").split("|"):
        name, value = each.split(" ")
        labels = name.replace("{T", f"{{{GROUP_AND_TOPIC}").replace("{G", '{consumer_group="billing"')
        expected[f"framework_app_{labels}"] = float(value)

    assert expected == shown(WHOLE)
