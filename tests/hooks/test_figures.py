"""`figures`: what plugins count, in the snapshot and in metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from framework import Message, consumer
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.runtime.observe.metrics import families
from framework.runtime.observe.openmetrics import text_of
from framework.testing import Harness
from tests.runtime.observe.asking import series


@consumer("orders", "billing")
async def bill(message: Message) -> None: ...


def snapshot_of(answer: Any) -> tuple[Mapping[str, Any], dict[str, float], Mapping[str, int]]:
    """What the snapshot and /metrics have of a plugin that counts so, and the plugins' failures."""

    class Counting:
        @hookimpl
        def figures(self) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    plugins = PluginHost(objects={"counting": Counting()}, discover=tuple)
    with Harness(bill, plugins=plugins) as desk:
        picture = desk.snapshot()
    found = series(text_of(families([{"worker": 0, "snapshot": asdict(picture)}], "1.0")))
    return (
        picture.plugin_figures,
        {name: value for name, value in found.items() if "plugin_" in name},
        picture.hook_failures,
    )


def test_a_plugins_figures_are_metrics_by_its_name() -> None:
    figures, metrics, failures = snapshot_of({"cards_total": 3, "open": 1.5})

    assert {"counting": {"cards_total": 3, "open": 1.5}} == figures
    assert 3 == metrics['framework_app_plugin_count_total{figure="cards",plugin="counting"}']
    assert 1.5 == metrics['framework_app_plugin_figure{figure="open",plugin="counting"}']
    assert failures["counting"] == 0 == max(failures.values())
    assert 0 == metrics['framework_app_plugin_failures_total{plugin="counting"}'], "a rate misses what begins with 1"


@pytest.mark.parametrize(
    "answer", [{"open": "many"}, {"open": None}, {"open": float("nan")}, 7, ["open"], ValueError("no database")]
)
def test_what_is_no_number_is_the_plugins_failure_and_hurts_nobody(answer: Any) -> None:
    figures, metrics, failures = snapshot_of(answer)

    assert not figures
    assert not [name for name in metrics if "figure" in name]
    assert 1 <= failures["counting"]
