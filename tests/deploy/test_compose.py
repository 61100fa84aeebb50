"""`deploy/compose.yaml`, and what it mounts for Prometheus and Grafana."""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.model.durations import to_ms
from framework.settings.schema import AppSettings
from tests.deploy import files

PATH = files.DEPLOY / "compose.yaml"
SERVICES: dict[str, Any] = yaml.safe_load(PATH.read_text())["services"]
APPLICATION = "order-desk"
PROMETHEUS = files.DEPLOY / "prometheus"


def complaint(path: Path) -> str:
    """What Compose's own schema says against it."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    """Those in the image: none are mounted over them."""
    return files.settings_of((files.DEPLOY / "app" / files.SETTINGS).read_text(), tmp_path)


def test_compose_takes_it_and_no_other_word(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(PATH.read_text().replace("stop_grace_period", "stop_grace"))

    assert "" == complaint(PATH)
    assert "'stop_grace' was unexpected" in complaint(wrong)


def test_the_application_is_the_image_s_and_has_the_time_that_a_stop_takes(settings: AppSettings) -> None:
    service = SERVICES[APPLICATION]
    build = (PATH.parent / service["build"]["context"]).resolve()

    assert files.CONTAINERFILE == build / service["build"]["dockerfile"]
    assert not {"command", "entrypoint", "stop_signal", "init"} & set(service), "the image's are tested"
    assert {"FRAMEWORK_APP__APP__KILLED_AFTER": service["stop_grace_period"]} == service["environment"]
    assert to_ms(service["stop_grace_period"]) / 1000 > files.stop_s(settings)


def test_the_application_may_do_no_more_than_it_needs() -> None:
    service = SERVICES[APPLICATION]
    assert service["read_only"] is True
    assert [files.image_environment()["HOME"]] == service["tmpfs"]
    assert (["ALL"], ["no-new-privileges:true"]) == (service["cap_drop"], service["security_opt"])
    assert not {"privileged", "user", "ports"} & set(service), "a port would be taken by the second replica"


def test_services_are_asked_by_the_names_that_they_have(settings: AppSettings) -> None:
    (name_server,) = settings.cluster.name_servers
    host, _, port = name_server.rpartition(":")
    assert (host, "9876") == ("rocketmq-namesrv", port)
    assert host in SERVICES
    assert ["-n", name_server] == SERVICES["rocketmq-broker"]["command"][-2:]
    for service in SERVICES.values():
        assert set(service.get("depends_on", [])) <= set(SERVICES)


def test_images_are_of_named_versions_and_ports_on_this_machine_alone() -> None:
    for name, service in SERVICES.items():
        assert ":" in service["image"], name
        assert not service["image"].endswith(":latest"), name
        for each in service.get("ports", []):
            assert ipaddress.ip_address(each.split(":")[0]).is_loopback, name


def test_what_is_mounted_is_there_and_is_not_written() -> None:
    mounts = [each.split(":") for service in SERVICES.values() for each in service.get("volumes", [])]

    assert 3 == len(mounts)
    for source, _, mode in mounts:
        assert (PATH.parent / source).is_dir(), source
        assert "ro" == mode


def test_prometheus_asks_each_replica_at_its_listener(settings: AppSettings) -> None:
    found = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    (job,) = found["scrape_configs"]
    (lookup,) = job["dns_sd_configs"]

    assert ([APPLICATION], "A") == (lookup["names"], lookup["type"])
    assert settings.observe.listen == f"0.0.0.0:{lookup['port']}"
    assert "metrics" in settings.observe.public


def test_prometheus_reads_its_configuration_and_each_file_of_rules_and_keeps_exemplars() -> None:
    """Panels show them, and Prometheus throws them away unless it is told."""
    assert [
        "--config.file=/etc/prometheus/prometheus.yml", "--enable-feature=exemplar-storage",
    ] == SERVICES["prometheus"]["command"]  # fmt: skip
    assert ["./prometheus:/etc/prometheus:ro"] == SERVICES["prometheus"]["volumes"]
    paths = [path for path in PROMETHEUS.iterdir() if "groups" in yaml.safe_load(path.read_text())]

    assert {path.name for path in paths} == set(
        yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["rule_files"]
    )


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    folder = files.DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / "dashboards" / "files.yaml").read_text())["providers"]
    mounts = dict(each.split(":")[:2] for each in SERVICES["grafana"]["volumes"])

    assert "http://prometheus:9090" == source["url"]
    assert ("prometheus", "prometheus") == (source["uid"], source["type"])
    assert {"./grafana/provisioning": "/etc/grafana/provisioning", "./grafana": provider["options"]["path"]} == mounts
