"""The pods of `deploy/kubernetes`, run here: probes turn ready, SIGTERM drains, an edit acts, no root is written."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy import files
from tests.deploy.pods import HANDLERS, ConfigMapVolume, Pod, Process, send
from tests.patience import wait_until

Started = Callable[[Process], Process]


def a_pod(kind: str, folder: Path, tmp: Path, name_server: str) -> tuple[Pod, ConfigMapVolume]:
    work = folder / "app"
    work.mkdir()
    shutil.copy(HANDLERS, work / "orders.py")
    settings = ConfigMapVolume(folder / "settings", files.of_kind("ConfigMap")["data"])
    volumes = {"settings": settings.folder, "tmp": tmp}
    return Pod(files.of_kind(kind), "order-desk-0", work, volumes=volumes, name_server=name_server), settings


@pytest.mark.parametrize("kind", files.WORKLOADS)
def test_a_pod_turns_ready_and_drains_within_its_grace(
    kind: str, box: str, tmp_path: Path, tmp: Path, started: Started
) -> None:
    pod, _ = a_pod(kind, tmp_path, tmp, box)
    started(pod)
    lines, go = tmp / "lines", tmp / "go"

    pod.wait_until_it_is_ready()
    assert pod.is_well("livenessProbe")
    assert 0 == pod.run("health", "--ready")[0], "kubectl exec, as the page shows it"
    send(box, b"wait")
    wait_until(lambda: lines.exists() and lines.read_text().startswith("began "), "a handler that runs")
    pod.signal(signal.SIGTERM)
    wait_until(lambda: pod.answers("readinessProbe") == 503, "the end of readiness")
    assert pod.is_well("livenessProbe"), "a process that drains lives"
    go.touch()

    assert 0 == pod.end()
    assert 1 == lines.read_text().count("done ")
    assert "drained: handled=1 retried=0 dead=0 left=0" in pod.said()


def test_a_pod_writes_nowhere_but_in_its_volumes(box: str, tmp_path: Path, tmp: Path, started: Started) -> None:
    """Its root is read-only."""
    pod, _ = a_pod("StatefulSet", tmp_path, tmp, box)
    started(pod)
    pod.wait_until_it_is_ready()
    send(box, b"17")
    lines = tmp / "lines"
    wait_until(lambda: "done " in lines.read_text(), "a message that is handled")
    assert 0 == pod.stop()

    written = pod.written()
    assert any(path.suffix == ".sock" for path in written), "the control socket is noticed"
    allowed = (tmp, Path("/dev"))
    assert [] == [path for path in written if not any(path.is_relative_to(each) for each in allowed)]
    mounts = {
        each["mountPath"]: each.get("readOnly", False)
        for each in files.container(files.of_kind("StatefulSet"))["volumeMounts"]
    }
    assert {"/etc/order-desk": True, "/tmp": False} == mounts


def test_an_edit_of_the_configmap_acts_without_a_restart(box: str, tmp_path: Path, tmp: Path, started: Started) -> None:
    """The kubelet exchanges the link `..data`; the file's own name stays a link to it."""
    pod, settings = a_pod("Deployment", tmp_path, tmp, box)
    started(pod)
    pod.wait_until_it_is_ready()
    data = files.of_kind("ConfigMap")["data"]
    edited = {name: text.replace("concurrency: 20", "concurrency: 3") for name, text in data.items()}
    assert edited != data

    settings.write(edited)

    wait_until(lambda: "setting changed" in pod.said(), "the edit")
    (line,) = [line for line in pod.said().splitlines() if "setting changed" in line]
    assert '"setting": "consumers.billing.concurrency"' in line
    assert "restart required" not in pod.said()
    assert pod.is_running
    assert 0 == pod.stop()


def test_an_edit_of_the_configmap_that_is_wrong_changes_nothing(
    box: str, tmp_path: Path, tmp: Path, started: Started
) -> None:
    pod, settings = a_pod("Deployment", tmp_path, tmp, box)
    started(pod)
    pod.wait_until_it_is_ready()

    settings.write({"framework-app.yaml": "consumers: {billing: {concurrency: many}}\n"})

    wait_until(lambda: "settings not reloaded" in pod.said(), "the refusal")
    assert pod.is_well("readinessProbe")
    assert 0 == pod.stop()
