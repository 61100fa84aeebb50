"""`make alerts-check`: promtool reads the alerts and each query of the dashboard, and says which alerts a fault has.

Of each fault in `faults.py` the alerts that fire are the ones that are named there, and no others; in a calm hour none
does. promtool is built once, which takes minutes, so `make test` does without: tests/deploy/test_watching.py holds the
names, and tests/deploy/test_faults.py that each fault shows in its figure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from tests.deploy.faults import RECORDED
from tests.deploy.files import DEPLOY
from tests.deploy.recording import JOB, STEP_S, WHO, Recording

RULES = DEPLOY / "prometheus" / "alerts.yaml"
BOARD = DEPLOY / "grafana" / "framework-app.json"
VARIABLES = {"$__rate_interval": "1m", "$consumer_group": "billing", "$job": "order-desk"}
"""What Grafana puts in their places."""


def panel_rules() -> dict[str, Any]:
    """The dashboard's queries as rules, which is what promtool reads."""
    board = json.loads(BOARD.read_text())
    rules = []
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            rules.append({"record": f"panel:id{panel['id']}:{target['refId']}", "expr": query})
    return {"groups": [{"name": "panels", "rules": rules}]}


def check(promtool: str, path: Path) -> str:
    """What promtool says against it; nothing where it has no objection."""
    command = [promtool, "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{path.name}: {done.stdout}{done.stderr}"


def rule_test(recordings: Mapping[str, tuple[Recording, AbstractSet[str]]]) -> dict[str, Any]:
    """A file of promtool's: each recording as series, and the alerts that fired at any time of it."""
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{STEP_S}s",
        "tests": [
            {
                "name": name,
                "interval": f"{STEP_S}s",
                "input_series": [
                    {"series": _with_job(each), "values": " ".join(map(_value, values))}
                    for each, values in recording.series.items()
                    if "_bucket" not in each
                ],
                "promql_expr_test": [
                    {
                        "expr": _fired(recording),
                        "eval_time": _length(recording),
                        "exp_samples": [
                            {"labels": f'{{alertname="FrameworkApp{alert}"}}', "value": 1} for alert in sorted(alerts)
                        ],
                    }
                ],
            }
            for name, (recording, alerts) in recordings.items()
        ],
    }


def _fired(recording: Recording) -> str:
    return f'group by (alertname) (last_over_time(ALERTS{{alertstate="firing"}}[{_length(recording)}]))'


def _length(recording: Recording) -> str:
    return f"{recording.scrapes * STEP_S}s"


def _with_job(name: str) -> str:
    """As Prometheus keeps it."""
    metric, _, labels = name.partition("{")
    who = JOB if "instance=" in labels else WHO
    return f"{metric}{{{who},{labels or '}'}".replace(",}", "}")


def _value(value: float | None) -> str:
    return "_" if value is None else repr(value)


def run_tests(promtool: str, path: Path) -> str:
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{path.name}: {done.stdout}{done.stderr}"


def _complaints(promtool: str, folder: Path) -> Iterator[str]:
    yield check(promtool, RULES)
    panels, wrong = folder / "panels.yaml", folder / "wrong.yaml"
    panels.write_text(json.dumps(panel_rules()))  # JSON is YAML
    yield check(promtool, panels)
    wrong.write_text(RULES.read_text().replace("sum by (consumer_group)", "sum by consumer_group"))
    if not check(promtool, wrong):
        yield "promtool takes a query that is none"
    recordings = {name: (play(), alerts) for name, (play, alerts, _) in RECORDED.items()}
    fires, silent = folder / "fires.yaml", folder / "silent.yaml"
    fires.write_text(json.dumps(rule_test(recordings)))
    yield run_tests(promtool, fires)
    silent.write_text(json.dumps(rule_test({"dead letters": (recordings["dead letters"][0], frozenset())})))
    if not run_tests(promtool, silent):
        yield "promtool does not notice an alert that fires and should not"


def main(promtool: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        complaints = [each for each in _complaints(promtool, Path(folder)) if each]
    queries = len(panel_rules()["groups"][0]["rules"])
    right = f"promtool: the alerts and {queries} queries of the dashboard are right; of {len(RECORDED)} recordings each"
    said = f"{right} has the alerts that it must have"
    print("\n".join(complaints) or said)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
