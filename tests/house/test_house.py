"""House rules that review should not have to guard: headers, exports, settings, traces of machines."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import framework
from framework.broker import handlers
from framework.hooks import specs
from framework.settings import document
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings, CredentialsSettings
from framework.testing import Harness
from tests.house.box_page import BOX, box_page
from tests.house.options_page import OPTIONS, options_page
from tests.house.pages import ERRORS, LOGS, PYTHON, SETTINGS, errors_page, logs_page, python_page, settings_page

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "framework").rglob("*.py"))


def in_git() -> list[Path]:
    """Files of this tree: tracked, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def test_every_module_says_what_it_is() -> None:
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]

    assert [] == silent


def test_every_room_has_its_place_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path.name for path in (ROOT / "framework").iterdir() if path.is_dir() and path.name != "__pycache__"]

    assert [] == [room for room in rooms if not re.search(rf"\b{room}\b", text)]


def test_files_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"\b((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|yaml))\b", text))
    bases = (ROOT, ROOT / "framework")

    assert [] == [name for name in sorted(named) if not any((base / name).is_file() for base in bases)]


@pytest.mark.parametrize("place", sorted(set(handlers.TABLE.values())))
def test_what_answers_a_request_says_what_and_opens_with_its_code(place: str) -> None:
    """The docs' table, where users look a code up, is made of this. What answers several codes opens with none."""
    codes = [f"{code.name} ({code.value})" for code, answered_by in handlers.TABLE.items() if answered_by == place]
    family, _, name = place.partition(".")
    source = ast.parse((ROOT / "framework" / "broker" / "handlers" / f"{family}.py").read_text())
    (found,) = [node for node in source.body if isinstance(node, ast.FunctionDef) and node.name == name]
    head, _, what = (ast.get_docstring(found) or "").partition(": ")

    assert what, f"{place}: say what is answered"
    assert codes == [head] if len(codes) == 1 else codes[0] not in head


def test_public_names_are_exported_once() -> None:
    assert sorted(set(framework.__all__)) == framework.__all__
    assert set(framework.__all__) == set(framework._HOME_OF)
    for name in framework.__all__:
        assert getattr(framework, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        framework.Nobody  # noqa: B018 - asking is the test


def test_importing_the_package_imports_no_room() -> None:
    """A process pays for what it uses."""
    program = "import sys, framework; print([name for name in sys.modules if name.startswith('framework.')])"
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert "[]\n" == output


def keys_of(model: type[BaseModel]) -> dict[str, Any]:
    """The schema as a tree of keys."""
    tree: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        tree[name] = keys_of(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return tree


def test_default_yaml_has_every_setting_with_its_default_and_nothing_else() -> None:
    path = ROOT / "config" / "default.yaml"
    values = document.parsed(path.read_text(), "default.yaml").values
    example = values["consumers"].pop("example")
    written = AppSettings.parsed(values, {})

    assert isinstance(written, AppSettings)
    assert AppSettings().model_dump() == written.model_dump()
    assert CredentialsSettings() == written.cluster.credentials
    assert ConsumerSettings() == ConsumerSettings.model_validate(example)
    assert set(ConsumerSettings.model_fields) == set(example)
    for part, keys in keys_of(AppSettings).items():
        if part != "consumers":
            assert set(keys) == set(values[part]), part
    assert set(keys_of(AppSettings)["cluster"]["tls"]) == set(values["cluster"]["tls"])
    assert set(keys_of(AppSettings)["cluster"]["credentials"]) == set(values["cluster"]["credentials"])


def test_every_setting_says_what_it_means_in_both_places() -> None:
    lines = (ROOT / "config" / "default.yaml").read_text().splitlines()

    def check(model: type[BaseModel]) -> None:
        for name, field in model.model_fields.items():
            assert len(field.description or "") > 10, f"{model.__name__}.{name}"
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                check(kind)
            elif name != "consumers":
                assert any(re.match(rf"\s+{name}:.*#", line) for line in lines), f"{name} without a meaning"

    check(AppSettings)
    check(ConsumerSettings)


@pytest.mark.parametrize("hook", specs.NAMES)
def test_every_hook_is_documented_tested_and_used(hook: str) -> None:
    """A hook arrives with a plugin that uses it."""
    arguments = [name for name in getattr(specs.Hooks, hook).__code__.co_varnames if name != "self"]
    signature = f"`{hook}({', '.join(arguments)})`"
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "hooks").glob("test_*.py"))
    places = [ROOT / "plugins", ROOT / "example_app", ROOT / "framework" / "hooks" / "builtin"]
    users = [path for place in places for path in place.rglob("*.py") if f"def {hook}(" in path.read_text()]

    assert signature in (ROOT / "docs" / "explanation" / "inside.md").read_text()
    assert signature in (ROOT / "docs" / "plugins.md").read_text()
    assert f"def {hook}" in tests
    assert re.search(rf"def test_\w*{hook}", tests)
    assert users
    assert getattr(specs.Hooks, hook).__doc__


