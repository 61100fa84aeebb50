"""Which series and labels a query of Prometheus names, and which are exported. Enough for the files of `deploy/`."""

from __future__ import annotations

import re
from typing import Any

from framework.runtime.observe.metrics import families

ENDINGS = {"counter": ("_total",), "info": ("_info",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
OF_PROMETHEUS = frozenset({"job", "instance"})
"""Labels that Prometheus adds to what it reads."""
SELECTOR = re.compile(r"\b((?:framework_app|messaging)_\w+)(?:\{([^}]*)\})?")
MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


class Figures(dict[str, Any]):
    """A part of a snapshot in which each figure is 0."""

    def __missing__(self, name: str) -> int:
        return 0


def exported() -> dict[str, frozenset[str]]:
    """Each series by its name, with its labels: read from a snapshot in which everything is known."""
    times = {"bounds": [1.0], "counts": [0, 0], "total": 0.0, "examples": [None, None]}
    queue = Figures(place=["orders", "broker-a", 0], reason="count")
    group = Figures(
        own_name="billing",
        queues=[queue],
        times={"orders": times},
        pulls={"orders": times},
        figures={"a": 1, "a_total": 1},
        absent=[],
    )
    picture = Figures(
        groups=[group],
        namespace="",
        engines=[],
        sends=times,
        sent={"TimeoutError": 1},
        stalls=Figures(),
        clock=Figures(brokers=1),
        failed_loops=[],
        not_live=[],
        not_ready=[],
        started_ms=1000,
        hook_failures={"audit": 1},
        slow_hooks={"audit": 1},
        replies={"late": 1},
        plugin_figures={"outbox": {"a": 1, "a_max": 1, "a_total": 1}},
    )
    found: dict[str, frozenset[str]] = {}
    for family in families([{"snapshot": picture}], "1.0"):
        labels = frozenset(name for key in (*family.samples, *family.times) for name, _ in key)
        for ending in ENDINGS[family.kind]:
            found[family.name + ending] = labels | OF_PROMETHEUS | ({"le"} if ending == "_bucket" else frozenset())
    return found


def mistakes(query: str) -> list[str]:
    """Series that are not exported, and labels that they do not have."""
    known = exported()
    found: list[str] = []
    selectors = SELECTOR.findall(query)
    for name, matchers in selectors:
        if name not in known:
            found.append(f"no metric {name}")
            continue
        grouped = {label.strip() for labels in GROUPED.findall(query) for label in labels.split(",")}
        found += [
            f"{name} has no label {label}" for label in sorted((grouped | {*MATCHED.findall(matchers)}) - known[name])
        ]
    return found if selectors else [f"names no metric: {query}"]
