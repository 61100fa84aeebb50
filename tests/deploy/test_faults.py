"""Each fault shows in the figure that its alert reads, and a calm hour does not. Which alerts fire, promtool says
(`make alerts-check`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.deploy import alerts, faults, files, labels
from tests.deploy.faults import CALM, RECORDED, calm
from tests.deploy.recording import Recording
from tests.deploy.test_watching import PANELS, asked

RULES = yaml.safe_load((files.DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
ALERTS = {each["alert"]: each["expr"] for each in RULES if "alert" in each}


@pytest.fixture(scope="module", autouse=True)
def shorter() -> Iterator[None]:
    """Alerts take minutes until they fire; figures show at once."""
    with pytest.MonkeyPatch.context() as patched:
        for name, count in {"CALM_STEPS": 40, "BEFORE": 4, "AFTER": 12}.items():
            patched.setattr(faults, name, count)
        yield


@pytest.fixture(scope="module")
def hour(shorter: None) -> Recording:
    return calm()


def test_each_alert_has_its_fault() -> None:
    fired = {f"FrameworkApp{alert}" for _, alerts, _ in RECORDED.values() for alert in alerts}

    assert set(ALERTS) == fired
    assert not RECORDED[CALM][1]


@pytest.mark.parametrize("name", [name for name, (_, _, shown) in RECORDED.items() if shown])
def test_a_fault_shows_in_its_figure_and_a_calm_hour_does_not(hour: Recording, name: str) -> None:
    play, fired, shown = RECORDED[name]
    metric, _, label = shown.partition("{")

    recording = play()
    assert 0 < max(recording.known(metric, label))
    if not name.startswith("lag grows"):  # some lag there always is
        assert 0 == max(hour.known(metric, label), default=0)
    for alert in fired - {"NotReady", "LagGrowing", "QueueHeld"}:
        assert any(metric in each for each in (ALERTS[f"FrameworkApp{alert}"],)), alert


def test_a_calm_hour_is_one_in_which_everything_is_handled(hour: Recording) -> None:
    assert 3 * faults.CALM_STEPS == max(hour.known("framework_app_messages_total", 'outcome="handled"'))
    assert {1.0} == set(hour.known("framework_app_ready"))


def test_no_panel_is_empty_of_a_calm_application(hour: Recording) -> None:
    """Or it says what that means: "No data" looks like a fault of the dashboard's."""
    seen = {name.partition("{")[0] for name in hour.series}
    for panel in PANELS:
        missing = {name for target in panel["targets"] for name in asked(target["expr"])} - seen
        assert not missing or panel["fieldConfig"]["defaults"].get("noValue"), panel["title"]


def test_a_recording_is_a_test_that_promtool_reads(hour: Recording) -> None:
    """As its documentation has the format; whether it does, `make alerts-check` sees."""
    (test,) = alerts.rule_test({CALM: (hour, frozenset())})["tests"]

    names = {each["series"].partition("{")[0] for each in test["input_series"]}
    assert names <= {*labels.exported(), "up"}
    assert all('{job="order-desk",instance="' in each["series"] for each in test["input_series"])
    assert {hour.scrapes} == {len(each["values"].split()) for each in test["input_series"]}
