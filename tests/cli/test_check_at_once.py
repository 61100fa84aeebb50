"""`check` says everything at once: no mistake hides another, whatever kind the two are of."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from framework.cli import main
from framework.cli.exit_codes import ExitCode

Capture = pytest.CaptureFixture[str]

SHOP = """\
from framework import consumer, publishes, resource

@consumer("orders", "billing", codec="avor")
def bill(order: dict): ...

@consumer("orders", "shipping", tgas="paid", retires=3, once="soon")
def ship(order): ...

@consumer("or ders", "returns", batch=-1)
@publishes("in voices")
def take_back(order): ...

@consumer("orders", "stock", orderly=True)
def store(order): ...

@consumer("orders", "stock", orderly=True)
def store_again(order): ...

@consumer("clicks", "revenue", engine="left")
def count(clicks): ...

@consumer("views", "revenue", engine="right")
def count_views(views): ...

@consumer("taps", "taps", engine="lefft")
def tap(taps): ...

@consumer("drums", "drums", engine="loud")
def drum(beats): ...

@resource(scpoe="app")
def ledger(): ...

@consumer("books", "books")
def book(order: dict, ledger): ...
"""
ENGINES = """\
from framework.hooks import hookimpl

class Engine:
    def prepared(self, function, name, group): return function
    def takes(self, group): return group == "revenue"
    def taken(self, taking): raise AssertionError("nobody is asked for what cannot be")

class Loud(Engine):
    def prepared(self, function, name, group): raise OSError("no such drum")

class Plugin:
    @hookimpl
    def register_runners(self): return {"left": Engine(), "right": Engine(), "loud": Loud()}
"""
SETTINGS = """\
app:
  drain: soon
cluster:
  tls: {enabled: true, ca_file: missing.pem}
consumers:
  billing:
    allocation: avering
    expiry: send_bakc
    progress: topci
    concurency: 3
  bilinng: {}
  stock:
    timeout: 3s
    allocation: {averaging: {odd: 1}}
  revenue: {paused: true}
plugins:
  local: [all_wrong_engines, no_such_module]
  settings: {audti: {}, audit: {flush_lines: 0}}
"""
WANTED = """\
framework-app.yaml:2 app.drain:
framework-app.yaml:10 unknown key 'concurency' in consumers.billing; did you mean 'concurrency'?
framework-app.yaml:4 cluster.tls.ca_file 'missing.pem': no such file
all_wrong.py:6 consumer 'ship': unknown option 'tgas'; did you mean 'tags'?
all_wrong.py:6 consumer 'ship': unknown option 'retires'; did you mean 'retry'?
all_wrong.py:6 consumer 'ship': once:
all_wrong.py:9 @publishes: topic 'in voices'
all_wrong.py:9 consumer 'take_back': topic 'or ders'
all_wrong.py:9 consumer 'take_back': batch=-1
all_wrong.py:16 consumer 'store_again': topic 'orders' in group 'stock' already has a consumer, 'store' at
all_wrong.py:31 resource 'ledger': unknown option 'scpoe'; did you mean 'scope'?
framework-app.yaml:11 consumers.bilinng: no consumer is in this group; did you mean 'billing'?
framework-app.yaml:18 plugins.settings: no plugin 'audti' is installed; did you mean 'audit'?
framework-app.yaml:18 plugins.settings.audit.flush_lines: expected
framework-app.yaml:17 plugin 'no_such_module' (no_such_module) cannot be loaded
all_wrong.py:3 consumer 'bill': no codec 'avor'
all_wrong.py:25 consumer 'tap': no engine 'lefft'; did you mean 'left'?
all_wrong.py:28 consumer 'drum': engine 'loud': prepared() failed: OSError: no such drum
framework-app.yaml:7 consumers.billing.allocation: no strategy 'avering'; did you mean 'averaging'?
framework-app.yaml:8 consumers.billing.expiry: no expiry policy 'send_bakc'; did you mean 'send_back'?
framework-app.yaml:9 consumers.billing.progress: no store 'topci'; did you mean 'topic'?
framework-app.yaml:13 consumers.stock.timeout: not for orderly groups
framework-app.yaml:14 consumers.stock.allocation
all_wrong.py:22 group 'revenue': the engine 'left' consumes the whole group with one handler, count
all_wrong.py:19 group 'revenue': the engine 'right' consumes the whole group with one handler, count_views
framework-app.yaml:15 consumers.revenue.paused: the engine 'left' consumes this group
framework-app.yaml:15 consumers.revenue.paused: the engine 'right' consumes this group
"""


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "all_wrong.py").write_text(SHOP)
    (tmp_path / "all_wrong_engines.py").write_text(ENGINES)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("all_wrong", "all_wrong_engines"):
        sys.modules.pop(name, None)
    structlog.reset_defaults()


def said(output: str) -> list[str]:
    """The mistakes without folders and columns, so that they can be listed."""
    return [re.sub(r"^(?:\S*/)?([\w-]+\.(?:py|yaml):\d+)(?::\d+)?: ", r"\1 ", line) for line in output.splitlines()]


def test_every_mistake_of_every_kind_is_said_in_one_go_with_file_and_line(capsys: Capture) -> None:
    assert ExitCode.CONFIGURATION == main.run(["check", "all_wrong.py"])

    *mistakes, last = said(capsys.readouterr().out)
    wanted = WANTED.splitlines()
    missing = [each for each in wanted if not any(mistake.startswith(each) for mistake in mistakes)]
    strange = [mistake for mistake in mistakes if not any(mistake.startswith(each) for each in wanted)]
    assert ([], []) == (missing, strange)
    assert f"check: {len(wanted)} mistakes" == last


def test_they_are_said_again_the_second_time_in_one_process(capsys: Capture) -> None:
    """The module stays imported: what stood in its handlers' places still tells what is wrong with them."""
    first, second = ([main.run(["check", "all_wrong.py"]), capsys.readouterr().out] for _ in range(2))
    assert sorted(str(first[1]).splitlines()) == sorted(str(second[1]).splitlines())


