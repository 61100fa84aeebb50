"""The mistakes that everybody makes once: what a user sees of each, to the letter.

At most six lines, the cause first, the way out in it, an id at the end. Folders, addresses and times differ by the
run and are left out; nothing else is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.cli.processes import ROOT

SHOP = """\
from framework import consumer


@consumer("orders", "billing")
def bill(order: dict) -> None: ...
"""
TWICE = SHOP + '\n\n@consumer("orders", "billing")\ndef again(order: dict) -> None: ...\n'
DATABASE = """\
from framework import consumer, resource


class Database: ...


@resource
def database() -> Database:
    return Database()


@consumer("orders", "billing")
def bill(order: dict, databse: Database) -> None: ...
"""
IN_A_CLASS = """\
from framework import consumer


class Desk:
    @consumer("orders", "billing")
    def bill(self, order: dict) -> None: ...
"""
NINE = """\
app: {handlers: [shop], drain: soon, nmae: desk}
cluster:
  name_servers: localhost
  tls: {enabled: maybe}
consumers:
  billing: {concurrency: many, max_retry: 3, allocation: avering}
  biling: {timeout: 3s}
plugins: {settings: {audti: {file: audit.jsonl}}}
"""


KEYS = "cluster:\n  credentials: {access_key: a, secret_key: '${env:SHOP_KEY_MISSING}'}\n"


class Mistake(NamedTuple):
    name: str
    files: dict[str, str]
    arguments: tuple[str, ...]
    text: str
    """What is said of it, in one line; then comes the hint."""
    id: str


def said(folder: Path, *arguments: str) -> tuple[int, list[str], list[str]]:
    """How `framework-app ARGUMENTS` ended there, as a process: code, lines on stderr above level info, on stdout."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "framework", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, above_info(done.stderr, folder), [plain(line, folder) for line in done.stdout.splitlines()]


def above_info(text: str, folder: Path) -> list[str]:
    return [plain(line, folder) for line in text.splitlines() if "[info " not in line]


def plain(line: str, folder: Path) -> str:
    """The line without what differs by the run."""
    line = line.replace(f"{folder}/", "")
    line = re.sub(r"^[\dT:.-]+Z ", "", line)
    return re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", re.sub(r"  +", " ", line))