@pytest.mark.parametrize(
    ("path", "page"),
    [
        (SETTINGS, settings_page),
        (PYTHON, python_page),
        (LOGS, logs_page),
        (ERRORS, errors_page),
        (OPTIONS, options_page),
        (BOX, box_page),
    ],
)
def test_the_reference_pages_say_what_the_sources_say(path: Path, page: Callable[[], str]) -> None:
    """Every setting, every public name with its arguments, each request of the box: `tests.house.pages` writes them."""
    assert page() == path.read_text(), "run: .venv/bin/python -m tests.house.pages"


def test_the_settings_page_has_every_key() -> None:
    text = SETTINGS.read_text()
    for name in (*ConsumerSettings.model_fields, *CredentialsSettings.model_fields):
        assert re.search(rf"^\| `(\w+\.)?{name}` \|", text, re.MULTILINE), name


def test_every_result_and_public_method_stands_on_the_page_of_names() -> None:
    text = PYTHON.read_text()
    for name in framework.__all__:
        assert re.search(rf"^### `{name}\(", text, re.MULTILINE), name
    for method in [each for each in vars(framework.App) if not each.startswith("_") and each != "settings"]:
        assert f"{method}(" in text or f"`{method}`" in text, method


def test_nothing_names_a_machine_or_a_registry() -> None:
    """Paths of a developer's machine, hosts of package indexes and hashes of lock files stay out of the tree."""
    patterns = [
        rf"{'/'}(?:home|root|Users|work)/",
        r"(?:files\.pythonhosted|pypi|repo\d?\.maven(?:\.apache)?)\.org",
        r"--hash=",
    ]
    found = []
    for path in in_git():
        if path.suffix in {".jsonl", ".bin", ".gz", ".class"} or path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {match[0]}" for pattern in patterns for match in re.finditer(pattern, text)
        ]

    assert [] == found


def test_every_dependency_is_pinned_and_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("]")[0]
    names = re.findall(r'"([a-z0-9-]+)', project)
    pins = dict(
        line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    reasons = (ROOT / "ARCHITECTURE.md").read_text().partition("## Dependencies")[2].partition("\n## ")[0]

    assert names
    for name in names:
        assert name in pins, name
        assert name in reasons, name


def test_every_development_tool_is_pinned() -> None:
    pins = {
        line.lower().split("==")[0].replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    asked = "\n".join((ROOT / name).read_text() for name in ("requirements-dev.txt", "docs/requirements.txt"))
    tools = [name.lower() for name in re.findall(r"^[A-Za-z][\w.-]*", asked, re.MULTILINE)]

    assert [] == [tool for tool in tools if tool.replace("_", "-") not in pins]


def test_the_readme_s_example_is_right(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    yaml = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    (tmp_path / "orders.py").write_text(code)
    (tmp_path / "framework-app.yaml").write_text(yaml)

    checked = subprocess.run(
        [sys.executable, "-m", "framework", "check"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "check: ok, 1 consumer," in checked.stdout


def test_the_readme_s_first_handler_does_what_it_looks_like(capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    module: dict[str, Any] = {"__name__": "orders"}
    exec(code, module)

    with Harness(module["bill"]) as desk:
        desk.send("orders", json.dumps({"number": 17, "paid": True}))
        desk.send("orders", json.dumps({"number": 18, "paid": False}))
        desk.sleep("5s")
        assert ["billed 17"] == [line for line in capsys.readouterr().out.splitlines() if line.startswith("billed")]
        group = desk.snapshot().groups[0]
        assert (1, 1) == (group.handled, group.retried)
