"""`deploy/grafana` and `deploy/prometheus/alerts.yaml`: whatever they ask for is what `/metrics` answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from framework.runtime.observe.metrics import families
from tests.deploy import files, labels

PATH = files.DEPLOY / "grafana" / "framework-app.json"
BOARD: dict[str, Any] = json.loads(PATH.read_text())
PANELS: list[dict[str, Any]] = [each for each in BOARD["panels"] if each["type"] != "row"]
RULES: list[dict[str, Any]] = yaml.safe_load((files.DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0][
    "rules"
]
ALERTS = {each["alert"]: each for each in RULES if "alert" in each}
PAGE = (files.ROOT / "docs/operate/metrics.md").read_text()
SUFFIXES = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}
ANSWERED = frozenset(each.name + suffix for each in families([], "1") for suffix in SUFFIXES.get(each.kind, ("",)))
RECORDED = frozenset(each["record"] for each in RULES if "record" in each)
_NAME = re.compile(r"(?<![\w:$])(?:[a-z_]+:)?(?:framework_app|messaging)_\w+(?::\w+)?")
UNITS = {"short", "cps", "s", "bytes", "percentunit", "bool_yes_no"}
WANTED = {
    "FrameworkAppDeadLetters": "framework_app_messages_total",
    "FrameworkAppLagGrowing": "consumer_group_topic:framework_app_lag_messages:sum",
    "FrameworkAppQueueWithoutProgress": "framework_app_stalled_queues",
    "FrameworkAppOwnerMissing": "framework_app_members_absent",
    "FrameworkAppCannotSendBack": "framework_app_cannot_send_back_messages",
    "FrameworkAppLoopStalls": "framework_app_loop_stalls_total",
    "FrameworkAppPluginFails": "framework_app_plugin_failures_total",
    "FrameworkAppOutboxFails": "framework_app_plugin_count_total",
    "FrameworkAppDown": "framework_app_build_info",
    "FrameworkAppNoData": "framework_app_build_info",
}


def asked(query: str) -> list[str]:
    """The metrics that a query reads."""
    return _NAME.findall(query)


def queries() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_each_query_asks_for_what_is_answered(where: str, query: str) -> None:
    names = asked(query)

    assert names, where
    assert not set(names) - ANSWERED - RECORDED, where


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_each_query_uses_labels_that_its_metrics_have(where: str, query: str) -> None:
    assert [] == labels.mistakes(query), where


@pytest.mark.parametrize(
    ("query", "mistake"),
    [
        ("sum by (topic) (framework_app_workers)", "framework_app_workers has no label topic"),
        ('framework_app_live{consumer_group="a"}', "framework_app_live has no label consumer_group"),
    ],
)
def test_a_label_that_a_metric_lacks_is_noticed(query: str, mistake: str) -> None:
    assert [mistake] == labels.mistakes(query)


def test_a_name_that_is_not_answered_is_noticed() -> None:
    (name,) = asked('sum by (topic) (rate(framework_app_messages{topic="a"}[5m]))')

    assert name not in ANSWERED, "a counter's samples end with _total"


def test_each_panel_has_a_unit_a_place_of_its_own_and_a_source() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert unit in UNITS, panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        seconds = any("_seconds" in target["expr"] for target in panel["targets"])
        assert seconds == (unit == "s"), panel["title"]
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len(BOARD["panels"]) == len({each["id"] for each in BOARD["panels"]})


def test_each_panel_is_of_the_chosen_application_and_groups() -> None:
    """Else another application's trouble, or all of them added up, is taken for this one's."""
    known = labels.exported()
    for panel in PANELS:
        for target in panel["targets"]:
            for name, matchers in labels.SELECTOR.findall(target["expr"]):
                chosen = [label for label in ("job", "consumer_group") if f'{label}=~"${label}"' in matchers]
                is_of_groups = "consumer_group" in known[name] and "operation" not in known[name]
                assert ["job", "consumer_group"][: 1 + is_of_groups] == chosen, panel["title"]


def test_sends_and_pulls_are_not_taken_together() -> None:
    """One metric has both, and pulls are many more."""
    for where, query in queries():
        if "messaging_client_operation_" in query:
            assert "operation" in query.replace("messaging_client_operation_", ""), where


def test_ages_are_those_at_the_scrape() -> None:
    """By `time()` an idle application is behind by up to what lies between two scrapes: a minute by default."""
    for where, query in queries():
        ages = set(re.findall(r"framework_app_oldest_\w+", query))
        assert all(re.search(rf"timestamp\({age}(\{{[^}}]*\}})?\) - {age}", query) for age in ages), where


def test_each_fault_has_its_alert() -> None:
    for name, metric in WANTED.items():
        assert metric in asked(ALERTS[name]["expr"]), name


def test_each_alert_says_how_urgent_it_is_and_what_to_do() -> None:
    for name, alert in ALERTS.items():
        assert {"severity"} == set(alert["labels"]), name
        assert alert["labels"]["severity"] in {"warning", "critical"}, name
        assert {"summary", "description"} == set(alert["annotations"]), name


def test_a_label_that_an_alert_speaks_of_is_one_that_its_query_keeps() -> None:
    for name, alert in ALERTS.items():
        kept = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", alert["expr"]) for label in labels.split(",")}
        if RECORDED & set(asked(alert["expr"])):
            kept |= {"consumer_group", "topic"}
        if alert["expr"].startswith("up "):
            kept |= labels.OF_PROMETHEUS
        said = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
        assert said <= kept, name


def test_the_page_has_each_alert() -> None:
    assert list(ALERTS) == re.findall(r"^\| `(FrameworkApp\w+)` \|", PAGE, re.MULTILINE)


def test_prometheus_reads_the_alerts_and_grafana_the_dashboard() -> None:
    prometheus = yaml.safe_load((files.DEPLOY / "prometheus/prometheus.yml").read_text())
    services = yaml.safe_load((files.DEPLOY / "compose.yaml").read_text())["services"]
    (provider,) = yaml.safe_load((files.DEPLOY / "grafana/provisioning/dashboards/files.yaml").read_text())["providers"]

    assert "alerts.yaml" in prometheus["rule_files"]
    assert f"./grafana:{provider['options']['path']}:ro" in services["grafana"]["volumes"]
