"""Explained: each value as a file would spell it, where it stands, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.settings.explain import Explained, explained
from framework.settings.schema import AppSettings
from framework.settings.sources import load, override

FILE = """\
cluster:
  name_servers: [10.0.0.1:9876, 10.0.0.2:9876]
  request_timeout: 1500ms
  credentials: {access_key: ours, secret_key: "${env:KEY}"}
consumers:
  billing:
    start: 90m
    cache_bytes: 1MiB
    max_retries:
    allocation: {consistent_hash: {virtual_nodes: 4}}
plugins:
  settings: {audit: {folder: /var/log, api_token: hidden}}
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Explained]:
    file = tmp_path / "app.yaml"
    file.write_text(FILE)
    settings = load(
        file,
        environment={"KEY": "hush", "FRAMEWORK_APP__APP__DRAIN": "2h"},
        overrides=[override("consumers.billing.paused=true"), override("cluster.tls={enabled: true}")],
    )
    return {each.name: each for each in explained(settings)}


def test_every_setting_is_there_with_its_default() -> None:
    rows = explained(AppSettings())

    assert {"default"} == {row.place for row in rows}
    assert {"app.drain": "30s", "app.budget": "64MiB", "cluster.wait_broker": "", "app.name": "app"}.items() <= {
        row.name: row.value for row in rows
    }.items()


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("cluster.name_servers", '["10.0.0.1:9876", "10.0.0.2:9876"]', "app.yaml:2"),
        ("cluster.request_timeout", "1s500ms", "app.yaml:3"),
        ("consumers.billing.start", "1h30m", "app.yaml:7"),
        ("consumers.billing.cache_bytes", "1MiB", "app.yaml:8"),
        ("consumers.billing.max_retries", "", "app.yaml:9"),
        ("consumers.billing.allocation", '{"consistent_hash": {"virtual_nodes": "4"}}', "app.yaml:10"),
        ("consumers.billing.concurrency", "20", "default"),
        ("consumers.billing.paused", "true", "--set consumers.billing.paused"),
        ("consumers.billing.stuck_after", "15m", "default"),
        ("cluster.tls.enabled", "true", "--set cluster.tls"),
        ("cluster.tls.verify", "true", "default"),
        ("app.drain", "2h", "$FRAMEWORK_APP__APP__DRAIN"),
        ("plugins.settings.audit.folder", "/var/log", "app.yaml:12"),
    ],
)
def test_a_value_is_spelled_as_in_a_file_and_says_where_it_stands(
    found: dict[str, Explained], name: str, value: str, place: str
) -> None:
    assert value == found[name].value
    assert place in found[name].place


@pytest.mark.parametrize(
    "name", ["cluster.credentials.access_key", "cluster.credentials.secret_key", "plugins.settings.audit.api_token"]
)
def test_no_secret_is_shown(found: dict[str, Explained], name: str) -> None:
    assert "***" == found[name].value
    assert '""' == found["cluster.credentials.security_token"].value
