"""`deploy/kubernetes`: what Kubernetes itself would refuse, what does not fit together, and what does not fit us."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from framework.core.limits import DRAIN_MS
from framework.runtime.observe import metrics
from framework.settings.schema import AppSettings
from tests.deploy import files
from tests.docs import words

VERSIONS = ("1.28", "1.34")  # from when a probe has a grace of its own, to the newest that is everywhere
OTHERS = {"Kustomization", "ScaledObject", "PodMonitor"}
"""Kinds that Kubernetes itself does not know: held against rules of our own below."""
ALL = [(path, each) for path, documents in files.manifests().items() for each in documents]
LABELS = {"app.kubernetes.io/name": "order-desk"}


def named(value: Any) -> str:
    return value.stem if isinstance(value, Path) else str(value["kind"]) if isinstance(value, dict) else str(value)


@pytest.fixture(params=files.WORKLOADS)
def workload(request: pytest.FixtureRequest) -> dict[str, Any]:
    return files.of_kind(str(request.param))


def settings(folder: Path, workload: dict[str, Any]) -> AppSettings:
    """As a pod has them: its variables are above the ConfigMap."""
    env = {each["name"]: each.get("value", "order-desk-0") for each in files.container(workload).get("env", [])}
    return files.settings_of(files.of_kind("ConfigMap")["data"][files.SETTINGS], folder, env)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("path", "manifest"), [each for each in ALL if each[1]["kind"] not in OTHERS], ids=named)
def test_kubernetes_takes_it(path: Path, manifest: dict[str, Any], version: str) -> None:
    assert version in kubernetes_validate.validate(manifest, version, strict=True)


def test_a_word_that_kubernetes_does_not_know_is_found() -> None:
    manifest = files.of_kind("PodDisruptionBudget")
    manifest["spec"]["maxUnavailble"] = 1

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)


def test_each_manifest_says_where_it_is() -> None:
    """So that what a page shows has the file's name above it."""
    first = {path: path.read_text().splitlines()[0] for path, _ in ALL if path.name != "kustomization.yaml"}

    assert [] == [path.name for path, line in first.items() if not line.startswith(f"# deploy/kubernetes/{path.name}")]


def test_the_kustomization_names_one_workload_and_files_that_are_there() -> None:
    named = files.of_kind("Kustomization")["resources"]

    assert all((files.KUBERNETES / name).is_file() for name in named)
    assert 1 == len({"statefulset.yaml", "deployment.yaml"} & set(named))


def test_all_are_about_the_same_pods(workload: dict[str, Any]) -> None:
    spec = workload["spec"]
    assert LABELS == spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert LABELS == files.of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
    assert LABELS == files.of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert LABELS == files.of_kind("Service")["spec"]["selector"]
    assert files.of_kind("Service")["metadata"]["name"] == files.of_kind("StatefulSet")["spec"]["serviceName"]


def test_its_commands_are_ours(workload: dict[str, Any]) -> None:
    found = [shlex.join(command) for command in files.commands(workload)]

    assert 1 == len(found)
    assert [] == [wrong for command in found if (wrong := words.mistake(command))]


def test_a_stop_has_the_time_that_it_takes(workload: dict[str, Any], tmp_path: Path) -> None:
    """Kubernetes' default of 30 s is our drain: it would kill when offsets are to be confirmed."""
    hook = files.container(workload).get("lifecycle", {}).get("preStop", {})
    assert {} == hook, "the page says why there is none"

    assert files.pod(workload)["terminationGracePeriodSeconds"] > files.stop_s(settings(tmp_path, workload))
    assert settings(tmp_path, workload).app.killed_after == files.pod(workload)["terminationGracePeriodSeconds"] * 1000
    assert () == settings(tmp_path, workload).warnings
    assert settings(tmp_path, workload).app.drain == DRAIN_MS, "the page's table begins with the default"