MISTAKES: list[Mistake] = [
    Mistake(
        "no such file",
        {"shop.py": SHOP},
        ("shp.py",),
        "APP 'shp.py': there is no file shp.py; did you mean 'shop.py'?",
        "FA-H001",
    ),
    Mistake(
        "no such module",
        {"shop.py": SHOP},
        ("shopp",),
        "there is no module 'shopp'; did you mean 'shop'?",
        "FA-H001",
    ),
    Mistake(
        "bad import",
        {"shop.py": "import reqests\n" + SHOP},
        ("shop.py",),
        "shop.py:1: importing shop: no module named 'reqests'; install it, or correct the name",
        "FA-H003",
    ),
    Mistake(
        "syntax error",
        {"shop.py": SHOP.replace("None: ...", "None ...")},
        ("shop.py",),
        "shop.py:5: importing shop: expected ':' in 'def bill(order: dict) -> None ...'; correct it",
        "FA-H002",
    ),
    Mistake(
        "missing colon",
        {"shop.py": SHOP, "framework-app.yaml": "app:\n  name: desk\n  drain 3s\n"},
        ("shop.py",),
        "framework-app.yaml:3:3: not YAML: this key has no ':' after it; write key: value",
        "FA-S003",
    ),
    Mistake(
        "missing colon in the only line",
        {"shop.py": SHOP, "framework-app.yaml": "cluster:\n  name_servers localhost\n"},
        ("shop.py",),
        "framework-app.yaml:1:1: cluster: expected keys and values, with a ':' behind each key, found "
        "'name_servers localhost'",
        "FA-S002",
    ),
    Mistake(
        "wrong key",
        {"shop.py": SHOP, "framework-app.yaml": "consumers:\n  billing:\n    max_retry: 3\n"},
        ("shop.py",),
        "framework-app.yaml:3:5: unknown key 'max_retry' in consumers.billing; did you mean 'max_retries'?",
        "FA-S001",
    ),
    Mistake(
        "wrong type",
        {"shop.py": SHOP, "framework-app.yaml": "consumers: {billing: {concurrency: many}}\n"},
        ("shop.py",),
        "framework-app.yaml:1:23: consumers.billing.concurrency: expected a whole number, found 'many'",
        "FA-S002",
    ),
    Mistake(
        "group clash",
        {"shop.py": TWICE},
        ("shop.py",),
        "shop.py:8: consumer 'again': topic 'orders' in group 'billing' already has a consumer, 'bill' "
        "at shop.py:4; give one of them a group of its own",
        "FA-H011",
    ),
    Mistake(
        "unknown plugin",
        {"shop.py": SHOP, "framework-app.yaml": "plugins: {block: [audti]}\n"},
        ("shop.py",),
        "framework-app.yaml:1:19: plugins.block: no plugin 'audti' is installed; did you mean 'audit'?",
        "FA-P002",
    ),
    Mistake(
        "missing variable",
        {"shop.py": SHOP, "framework-app.yaml": KEYS},
        ("shop.py",),
        "framework-app.yaml:2:32: cluster.credentials.secret_key: the environment variable "
        "SHOP_KEY_MISSING is not set; set it before the start",
        "FA-S004",
    ),
    Mistake(
        "wrong resource",
        {"shop.py": DATABASE},
        ("shop.py",),
        "shop.py:12: consumer 'bill': parameter 'databse': no resource has this name, and no body becomes a "
        "'Database'; did you mean 'database'?",
        "FA-H008",
    ),
    Mistake(
        "wrong return annotation",
        {"shop.py": SHOP.replace("None: ...", "bool: ...")},
        ("shop.py",),
        "shop.py:4: consumer 'bill': returns bool, but False would count as handled; raise or return "
        'RetryLater("30s") to retry, and annotate -> RetryLater | None',
        "FA-H010",
    ),
    Mistake(
        "a class as the answer",
        {"shop.py": SHOP.replace("None: ...", '"type[OSError] | None": ...')},
        ("shop.py",),
        "shop.py:4: consumer 'bill': returns the class OSError, which fails; raise OSError(...)",
        "FA-H010",
    ),
    Mistake(
        "the settings file as APP",
        {"shop.py": SHOP, "shop.yaml": "app: {name: desk}\n"},
        ("shop.yaml",),
        "APP 'shop.yaml': this is a settings file; write --config shop.yaml",
        "FA-H001",
    ),
    Mistake(
        "a notebook",
        {"shop.ipynb": "{}"},
        ("shop.ipynb",),
        "APP 'shop.ipynb': write a .py file, a module such as shop.orders, or module:name",
        "FA-H001",
    ),
    Mistake(
        "the settings file's other ending",
        {"shop.py": SHOP, "framework-app.yml": "app: {name: desk}\n"},
        ("shop.py",),
        "framework-app.yml is not read; call it framework-app.yaml, or write --config framework-app.yml",
        "FA-S005",
    ),
    Mistake(
        "the package's other name",
        {"shop.py": SHOP.replace("from framework", "from framework_app")},
        ("shop.py",),
        "shop.py:1: importing shop: no module named 'framework_app'; write: from framework import ...",
        "FA-H003",
    ),
    Mistake(
        "a method",
        {"shop.py": IN_A_CLASS},
        ("shop.py",),
        "shop.py:5: consumer 'bill': parameter 'self': handlers are functions; write it outside of the class",
        "FA-H009",
    ),
    Mistake(
        "a class",
        {"shop.py": SHOP.replace("def bill(order: dict) -> None", "class Bill")},
        ("shop.py",),
        "shop.py:4: consumer 'Bill': <class 'shop.Bill'> is not a function; write @consumer(topic=\"orders\", "
        'group="billing") above a function',
        "FA-H005",
    ),
    Mistake(
        "no parentheses",
        {"shop.py": SHOP.replace('("orders", "billing")', "")},
        ("shop.py",),
        'shop.py:4: @consumer without topic and group; write @consumer(topic="orders", group="billing")',
        "FA-H005",
    ),
    Mistake(
        "a number of retries in the code",
        {"shop.py": SHOP.replace('"billing"', '"billing", retry=3')},
        ("shop.py",),
        "shop.py:4: consumer 'bill': retry=3: write retry=Retry(max=5, ...), from framework",
        "FA-H005",
    ),
    Mistake(
        "a bracket that is not closed",
        {"shop.py": SHOP, "framework-app.yaml": "app: {name: desk\n"},
        ("shop.py",),
        "framework-app.yaml:1:6: not YAML: this { is not closed",
        "FA-S003",
    ),
    Mistake(
        "a quotation mark that is not closed",
        {"shop.py": SHOP, "framework-app.yaml": "app:\n  name: 'desk\n"},
        ("shop.py",),
        "framework-app.yaml:2:9: not YAML: this ' is not closed",
        "FA-S003",
    ),
    Mistake(
        "no unit",
        {"shop.py": SHOP, "framework-app.yaml": "app: {drain: 30}\n"},
        ("shop.py",),
        "framework-app.yaml:1:7: app.drain: 30 of what? Write a unit: 30s, 30ms or 30m",
        "FA-S002",
    ),
    Mistake(
        "out of range",
        {"shop.py": SHOP, "framework-app.yaml": "consumers: {billing: {concurrency: 0}}\n"},
        ("shop.py",),
        "framework-app.yaml:1:23: consumers.billing.concurrency: expected at least 1, found '0'",
        "FA-S002",
    ),
    Mistake(
        "an empty list",
        {"shop.py": SHOP, "framework-app.yaml": "cluster: {name_servers: []}\n"},
        ("shop.py",),
        "framework-app.yaml:1:11: cluster.name_servers: expected at least one, found an empty list",
        "FA-S002",
    ),
    Mistake(
        "empty folder",
        {},
        (),
        "there is no consumer: neither APP nor app.handlers names a module; name a file behind the command, such as "
        "orders.py, or start with `framework-app new app order_desk`",
        "FA-H004",
    ),
]


