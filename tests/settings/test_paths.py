"""Paths in a settings file are relative to it, everywhere; names of modules are not paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.runtime.plans.collect import collect
from framework.settings.sources import load

SHOP = """
from framework import Message, consumer


@consumer("orders", "GROUP")
async def bill(order: Message) -> None: ...
"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the process does not run in."""
    (conf := tmp_path / "conf").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    return conf


def written(folder: Path, text: str) -> Path:
    path = folder / "framework-app.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("kind", ["file", "attribute", "folder", "absolute", "relative"])
def test_handlers_are_found_beside_the_settings(
    kind: str, conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shop_{kind}"
    (conf / f"{name}.py").write_text(SHOP.replace("GROUP", name))
    (package := conf / f"package_{kind}").mkdir()
    (package / "__init__.py").write_text(SHOP.replace("GROUP", name))
    handler = {
        "file": f"{name}.py",
        "attribute": f"{name}.py:bill",
        "folder": f"./{package.name}",
        "absolute": str(conf / f"{name}.py"),
        "relative": f"../conf/{name}.py",
    }[kind]
    path = written(conf, f'app: {{handlers: ["{handler}"]}}')

    assert [name] == [each.spec.group for each in collect(load(path))]
    monkeypatch.chdir(tmp_path)
    assert [name] == [each.spec.group for each in collect(load("conf/framework-app.yaml"))]
    monkeypatch.chdir(conf)
    assert [name] == [each.spec.group for each in collect(load("framework-app.yaml"))]


def test_modules_stay_names(conf: Path) -> None:
    assert ("shop", "shop.orders", "shop:bill") == load(
        written(conf, "app: {handlers: [shop, shop.orders, shop:bill]}")
    ).app.handlers


@pytest.mark.parametrize(
    "key",
    ["broadcasting.folder", "broadcasting.java_folder", "progress.folder", "once.folder", "cluster.embedded_data"],
)
@pytest.mark.parametrize(
    ("expected", "given"),
    [("{conf}/kept", "kept"), ("{conf}/../kept", "../kept"), ("/var/kept", "/var/kept"), ("~/kept", "~/kept")],
)
def test_folders_are_relative_to_the_file_too(key: str, expected: str, given: str, conf: Path) -> None:
    section, name = key.split(".")
    settings: Any = load(written(conf, f'{section}: {{{name}: "{given}"}}'))

    if given.startswith("~") and key == "cluster.embedded_data":
        return  # it has its own reader, which knows no home directory
    assert expected.format(conf=conf) == getattr(getattr(settings, section), name)
