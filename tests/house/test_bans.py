"""Banned calls: STYLE's table, the linter's configuration and the code say the same."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORK = ROOT / "framework"
BUILT_IN = frozenset({"open", "eval", "exec"})


def table() -> dict[str, list[str]]:
    """Banned name -> places in framework/ where it may stand."""
    rows: dict[str, list[str]] = {}
    section = (ROOT / "STYLE.md").read_text().partition("## Banned calls")[2]
    for line in section.splitlines():
        cells = line.split("|")
        names = re.findall(r"`([^`]+)`", cells[1]) if len(cells) == 5 else []
        for name in names:
            rows[name] = re.findall(r"`([^`]+)`", cells[2])
    return rows


def configured() -> dict[str, dict[str, str]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    banned: dict[str, dict[str, str]] = config["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    return banned


def uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Dotted names that a module uses, with imports followed: `from time import time as now` is `time.time`."""
    meanings: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meanings[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                meanings[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = dotted(node)
            if name is not None:
                head, _, rest = name.partition(".")
                if head in meanings or name in BUILT_IN:  # anything else is a name of the module's own
                    full = meanings.get(head, head)
                    yield (f"{full}.{rest}" if rest else full), node.lineno


def dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def violations(source: str, place: str) -> list[str]:
    rows = table()
    found = []
    for name, line in uses(ast.parse(source)):
        for banned, allowed in rows.items():
            # A banned module is banned with everything in it; a banned call is that call.
            if (name == banned or name.startswith(f"{banned}.")) and not any(
                place.startswith(each) for each in allowed
            ):
                found.append(f"{place}:{line}: {name}")
    return sorted(set(found))


def test_every_row_is_configured() -> None:
    assert {} == {name: "not in pyproject.toml" for name in table() if name not in configured()}


def test_every_ban_that_is_configured_stands_in_the_table_and_names_its_replacement() -> None:
    assert set(table()) == set(configured())
    assert all(len(ban["msg"]) > 5 for ban in configured().values())


def test_the_framework_calls_nothing_that_is_banned() -> None:
    """The linter leaves out whole files; this knows which ban each place is free of."""
    found = [
        violation
        for path in sorted(FRAMEWORK.rglob("*.py"))
        for violation in violations(path.read_text(), str(path.relative_to(FRAMEWORK)))
    ]

    assert [] == found


@pytest.mark.parametrize("name", sorted(table()))
def test_each_ban_is_noticed(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    source = f"import {name}\n" if not module and name not in BUILT_IN else f"{name}()\n"
    if attribute and module:
        source = f"from {module} import {attribute} as other\nother()\n"

    assert violations(source, "core/somewhere.py")


def test_nothing_runs_in_the_loop_s_own_executor_or_through_a_shell() -> None:
    for path in sorted(FRAMEWORK.rglob("*.py")):
        text = path.read_text()
        # The simulation's loop takes it away from everybody, and names it for that.
        assert "run_in_executor" not in text or "testing" in path.parts, path
        assert "shell=True" not in text, path
