"""Which files an application consists of, and how a change shows."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from framework.cli import watch
from tests.cli.test_options import parsed


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "watched_shop"
    (folder / "deep").mkdir(parents=True)
    for name in ("__init__.py", "orders.py", "deep/__init__.py", "deep/more.py", "framework-app.yaml"):
        (folder / name).write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.py").write_text("")
    (folder / "picture.png").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return folder


def names(*arguments: str) -> list[str]:
    return sorted(str(Path(name).name) for name in watch.watched_files(parsed(*arguments))())


def test_a_package_is_watched_with_everything_in_it() -> None:
    expected = ["__init__.py", "__init__.py", "framework-app.yaml", "more.py", "orders.py"]

    assert expected == names("watched_shop")


@pytest.mark.parametrize("app", ["watched_shop.orders", "watched_shop.orders:bill", "watched_shop/orders.py"])
def test_a_module_is_watched_with_its_package(app: str) -> None:
    assert {"orders.py", "more.py"} <= set(names(app))


def test_a_lone_file_is_watched_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "lone.py").write_text("")
    (tmp_path / "helper.py").write_text("")

    assert {"lone.py", "helper.py"} <= set(names("lone.py"))


def test_settings_and_overlays_are_watched(tmp_path: Path) -> None:
    (tmp_path / "framework-app.yaml").write_text("app: {handlers: [watched_shop.orders]}")
    (tmp_path / "overlay.yaml").write_text("")

    assert {"framework-app.yaml", "overlay.yaml", "orders.py"} <= set(names("--overlay", "overlay.yaml"))


@pytest.mark.parametrize("text", ["app: [", "app: {handlers: [gone.module]}"])
def test_broken_settings_are_watched_all_the_same(tmp_path: Path, text: str) -> None:
    """Mending them is what the parent waits for."""
    (tmp_path / "framework-app.yaml").write_text(text)

    assert ["framework-app.yaml"] == names()


def test_a_change_shows(shop: Path) -> None:
    look = watch.watched_files(parsed("watched_shop"))
    before = look()
    assert before == look()

    os.utime(shop / "orders.py", ns=(1, 1))
    touched = look()
    assert before != touched

    (shop / "new.py").write_text("")
    added = look()
    assert touched != added

    (shop / "deep" / "more.py").unlink()
    assert added != look()
