"""`deploy/helm`: its defaults are the manifests of `deploy/kubernetes`, and another choice of values is as right.

helm itself is asked by `make helm-check`; here is read what it made.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from framework.model.durations import to_ms
from framework.settings.schema import AppSettings
from tests.deploy import charts, files
from tests.deploy.pods import HANDLERS, ConfigMapVolume, Pod, Process
from tests.patience import wait_until

TEMPLATES = sorted(path for path in (charts.CHART / "templates").iterdir())
VALUES: dict[str, Any] = yaml.safe_load((charts.CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = yaml.safe_load((charts.CHART / "values.schema.json").read_text())


def rendered(variant: str) -> dict[str, dict[str, Any]]:
    found = [each for each in yaml.safe_load_all(charts.rendering(variant).read_text()) if each]
    return {each["kind"]: each for each in found}


def settings(variant: str, folder: Path) -> AppSettings:
    secrets = {"ACCESS_KEY": "key", "SECRET_KEY": "secret"}
    return files.settings_of(rendered(variant)["ConfigMap"]["data"][files.SETTINGS], folder, secrets)


def with_settings_read(manifest: dict[str, Any]) -> dict[str, Any]:
    """The same with the text of a ConfigMap read: it may be written in two ways."""
    data = manifest.get("data", {})
    return {**manifest, "data": {name: yaml.safe_load(text) for name, text in data.items()}}


def leaves(values: dict[str, Any], *before: str) -> Iterator[str]:
    """Names of single values. What goes to Kubernetes or into the settings as it is counts as one."""
    for name, value in values.items():
        path = (*before, name)
        if isinstance(value, dict) and name not in {"settings", "resources", "podAnnotations", "nodeSelector"}:
            yield from leaves(value, *path)
        else:
            yield ".".join(path)


@pytest.mark.parametrize("variant", charts.VARIANTS)
def test_what_is_tested_here_is_what_helm_made_of_this_chart(variant: str) -> None:
    said = "the chart or its values have changed: make helm-check WRITE=1"
    assert charts.head(variant) == charts.rendering(variant).read_text().splitlines(keepends=True)[0], said


def test_the_defaults_are_the_manifests() -> None:
    """So all that is tested of those, and what runs there, holds for the chart."""
    found = rendered("statefulset")
    # Its own defaults have no group: helm would add it to those of whoever has others, and no such application starts.
    wanted = {kind: with_settings_read(files.of_kind(kind)) for kind in found}
    del wanted["ConfigMap"]["data"][files.SETTINGS]["consumers"]

    assert {"ConfigMap", "Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"} == set(found)
    for kind, manifest in found.items():
        assert wanted[kind] == with_settings_read(manifest)


def test_no_default_is_about_a_group() -> None:
    """helm adds the defaults to what is given: a name among them would be a mistake in every other application."""
    assert not {"consumers", "plugins"} & set(VALUES["settings"])
    assert "" == VALUES["autoscaling"]["group"]


def test_scaling_by_lag_is_the_manifest_s_but_for_the_values() -> None:
    wanted, found = files.of_kind("ScaledObject"), rendered("deployment")["ScaledObject"]
    wanted["spec"]["scaleTargetRef"]["kind"] = "Deployment"
    wanted["spec"]["triggers"][0]["metadata"]["threshold"] = "500"

    assert wanted == found
    assert "replicas" not in rendered("deployment")["Deployment"]["spec"], "each upgrade would undo what KEDA did"


@pytest.mark.parametrize("variant", charts.VARIANTS)
def test_kubernetes_takes_it(variant: str) -> None:
    for kind, manifest in rendered(variant).items():
        if kind != "ScaledObject":
            assert charts.KUBERNETES_VERSION.startswith(kubernetes_validate.validate(manifest, "1.30", strict=True))


@pytest.mark.parametrize("variant", charts.VARIANTS)
def test_a_stop_has_the_time_that_it_takes(variant: str, tmp_path: Path) -> None:
    workload = next(each for kind, each in rendered(variant).items() if kind in files.WORKLOADS)
    hook = files.container(workload).get("lifecycle", {}).get("preStop", {})
    before_s = float(hook["exec"]["command"][1]) if hook else 0
    (killed,) = [
        each["value"] for each in files.container(workload)["env"] if each["name"] == "FRAMEWORK_APP__APP__KILLED_AFTER"
    ]

    assert files.pod(workload)["terminationGracePeriodSeconds"] == before_s + to_ms(killed) / 1000
    assert files.pod(workload)["terminationGracePeriodSeconds"] > files.stop_s(settings(variant, tmp_path), before_s)


def test_the_other_values_arrive(tmp_path: Path) -> None:
    found = settings("deployment", tmp_path)
    container = files.container(rendered("deployment")["Deployment"])

    assert (90_000, 10_000, "0.0.0.0:9500") == (found.app.drain, found.cluster.request_timeout, found.observe.listen)
    assert ["--workers", "2"] == container["command"][-2:]
    assert {"exec": {"command": ["sleep", "5"]}} == container["lifecycle"]["preStop"]
    assert [9500] == [each["containerPort"] for each in container["ports"]]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert {"settings": "/etc/order-desk", "tmp": "/tmp", "once": "/var/lib/order-desk"} == mounts
    assert set(mounts) == {each["name"] for each in files.pod(rendered("deployment")["Deployment"])["volumes"]}
    assert [5432] == [each["port"] for each in rendered("deployment")["NetworkPolicy"]["spec"]["egress"][-1]["ports"]]


def test_a_pod_with_workers_and_a_secret_turns_ready_and_drains(
    box: str, tmp_path: Path, tmp: Path, started: Callable[[Process], Process]
) -> None:
    manifests = rendered("deployment")
    (tmp_path / "app").mkdir()
    shutil.copy(HANDLERS, tmp_path / "app" / "orders.py")
    settings = ConfigMapVolume(tmp_path / "settings", manifests["ConfigMap"]["data"])
    volumes = {"settings": settings.folder, "tmp": tmp, "once": tmp_path / "once"}
    pod = Pod(manifests["Deployment"], "order-desk-x", tmp_path / "app", volumes=volumes, name_server=box)
    started(pod)

    pod.wait_until_it_is_ready()
    wait_until(lambda: pod.is_well("livenessProbe"), "liveness of both")
    assert 0 == pod.stop()
    assert "drained: handled=0 retried=0 dead=0 left=0" in pod.said()


# Values


def test_templates_use_each_value_and_no_other() -> None:
    used = {
        found
        for path in TEMPLATES
        for found in re.findall(r"\.Values\.([A-Za-z.]+)", path.read_text())
        if not any(found.startswith(f"{name}.") for name in ("settings", "resources"))
    }

    assert set(leaves(VALUES)) == used


def test_text_is_quoted_where_a_template_has_it() -> None:
    """A namespace may be called 1234, and a URL may hold what YAML reads as its own."""
    bare = [
        found
        for path in TEMPLATES
        for found in re.findall(r":\s+\{\{ \.Values\.([A-Za-z.]+) \}\}$", path.read_text(), re.MULTILINE)
    ]
    assert "replicas" in bare
    for path in bare:
        schema = SCHEMA
        for name in path.split("."):
            schema = schema["properties"][name]
        assert "enum" in schema or "integer" in schema["type"], path


def test_a_value_that_is_taken_away_is_missed() -> None:
    """With `null`. No port in a rule of a NetworkPolicy is every port."""
    for name, of in {"": SCHEMA, **SCHEMA["properties"]}.items():
        if isinstance(of, dict) and of.get("additionalProperties") is False:
            assert set(of["required"]) == set(of["properties"]) - {"global"}, name


def test_the_schema_knows_each_value_and_no_other() -> None:
    for name, of in SCHEMA["properties"].items():
        if of.get("additionalProperties") is False:
            assert set(VALUES[name]) == set(of["properties"]), name

    assert set(VALUES) == set(SCHEMA["properties"]) - {"global"}
    jsonschema.validate(VALUES, SCHEMA)


@pytest.mark.parametrize("each", charts.REFUSED)
def test_values_that_cannot_be_are_refused(each: str) -> None:
    path, _, text = each.partition("=")
    wrong: Any = yaml.safe_load(text)
    for name in reversed(path.split(".")):
        wrong = {name: wrong}
    (top,) = wrong
    below = {**VALUES[top], **wrong[top]} if isinstance(wrong[top], dict) else wrong[top]

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, top: below}, SCHEMA)


def test_the_least_that_may_follow_the_drain_is_what_follows_it_by_default() -> None:
    least = SCHEMA["properties"]["leavingSeconds"]["minimum"]
    settings = AppSettings()

    assert settings.app.drain / 1000 + least > files.stop_s(settings)
