"""The mistakes beside the usual ones (`test_usual_mistakes.py`), as `check` says each of them, to the letter.

In this process, which is quicker: what `run` makes of the same errors is shown there.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.cli.test_usual_mistakes import SHOP, plain

Capture = pytest.CaptureFixture[str]


class Neighbour(NamedTuple):
    name: str
    text: str
    """What is said of it, with its id."""
    handlers: str | bytes = SHOP
    settings: str | bytes = ""
    words: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Name and value, in turns."""
    more: tuple[str, str | bytes] = ("notes.txt", "")


def declared(before: str, after: str) -> str:
    assert before in SHOP
    return SHOP.replace(before, after)


NEIGHBOURS: list[Neighbour] = [
    Neighbour(
        "no group",
        ('shop.py:4: consumer \'bill\': group is missing; write @consumer(topic="orders", group="billing") [FA-H005]'),
        handlers=declared('("orders", "billing")', '("orders")'),
    ),
    Neighbour(
        "an empty topic",
        "shop.py:4: consumer 'bill': topic '': use 1 to 127 of the characters A-Z a-z 0-9 _ - % | [FA-H014]",
        handlers=declared('"orders"', '""'),
    ),
    Neighbour(
        "several topics in one",
        (
            "shop.py:4: consumer 'bill': topic is ['orders', 'refunds']; write @consumer(topic=\"orders\", "
            'group="billing") [FA-H005]'
        ),
        handlers=declared('"orders"', '["orders", "refunds"]'),
    ),
    Neighbour(
        "a group with a slash",
        (
            "shop.py:4: consumer 'bill': group 'billing/eu': use 1 to 120 of the characters A-Z a-z 0-9 _ - "
            "% | [FA-H014]"
        ),
        handlers=declared("billing", "billing/eu"),
    ),
    Neighbour(
        "a topic with a space",
        (
            "shop.py:4: consumer 'bill': topic '100% orders': use 1 to 127 of the characters A-Z a-z 0-9 _ -"
            " % | [FA-H014]"
        ),
        handlers=declared("orders", "100% orders"),
    ),
    Neighbour(
        "one group of two kinds",
        (
            "shop.py:4: group 'billing' is orderly for 'again' (shop.py:8) and concurrent for 'bill' "
            "(shop.py:4); a group must be one of both; give one consumer its own group [FA-H011]"
        ),
        handlers=SHOP + '\n\n@consumer("refunds", "billing", orderly=True)\ndef again(order: dict) -> None: ...\n',
    ),
    Neighbour(
        "no parameter",
        (
            "shop.py:4: consumer 'bill': has no parameter for the message; a handler gets the body (bytes, "
            "str, dict, list, a pydantic model, dataclass, TypedDict or msgspec struct), a Message, a "
            "Delivery or the App [FA-H009]"
        ),
        handlers=declared("order: dict", ""),
    ),
    Neighbour(
        "a generator",
        "shop.py:4: consumer 'bill': handlers must not be generators; use return [FA-H005]",
        handlers=declared("None: ...", "None:\n    yield 1"),
    ),
    Neighbour(
        "a type that is not imported",
        "shop.py:5: importing shop: NameError: name 'Order' is not defined; correct it [FA-H003]",
        handlers=declared("order: dict", "order: Order"),
    ),
    Neighbour(
        "a type for type checkers alone",
        (
            "shop.py:5: consumer 'bill': parameter 'order' is annotated 'Order', which is not known where "
            "the handler is declared (name 'Order' is not defined); define or import it above the handler, "
            "and not under TYPE_CHECKING [FA-H009]"
        ),
        handlers="from __future__ import annotations\n" + declared("order: dict", "order: Order"),
    ),
    Neighbour(
        "a scope that there is not",
        "shop.py:4: resource 'desk': scope='call': write \"app\" or \"message\" [FA-H008]",
        handlers='from framework import resource\n\n\n@resource(scope="call")\ndef desk() -> int:\n    return 1\n\n\n'
        + SHOP,
    ),
    Neighbour(
        "the end of the program",
        (
            "shop.py:3: importing shop: SystemExit: 3; an import must not end the program: write this below "
            '`if __name__ == "__main__":` [FA-H003]'
        ),
        handlers="import sys\n\nsys.exit(3)\n" + SHOP,
    ),
    Neighbour(
        "a signal of its own",
        "shop.py:1: importing shop: KeyboardInterrupt; correct it [FA-H003]",
        handlers="raise KeyboardInterrupt\n" + SHOP,
    ),
    Neighbour(
        "a null byte",
        "shop.py: importing shop: source code string cannot contain null bytes; correct it [FA-H002]",
        handlers=SHOP.encode() + b"\0",
    ),
    Neighbour(
        "a text that is not UTF-8",
        (
            "shop.py:6: importing shop: (unicode error) 'utf-8' codec can't decode byte 0xe9 in position 3: "
            "unexpected end of data in 'NAME = \"caf�\"'; correct it [FA-H002]"
        ),
        handlers=SHOP.encode() + b'NAME = "caf\xe9"\n',
    ),
    Neighbour(
        "a file with two dots",
        "APP 'orders.new.py': Python imports no file with two dots in its name; rename it [FA-H001]",
        words=("orders.new.py",),
        more=("orders.new.py", SHOP),
    ),
    Neighbour(
        "a module that is elsewhere",
        "there is no module 'desk.orders'; correct the name, or start it in the folder that has the module [FA-H001]",
        words=("desk.orders",),
    ),
    Neighbour(
        "a file that is elsewhere",
        "APP 'desk/orders.py': there is no file desk/orders.py; correct the name [FA-H001]",
        words=("desk/orders.py",),
    ),
    Neighbour("tabs", "framework-app.yaml:2:1: not YAML: a tab; use spaces [FA-S003]", settings="app:\n\tname: desk\n"),
    Neighbour(
        "a key that stands twice",
        "framework-app.yaml:2:1: duplicate key 'app', first in line 1; remove one [FA-S003]",
        settings="app: {name: a}\napp: {name: b}\n",
    ),
    Neighbour(
        "a list of settings",
        "framework-app.yaml:1:1: expected keys and values; write key: value [FA-S003]",
        settings="- a\n- b\n",
    ),
    Neighbour(
        "a tag",
        (
            "framework-app.yaml:1:13: the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed; "
            "settings are plain YAML [FA-S003]"
        ),
        settings="app: {name: !!python/name:os.system x}\n",
    ),
    Neighbour(
        "two colons",
        "framework-app.yaml:1:10: not YAML: a ':' too many; quote the value, or begin a new line [FA-S003]",
        settings="app: name: desk\n",
    ),
    Neighbour(
        "settings that are not UTF-8",
        "framework-app.yaml: byte 15 is not UTF-8; save it as UTF-8 [FA-S005]",
        settings=b"app: {name: caf\xe9}\n",
    ),
    Neighbour(
        "a variable of the wrong type",
        (
            "$FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY: consumers.billing.concurrency: the value of "
            "$FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY does not fit: expected a whole number [FA-S002]"
        ),
        variables=("FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY", "many"),
    ),
    Neighbour(
        "a variable of a key that there is not",
        (
            "$FRAMEWORK_APP__CONSUMER__BILLING__CONCURRENCY: unknown key 'consumer' in the settings; did you"
            " mean 'consumers'? [FA-S001]"
        ),
        variables=("FRAMEWORK_APP__CONSUMER__BILLING__CONCURRENCY", "4"),
    ),
    Neighbour(
        "a variable of a group that there is not",
        (
            "$FRAMEWORK_APP__CONSUMERS__BILING__CONCURRENCY: consumers.biling: no consumer is in this group;"
            " did you mean 'billing'? [FA-S008]"
        ),
        variables=("FRAMEWORK_APP__CONSUMERS__BILING__CONCURRENCY", "4"),
    ),
    Neighbour(
        "--set of a key that there is not",
        (
            "--set consumers.billing.max_retry: unknown key 'max_retry' in consumers.billing; did you mean "
            "'max_retries'? [FA-S001]"
        ),
        words=("--set", "consumers.billing.max_retry=3"),
    ),
    Neighbour(
        "--set of a group that there is not",
        (
            "--set consumers.biling.concurrency: consumers.biling: no consumer is in this group; did you "
            "mean 'billing'? [FA-S008]"
        ),
        words=("--set", "consumers.biling.concurrency=3"),
    ),
    Neighbour(
        "--set without a key",
        "--set 'concurrency': write --set consumers.billing.concurrency=4 [FA-S007]",
        words=("--set", "concurrency"),
    ),
    Neighbour(
        "--set below the least",
        "--set consumers.billing.concurrency: expected at least 1, found '-1' [FA-S002]",
        words=("--set", "consumers.billing.concurrency=-1"),
    ),
    Neighbour(
        "no unit in an option",
        "--set app.drain: 30 of what? Write a unit: 30s, 30ms or 30m [FA-S002]",
        words=("--set", "app.drain=30"),
    ),
    Neighbour(
        "a file that is not there",
        "--config: there is no file 'prd.yaml'; did you mean 'prod.yaml'? [FA-S005]",
        words=("--config", "prd.yaml"),
        more=("prod.yaml", ""),
    ),
    Neighbour(
        "a folder in place of a file",
        "--config: '.' is a folder; name the file in it [FA-S005]",
        words=("--config", "."),
    ),
    Neighbour(
        "an overlay that is not there",
        "prd.yaml: there is no such file; did you mean 'prod.yaml'? [FA-S005]",
        words=("--overlay", "prd.yaml"),
        more=("prod.yaml", ""),
    ),
    Neighbour(
        "a name server without its port",
        (
            "--name-server: cluster.name_servers.0: '10.0.0.5' is not an address; write host:port, such as "
            "ADDRESS [FA-S002]"
        ),
        words=("--name-server", "10.0.0.5"),
    ),
    Neighbour(
        "a port out of range",
        (
            "--name-server: cluster.name_servers.0: '10.0.0.5:99999' is not an address; write host:port, "
            "such as ADDRESS [FA-S002]"
        ),
        words=("--name-server", "10.0.0.5:99999"),
    ),
    Neighbour(
        "an IPv6 address without brackets",
        (
            "--name-server: cluster.name_servers.0: '::1:9876' is not an address; write host:port, such as "
            "[::1]:9876 [FA-S002]"
        ),
        words=("--name-server", "::1:9876"),
    ),
    Neighbour(
        "a plugin that is not there",
        (
            "framework-app.yaml:1:19: plugin 'audti' (audti) cannot be loaded: there is no module 'audti'; "
            "correct plugins.local, or install it [FA-P001]"
        ),
        settings="plugins: {local: [audti]}\n",
    ),
    Neighbour(
        "a plugin that raises",
        (
            "framework-app.yaml:1:19: plugin 'desk_plugin' (desk_plugin) cannot be loaded: KeyError: "
            "'DESK_PLUGIN_MISSING' (desk_plugin.py:3); correct it [FA-P001]"
        ),
        settings="plugins: {local: [desk_plugin]}\n",
        more=("desk_plugin.py", 'import os\n\nos.environ["DESK_PLUGIN_MISSING"]\n'),
    ),
    Neighbour(
        "a plugin without its mark",
        (
            "framework-app.yaml:1:19: plugin 'desk_plugin' (desk_plugin) cannot be loaded: desk_plugin "
            "implements no hook; mark its functions with @hookimpl [FA-P001]"
        ),
        settings="plugins: {local: [desk_plugin]}\n",
        more=("desk_plugin.py", "def before_consume(delivery): ...\n"),
    ),
]


@pytest.mark.parametrize("mistake", NEIGHBOURS, ids=lambda mistake: mistake.name)
def test_a_mistake_beside_the_usual_ones_is_a_line_with_the_way_out(
    mistake: Neighbour, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    files = {"shop.py": mistake.handlers, "framework-app.yaml": mistake.settings, mistake.more[0]: mistake.more[1]}
    for name, content in files.items():
        (at_home / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, value in zip(mistake.variables[::2], mistake.variables[1::2], strict=True):
        monkeypatch.setenv(name, value)
    app = () if mistake.words and not mistake.words[0].startswith("-") else ("shop.py",)

    assert ExitCode.CONFIGURATION == main.run(["check", *app, *mistake.words])
    shown = [plain(line, at_home) for line in capsys.readouterr().out.splitlines()]
    assert [mistake.text, "check: 1 mistake"] == shown
