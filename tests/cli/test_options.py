"""From a command line to settings, consumers and the options of child processes."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from framework.cli import main, options
from framework.cli.commands import run
from framework.errors import ConfigurationError
from framework.settings.sources import CONFIG_VARIABLE


def parsed(*arguments: str) -> argparse.Namespace:
    parser = main.CommandParser()
    parser.add_argument("--debug", action="store_true")
    run.add_options(parser)
    return parser.parse_args(main._joined(list(arguments)))


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("arguments", "idle", "app"),
    [
        (["--until-idle"], "2s", None),
        (["--until-idle", "shop"], "2s", "shop"),
        (["--until-idle", "5s", "shop"], "5s", "shop"),
        (["shop", "--until-idle", "--json"], "2s", "shop"),
        (["--until-idle=1m", "shop"], "1m", "shop"),
        (["shop"], None, "shop"),
    ],
)
def test_the_value_of_until_idle_may_be_left_out(arguments: list[str], idle: str | None, app: str | None) -> None:
    found = parsed(*arguments)

    assert (idle, app) == (found.until_idle, found.app)


def test_options_win_over_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "framework-app.yaml").write_text("cluster: {name_servers: ['a:1']}\napp: {name: file}\n")
    monkeypatch.setenv("FRAMEWORK_APP__APP__NAME", "variable")

    found = options.loaded(
        parsed("--name-server", "b:2,c:3", "--wait-broker", "30s", "--set", "app.drain=5s", "--debug")
    )

    settings = found.settings
    assert Path("framework-app.yaml") == found.file
    assert ("b:2", "c:3") == settings.cluster.name_servers
    assert (30_000, 5_000, "variable", "debug") == (
        settings.cluster.wait_broker, settings.app.drain, settings.app.name, settings.logging.level,
    )  # fmt: skip


def test_a_wrong_name_server_is_named_with_its_option() -> None:
    with pytest.raises(ConfigurationError, match=r"--name-server: .*'nowhere' is not an address"):
        options.loaded(parsed("--name-server", "nowhere"))


def test_a_child_gets_what_it_needs_and_reads_it_as_it_was_meant() -> None:
    arguments = parsed(
        "shop", "-c", "a.yaml", "--overlay", "b.yaml", "--overlay", "c.yaml", "--set", "a.b=c", "--only", "billing",
        "--name-server", "a:1", "--wait-broker", "30s", "--until-idle", "--workers", "4", "--reload", "--for", "1h",
        "--debug",
    )  # fmt: skip

    child = parsed(*options.for_child(arguments, is_json=True))

    assert ("shop", "a.yaml", ["b.yaml", "c.yaml"], ["a.b=c"], ["billing"], "a:1", "30s", "2s") == (
        child.app, child.config, child.overlay, child.sets, child.only, child.name_server, child.wait_broker,
        child.until_idle,
    )  # fmt: skip
    assert (True, True, True) == (child.child, child.json, child.debug)
    # The parent's own affairs.
    assert (1, False, None) == (child.workers, child.reload, child.length)


def test_a_child_of_nothing_gets_nothing() -> None:
    assert ["--child"] == options.for_child(parsed(), is_json=False)


def test_only_chooses_groups(tmp_path: Path) -> None:
    (tmp_path / "only_shop.py").write_text(
        "from framework import consumer\n"
        "@consumer('t', 'billing')\ndef a(m): ...\n"
        "@consumer('t', 'shipping')\ndef b(m): ...\n"
    )
    arguments = parsed("only_shop.py", "--only", "shipping")
    settings = options.loaded(arguments).settings

    consumers, elsewhere = options.chosen(arguments, settings)
    assert (["b"], frozenset({"billing"})) == ([each.spec.name for each in consumers], elsewhere)

    with pytest.raises(
        ConfigurationError, match="--only shiping: no consumer is in this group; did you mean 'shipping'"
    ):
        options.chosen(parsed("only_shop.py", "--only", "shiping"), settings)
