"""What the settings say of the cluster, before anybody connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.cli.main import run
from framework.cli.processes.last_limit import LastLimit
from framework.errors import ConfigurationError
from framework.runtime.plans.connect import cluster_options
from framework.settings.schema import AppSettings
from framework.settings.sources import load

HANDLER = """\
from framework import Message, consumer

@consumer("orders", "billing")
async def bill(order: Message) -> None: ...
"""


def settings_of(folder: Path, credentials: str) -> AppSettings:
    file = folder / "framework-app.yaml"
    file.write_text(f"cluster:\n  credentials: {{{credentials}}}\n")
    return load(file)


@pytest.mark.parametrize(
    ("given", "missing"), [("access_key: me", "secret_key"), ("secret_key: '${env:HUSH}'", "access_key")]
)
def test_half_a_pair_of_keys_signs_nothing_in_silence(
    tmp_path: Path, given: str, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUSH", "hush-hush")
    monkeypatch.setattr(LastLimit, "begin", lambda *_: None)  # it ends a process that goes on behind its `run`: ours
    settings = settings_of(tmp_path, given)

    with pytest.raises(ConfigurationError) as refused:
        cluster_options(settings, "me")

    place = f"{tmp_path}/framework-app.yaml:2"
    assert str(refused.value).startswith(place)
    assert f"cluster.credentials: {missing} is missing" in str(refused.value)
    (tmp_path / "billing_alone.py").write_text(HANDLER)
    options = ["--config", f"{tmp_path}/framework-app.yaml", f"{tmp_path}/billing_alone.py"]
    assert 78 == run(["check", *options])
    assert 78 == run(["run", *options])
    said = capsys.readouterr()
    assert said.out.count(f"{missing} is missing") == said.err.count(f"{missing} is missing") == 1
    assert "hush-hush" not in said.out + said.err


def test_both_keys_or_none_are_taken(tmp_path: Path) -> None:
    both = cluster_options(settings_of(tmp_path, "access_key: me, secret_key: hush"), "me").credentials
    assert both is not None
    assert ("me", "hush") == (both.access_key, both.secret_key)
    assert cluster_options(settings_of(tmp_path, ""), "me").credentials is None