def in_folder(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_what_is_wrong_before_the_start_is_a_line_with_the_way_out(
    mistake: Mistake, at_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_folder(at_home, mistake.files)

    assert ExitCode.CONFIGURATION == main.run(["run", *mistake.arguments])
    lines = above_info(capsys.readouterr().err, at_home)
    assert [f"error: {mistake.text} [{mistake.id}]", f"hint: framework-app explain {mistake.id}"] == lines


def test_a_file_with_the_name_of_another_module_is_no_riddle_to_a_child_either(tmp_path: Path) -> None:
    """Of `python -m` this folder is the first place where Python looks for its own modules."""
    folder = in_folder(tmp_path, {"queue.py": SHOP})

    code, lines, _ = said(folder, "dev", "queue.py", "--until-idle", "1s")
    assert ExitCode.CONFIGURATION == code
    text = "APP 'queue.py': Python has a module 'queue' already; choose another name"
    assert [f"error: {text} [FA-H001]", "hint: framework-app explain FA-H001"] == lines


@pytest.mark.parametrize("command", ["run", "dev"])
def test_a_file_that_hides_a_module_of_python_is_named(command: str, tmp_path: Path) -> None:
    """It lies beside the handlers, and whoever imports Python's module next gets it."""
    folder = in_folder(tmp_path, {"shop.py": SHOP, "queue.py": "waiting: list[str] = []\n"})

    code, lines, _ = said(folder, command, "shop.py")
    assert ExitCode.CONFIGURATION == code
    text = "queue.py: Python has a module 'queue' already, and this file hides it; rename it"
    assert [f"error: {text} [FA-H001]", "hint: framework-app explain FA-H001"] == lines


@pytest.mark.parametrize("name", ["queue", "json", "framework", "pydantic"])
def test_a_file_with_the_name_of_another_module(name: str, at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Python's, ours, or an installed one. Python would import that one, and find no consumer in it."""
    in_folder(at_home, {f"{name}.py": SHOP})

    assert ExitCode.CONFIGURATION == main.run(["check", f"{name}.py"])
    said = f"APP '{name}.py': Python has a module '{name}' already; choose another name [FA-H001]"
    assert [said, "check: 1 mistake"] == capsys.readouterr().out.splitlines()


def test_dev_says_what_run_says_and_check_has_it_as_its_result(tmp_path: Path) -> None:
    """Each as a process. A child of `dev` writes JSON for its parent, and its errors for people."""
    mistake = next(each for each in MISTAKES if each.name == "syntax error")
    folder, hint = in_folder(tmp_path, mistake.files), f"hint: framework-app explain {mistake.id}"

    code, lines, _ = said(folder, "run", *mistake.arguments)
    assert (ExitCode.CONFIGURATION, [f"error: {mistake.text} [{mistake.id}]", hint]) == (code, lines)
    code, lines, _ = said(folder, "dev", *mistake.arguments, "--until-idle", "1s")  # else it waits for a change
    assert (ExitCode.CONFIGURATION, [f"error: {mistake.text} [{mistake.id}]", hint]) == (code, lines)
    code, lines, shown = said(folder, "check", *mistake.arguments)
    assert (ExitCode.CONFIGURATION, [hint]) == (code, lines)
    assert [f"{mistake.text} [{mistake.id}]", "check: 1 mistake"] == shown


def test_nine_mistakes_are_nine_lines_at_once(at_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings, handlers and plugins together: a start that says one at a time is repeated nine times."""
    in_folder(at_home, {"shop.py": SHOP, "framework-app.yaml": NINE})

    assert ExitCode.CONFIGURATION == main.run(["run"])
    lines = above_info(capsys.readouterr().err, at_home)
    *nine, hint = [line.removeprefix("error: framework-app.yaml:") for line in lines]
    assert "hint: framework-app explain FA-S002 FA-S001 FA-S008 FA-P002 FA-S010" == hint
    assert [
        "1:25: app.drain: 'soon' is not a duration; write 30s, 15m or 1h30m [FA-S002]",
        "1:38: unknown key 'nmae' in app; did you mean 'name'? [FA-S001]",
        "3:3: cluster.name_servers.0: 'localhost' is not an address; write host:port, such as ADDRESS [FA-S002]",
        "4:9: cluster.tls.enabled: expected true or false, found 'maybe' [FA-S002]",
        "6:13: consumers.billing.concurrency: expected a whole number, found 'many' [FA-S002]",
        "6:32: unknown key 'max_retry' in consumers.billing; did you mean 'max_retries'? [FA-S001]",
        "7:3: consumers.biling: no consumer is in this group; did you mean 'billing'? [FA-S008]",
        "8:22: plugins.settings: no plugin 'audti' is installed; did you mean 'audit'? [FA-P002]",
        "6:46: consumers.billing.allocation: no strategy 'avering'; did you mean 'averaging'? [FA-S010]",
    ] == nine


def test_a_wrong_option_is_a_line_and_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.USAGE == main.run(["run", "shop.py", "--worker", "3"])
    (line,) = capsys.readouterr().err.splitlines()
    what = "there is no option '--worker'; did you mean '--workers'?"
    assert f"framework-app run: {what}; see framework-app run --help [FA-U001]" == line