def test_liveness_kills_no_sooner_than_a_lock_expires_and_then_at_once(workload: dict[str, Any]) -> None:
    probe = files.container(workload)["livenessProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60
    assert probe["terminationGracePeriodSeconds"] < files.pod(workload)["terminationGracePeriodSeconds"]


def test_probes_ask_the_listener_for_its_pages(workload: dict[str, Any], tmp_path: Path) -> None:
    found = files.container(workload)
    (port,) = found["ports"]
    observe = settings(tmp_path, workload).observe
    assert observe.listen == f"0.0.0.0:{port['containerPort']}"
    assert {"probes", "metrics"} == set(observe.public)
    for probe, path in (("startupProbe", "/startup"), ("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert {"path": path, "port": port["name"]} == found[probe]["httpGet"]
        assert found[probe]["timeoutSeconds"] >= 5, "the listener asks its processes for up to 3 s"


def test_the_page_about_probes_has_the_same_numbers(workload: dict[str, Any]) -> None:
    rows = re.findall(
        r"\| `(\w+Probe)` \| `(/\w+)` \| (\d+) \| (\d+) \| (\d+) \|",
        (files.ROOT / "docs/operate/metrics.md").read_text(),
    )
    found = files.container(workload)

    assert 3 == len(rows)
    for name, path, *numbers in rows:
        probe = found[name]
        wanted = [probe[key] for key in ("periodSeconds", "timeoutSeconds", "failureThreshold")]
        assert [probe["httpGet"]["path"], *wanted] == [path, *map(int, numbers)]


def test_a_pod_may_do_no_more_than_it_needs(workload: dict[str, Any]) -> None:
    pod, found = files.pod(workload), files.container(workload)
    user, _, group = files.of_image("USER").text.partition(":")
    assert pod["automountServiceAccountToken"] is False
    # fsGroup: a volume that is mounted can be written.
    wanted = {"runAsNonRoot": True, "runAsUser": int(user), "runAsGroup": int(group), "fsGroup": int(group)}
    assert wanted.items() <= pod["securityContext"].items()
    assert {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    } == found["securityContext"]  # fmt: skip


def test_a_statefulset_s_pod_keeps_its_seat_for_longer_than_a_start_may_take(tmp_path: Path) -> None:
    workload = files.of_kind("StatefulSet")
    app, probe = settings(tmp_path, workload).app, files.container(workload)["startupProbe"]

    assert "order-desk-0" == app.instance
    assert app.grace >= probe["periodSeconds"] * probe["failureThreshold"] * 1000


def test_a_deployment_s_pods_have_no_names_and_come_before_others_go(tmp_path: Path) -> None:
    workload = files.of_kind("Deployment")
    assert "" == settings(tmp_path, workload).app.instance
    assert {"maxSurge": 1, "maxUnavailable": 0} == workload["spec"]["strategy"]["rollingUpdate"]
    assert workload["spec"]["progressDeadlineSeconds"] > 300, "app.protect holds back for up to 5 min"


def test_both_workloads_are_alike_but_for_names() -> None:
    one, other = (files.of_kind(kind)["spec"]["template"] for kind in files.WORKLOADS)
    of_names = {"FRAMEWORK_APP__APP__INSTANCE", "FRAMEWORK_APP__APP__GRACE"}
    env = one["spec"]["containers"][0]["env"]
    one["spec"]["containers"][0]["env"] = [each for each in env if each["name"] not in of_names]

    assert one == other


def test_the_configmap_is_mounted_as_a_folder_so_that_edits_arrive(workload: dict[str, Any]) -> None:
    """A subPath is mounted once and never changes."""
    found = files.container(workload)
    (mount,) = [each for each in found["volumeMounts"] if each["name"] == "settings"]
    assert "subPath" not in mount
    place = dict(pairwise(found["command"]))["--config"]
    assert place == f"{mount['mountPath']}/{files.SETTINGS}"
    assert files.SETTINGS in files.of_kind("ConfigMap")["data"]
    (volume,) = [each for each in files.pod(workload)["volumes"] if each["name"] == "settings"]
    assert files.of_kind("ConfigMap")["metadata"]["name"] == volume["configMap"]["name"]


def test_the_network_policy_lets_pods_reach_what_the_settings_name(tmp_path: Path) -> None:
    found = settings(tmp_path, files.of_kind("Deployment"))
    (address,) = found.cluster.name_servers
    host, _, port = address.rpartition(":")
    spaces = {
        rule["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]: {
            each["port"] for each in rule["ports"]
        }
        for rule in files.of_kind("NetworkPolicy")["spec"]["egress"]
    }

    assert {int(port), 10911} == spaces[host.partition(".")[2]]
    assert {53} == spaces["kube-system"]


def test_prometheus_operator_finds_the_pods_and_their_port(workload: dict[str, Any]) -> None:
    spec = files.of_kind("PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert {"selector", "podMetricsEndpoints"} == set(spec)
    assert workload["spec"]["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"]
    assert {"port": files.container(workload)["ports"][0]["name"], "path": "/metrics", "interval": "15s"} == endpoint


# KEDA


def test_pods_by_lag_are_of_the_workload_that_is_there_and_never_none() -> None:
    spec = files.of_kind("ScaledObject")["spec"]
    target = files.of_kind(spec["scaleTargetRef"]["kind"])

    assert target["metadata"]["name"] == spec["scaleTargetRef"]["name"]
    assert 1 <= spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]


def test_no_data_is_an_error_to_the_scaler_and_never_0() -> None:
    spec = files.of_kind("ScaledObject")["spec"]
    (trigger,) = spec["triggers"]
    assert "prometheus" == trigger["type"]
    assert "false" == trigger["metadata"]["ignoreNullValues"]
    assert all(isinstance(value, str) for value in trigger["metadata"].values()), "KEDA takes text alone"
    assert "AverageValue" == trigger["metricType"], "KEDA falls back with no other"
    assert "currentReplicasIfHigher" == spec["fallback"]["behavior"]


def test_the_scaler_s_query_is_of_metrics_that_there_are() -> None:
    (trigger,) = files.of_kind("ScaledObject")["spec"]["triggers"]
    named = set(re.findall(r"framework_app_\w+", trigger["metadata"]["query"]))
    source = Path(str(metrics.__file__)).read_text()

    assert {"framework_app_lag_messages", "framework_app_lag_unknown_queues"} == named
    assert [] == [
        name for name in named if f'"{name}"' not in source and f'"{name.removeprefix("framework_app_")}"' not in source
    ]
    groups = yaml.safe_load(files.of_kind("ConfigMap")["data"][files.SETTINGS])["consumers"]
    assert set(groups) == set(re.findall(r'consumer_group="(\w+)"', trigger["metadata"]["query"]))
