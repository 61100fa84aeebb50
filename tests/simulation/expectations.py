"""Expectations: turns a workload into an application's settings, and into what checkers must know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework.broker.settings import BrokerSettings
from framework.testing.sim.machine import Machine
from tests.simulation import allotment
from tests.simulation.history import History
from tests.simulation.ways import popping, rated, results
from tests.simulation.workload import KEYS, UNEVEN, GroupLoad, Workload

SYNCS_OF_FEW_ROWS = 30
"""What is due waits for so many at most where a sync takes two or five rows along, and sends wait for it, too."""
REACHES = {"sim-memory": "process", "sim-sqlite": "machine"}
"""How far what a store of `once` knows reaches; the others are everybody's."""


def broker_names(workload: Workload, count: int) -> list[str]:
    """What the logical brokers are called."""
    usual = [f"broker-{letter}" for letter in "abcdefghijklmnop"[:count]]
    return [*workload.broker_names[:count], *usual[len(workload.broker_names) :]]


def consumer_settings(
    workload: Workload, load: GroupLoad, brokers: Sequence[str], machines: Sequence[Machine]
) -> dict[str, Any]:
    """One group's."""
    members = [f"{machine.instance if workload.is_named else machine.host}@" for machine in machines]
    chosen: dict[str, Any] = {
        "concurrency": load.concurrency,
        "max_retries": workload.max_retries,
        "pull_batch": workload.pull_batch,
        "start": "first",
        "explicit_ack": load.explicit_ack,
    }
    if load.pops:
        chosen |= {"delivery": load.pops, "invisible": f"{popping.INVISIBLE_S:g}s"}
    elif not load.broadcasting:  # there nothing is divided, and each keeps its own offsets
        chosen["progress"] = load.progress
        chosen["allocation"] = allotment.options(load.allocation, workload.topic, brokers, members)
    if load.timeout_s:
        chosen["timeout"] = f"{load.timeout_s:g}s"
    if load.rate:
        chosen["rate"] = f"{rated.rate_of(workload, load)}/s"
    if load.breaker:
        chosen["breaker"] = load.breaker
    if load.skip_older_s:
        chosen["skip_older_than"] = f"{load.skip_older_s:g}s"
    if load.skip_backlog:
        chosen["skip_backlog_over"] = load.skip_backlog
    if load.once_s:
        chosen["once_store"] = load.once_store
    return {**chosen, **results.settings(load), **workload.settings}


def describe(
    history: History,
    workload: Workload,
    broker_settings: BrokerSettings,
    brokers: Sequence[str],
    machines: Sequence[Machine],
) -> None:
    """Tell the checkers what this run is like."""
    loads = [load for load in workload.groups if not load.pops]
    names = [machine.name for machine in machines]
    history.groups = [load.name for load in loads]
    if workload.second_topic or any(load.publishes for load in loads):
        history.topics = {load.name: set(load.topics(workload)) for load in workload.groups}
    history.popping = {load.name for load in workload.groups if load.pops}
    history.switched = {load.name for load in workload.groups if load.pops == "broker"}
    history.limited = {load.name for load in loads if load.timeout_s}
    history.orderly = {load.name: KEYS if load.orderly == "key" else 1 for load in loads if load.orderly}
    history.batched = {load.name for load in loads if load.batch}
    history.by_hand = {load.name for load in loads if load.by_hand}
    history.publishing = {load.name for load in loads if load.publishes}
    history.once = {load.name: REACHES.get(load.once_store, "all") for load in loads if load.once_s}
    history.threaded = {load.name for load in loads if not load.is_async}
    history.keeping = {
        load.name
        for load in loads
        if load.progress not in {"none", "local"} and not (load.orderly or load.broadcasting)
    }
    history.keeping_local = {load.name for load in loads if load.progress == "local"}
    history.announcing = {load.name for load in loads if load.progress not in {"none", "auto", "local"}}
    history.uneven = {load.name for load in loads if load.allocation in UNEVEN}
    history.is_heard = workload.is_heard
    history.plain = {
        load.name for load in loads
        if not (load.explicit_ack or load.by_hand or load.results or load.is_witnessed or load.timeout_s
                or load.broadcasting or load.batch)
    }  # fmt: skip
    history.rates = {load.name: rated.rate_of(workload, load) for load in loads if rated.goes(workload, load)}
    history.breakers = {load.name: load.concurrency * max(load.batch, 1) for load in loads if load.breaker}
    history.wanted = {load.name: load.tags for load in loads if load.tags}
    history.broadcasting = {load.name for load in loads if load.broadcasting}
    history.skips = {
        load.name: (load.skip_older_s, load.skip_backlog) for load in loads if load.skip_older_s or load.skip_backlog
    }
    by_name = [load for load in loads if load.allocation in allotment.BY_NAME and not load.broadcasting]
    history.allotted = {
        load.name: allotment.allotted(load.allocation, load.topics(workload), brokers, names) for load in by_name
    }
    history.strict = {load.name for load in by_name if load.allocation in allotment.STRICT}
    history.delays_ms = tuple(broker_settings.delays_ms)
    history.max_retries = workload.max_retries
    history.sync_s = workload.sync_s
    if "writes of a group" in workload.small.of("code"):
        history.syncs_waited_for = SYNCS_OF_FEW_ROWS
    history.places = {load.name: load.concurrency for load in workload.groups}
    little = workload.small.of("group").keys() | workload.small.of("app").keys()
    history.lingering = {load.name for load in loads if load.linger != "0s" and (little or load.cache_count)}
    history.is_protected = workload.is_named or bool(workload.app.get("protect"))
    history.limits = {load.name: load.timeout_s for load in loads if load.timeout_s}