def test_a_start_says_them_as_well(capsys: Capture) -> None:
    """All that `check` finds: settings, handlers and plugins."""
    Path("framework-app.yaml").write_text("consumers: {bilinng: {}}\n")

    assert ExitCode.CONFIGURATION == main.run(["run", "all_wrong.py"])
    lines = capsys.readouterr().err.splitlines()
    assert 14 == sum("all_wrong.py:" in line or "bilinng" in line for line in lines)


def test_one_that_is_mended_leaves_the_others(capsys: Capture) -> None:
    """What is said does not hang on what else is wrong."""
    main.run(["check", "all_wrong.py"])
    before = said(capsys.readouterr().out)
    Path("framework-app.yaml").write_text(SETTINGS.replace("drain: soon", "drain: 3s"))
    main.run(["check", "all_wrong.py"])
    after = said(capsys.readouterr().out)

    gone = [line for line in before[:-1] if line not in after]
    assert 1 == len(gone)
    assert gone[0].startswith("framework-app.yaml:2 app.drain:")


def test_a_file_that_is_no_yaml_does_not_hide_what_is_wrong_in_the_code(capsys: Capture) -> None:
    Path("framework-app.yaml").write_text("consumers: {billing: [\n")

    assert ExitCode.CONFIGURATION == main.run(["check", "all_wrong.py"])
    output = capsys.readouterr().out
    assert "framework-app.yaml" in output
    assert "unknown option 'tgas'" in output
    assert "no consumer is in this group" not in output


PRESS = """
from pydantic import BaseModel
from framework import consumer
from framework.hooks import hookimpl

class Settings(BaseModel):
    sheets: int = 1
    ink: str = "black"

class Engine:
    def __init__(self, settings): self.ink = settings.ink
    def prepared(self, function, name, group):
        assert self.ink == "red"  # what is right in the settings is there
        return function

class Press:
    def __init__(self, settings): self.settings = settings
    @staticmethod
    @hookimpl
    def register_settings(): return Settings
    @hookimpl
    def register_runners(self): return {"press": Engine(self.settings)}

@consumer("pages", group="printing", engine="press", batch=10)
def print_them(batch): pass
"""


def test_what_a_plugin_with_a_wrong_setting_offers_is_not_missing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "press_shop.py").write_text(PRESS)
    (tmp_path / "framework-app.yaml").write_text(
        "plugins:\n  local: ['press_shop:Press']\n  settings:\n    press_shop: {sheets: many, ink: red}\n"
    )

    assert ExitCode.CONFIGURATION == main.run(["check", "press_shop.py"])

    *mistakes, _ = said(capsys.readouterr().out)
    assert [
        "framework-app.yaml:4 plugins.settings.press_shop.sheets: expected a whole number, found 'many' [FA-S002]"
    ] == mistakes


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_condition_that_is_wrong_is_said_without_a_broker(command: str, tmp_path: Path, capsys: Capture) -> None:
    """A broker would say it at the first pull, when the application has started."""
    handler = "from framework import consumer\n\n@consumer('orders', 'billing', sql='{}')\ndef bill(order: dict): ...\n"
    (tmp_path / "framework-app.yaml").write_text("cluster: {name_servers: ['127.0.0.1:1']}\n")
    (tmp_path / "picky_shop.py").write_text(handler.format("price >> 10"))

    assert ExitCode.CONFIGURATION == main.run([command, "picky_shop.py"])

    wrong = "picky_shop.py:3: consumer 'bill': SQL92 filter, character 8: expected a property, a number or a text"
    assert wrong in "".join(capsys.readouterr())
