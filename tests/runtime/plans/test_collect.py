"""Finding consumers: what APP may be, and what is said when something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.runtime.plans.collect import collect, target
from framework.settings.schema import AppSettings

GOOD = """
from framework import Message, consumer

@consumer("orders", "billing")
def bill(order: Message) -> None: ...

@consumer("orders", "shipping")
def ship(order: Message) -> None: ...
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `shop` in a folder of its own; what it imported is forgotten afterwards."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "orders.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [each for each in sys.modules if each.partition(".")[0] == "shop"]:
        monkeypatch.delitem(sys.modules, name)  # another test's, which was in a folder that is gone
    before = set(sys.modules)
    yield folder
    for name in sorted(set(sys.modules) - before):
        del sys.modules[name]


def settings(handlers: str = "", groups: tuple[str, ...] = ()) -> AppSettings:
    values = {"app": {"handlers": handlers}, "consumers": {group: {} for group in groups}}
    places: dict[tuple[str, ...], str] = {("consumers", group): "f.yaml:9:3" for group in groups}
    places["app", "handlers", "0"] = "f.yaml:2:5"
    made = AppSettings.parsed(values, places)
    assert isinstance(made, AppSettings)
    return made


def found(app: str | None = None, handlers: str = "") -> list[str]:
    return [each.spec.name for each in collect(settings(handlers), app)]


def mistakes(app: str | None = None, handlers: str = "", groups: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigurationMistakes) as caught:
        collect(settings(handlers, groups), app)
    return [str(each) for each in caught.value.mistakes]


@pytest.mark.parametrize("app", ["shop/orders.py", "shop.orders", "shop", "./shop"])
def test_an_app_is_a_file_a_module_or_a_package(app: str) -> None:
    assert ["bill", "ship"] == found(app)


def test_an_app_may_be_one_consumer() -> None:
    assert ["ship"] == found("shop.orders:ship")
    assert ["ship"] == found("shop/orders.py:ship")


def test_a_lone_file_needs_no_package(tmp_path: Path) -> None:
    (tmp_path / "lone.py").write_text(GOOD)

    assert ["bill", "ship"] == found("lone.py")


def test_without_an_app_the_settings_name_the_handlers() -> None:
    assert ["bill", "ship"] == found(handlers="shop.orders")
    assert ["bill", "ship"] == found(handlers="shop.orders, shop")


def test_of_a_package_those_modules_are_taken_that_the_settings_name(shop: Path) -> None:
    (shop / "broken.py").write_text("1 / 0")

    assert ["bill", "ship"] == found("shop", handlers="shop.orders")
    assert 1 == len(mistakes("shop"))


def test_modules_below_modules_are_searched(shop: Path) -> None:
    (shop / "deep").mkdir()
    (shop / "deep" / "__init__.py").write_text("")
    (shop / "deep" / "more.py").write_text(GOOD.replace("orders", "stock"))
    (shop / "__main__.py").write_text("raise SystemExit('not to be imported')")

    assert ["bill", "ship", "bill", "ship"] == found("shop")


def test_a_consumer_that_was_imported_from_elsewhere_counts_once(shop: Path) -> None:
    (shop / "again.py").write_text("from shop.orders import bill, ship\n")

    assert ["bill", "ship"] == found("shop")


def test_a_consumer_is_found_where_it_was_declared_whatever_its_function_is(shop: Path) -> None:
    (shop / "functions.py").write_text("def store(shelf, order): ...\n\ndef note(order): ...\n")
    (shop / "declared.py").write_text(
        "from functools import partial\n"
        "from framework import consumer\n"
        "from shop.functions import note, store\n"
        'noted = consumer("orders", "notes")(note)\n'
        'stored = consumer("orders", "stores", name="stored")(partial(store, "left"))\n'
    )
    (shop / "again.py").write_text("from shop.declared import noted, stored\n")

    assert ["note", "stored"] == found("shop.declared")
    assert ["note", "stored", "bill", "ship"] == found("shop")


def test_two_consumers_of_one_topic_and_group_are_refused_with_both_places(shop: Path) -> None:
    (shop / "twice.py").write_text(GOOD.replace("def ", "def other_"))

    first, second = mistakes("shop")
    assert first.startswith(
        f"{shop}/twice.py:4: consumer 'other_bill': topic 'orders' in group 'billing' already has a consumer"
    )
    assert f"'bill' at {shop}/orders.py:4" in first
    assert "'shipping'" in second


def test_settings_for_a_group_that_nobody_is_in_are_refused() -> None:
    (mistake,) = mistakes("shop", groups=("billing", "bilinng"))

    assert "f.yaml:9:3: consumers.bilinng: no consumer is in this group; did you mean 'billing'?" == mistake


@pytest.mark.parametrize(
    ("app", "reason"),
    [
        ("shop.ordrs", "there is no module 'shop.ordrs'; did you mean 'shop.orders'?"),
        ("shpo", "there is no module 'shpo'; did you mean 'shop'?"),
        ("shop/ordrs.py", "there is no file shop/ordrs.py; did you mean 'orders.py'?"),
        ("shop.orders:bil", "shop.orders:bil: there is no such name; did you mean 'bill'?"),
        ("shop.orders:Message", "is not a consumer; consumers there: bill, ship"),
        ("os:system", "os:system: <built-in function system> is not a consumer"),
        ("builtins:exec", "is not a consumer"),
        ("shop orders", "write a .py file, a module such as shop.orders, or module:name"),
        ("", "write a .py file"),
        ("json", "there is no consumer in json; mark a function with @consumer(topic, group)"),
    ],
)
def test_a_wrong_app_is_named_with_what_might_be_meant(app: str, reason: str) -> None:
    (mistake,) = mistakes(app)

    assert reason in mistake


def test_nothing_named_at_all_is_a_mistake() -> None:
    (mistake,) = mistakes()

    assert "neither APP nor app.handlers names a module" in mistake


def test_a_wrong_name_in_the_settings_has_its_line() -> None:
    (mistake,) = mistakes(handlers="shop.ordrs")

    assert mistake.startswith("f.yaml:2:5: there is no module 'shop.ordrs'")


@pytest.mark.parametrize(
    ("code", "line", "reason"),
    [
        ("import json\nimport no_such_thing", 2, "no module named 'no_such_thing'"),
        ("x = (", 1, "'(' was never closed"),
        ("def f():\n    return 1 / 0\n\nf()", 2, "ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')", 2, "JSONDecodeError"),
        ("import sys\n\nsys.exit(3)", 3, "SystemExit: 3"),
        ("from framework import consumer\n\n@consumer('t', grup='g')\ndef f(m): ...", 3, "did you mean 'group'?"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_users_line(
    shop: Path, code: str, line: int, reason: str
) -> None:
    (shop / "orders.py").write_text(dedent(code))

    (mistake,) = mistakes("shop.orders")
    assert mistake.startswith(f"{shop}/orders.py:{line}: ")
    assert reason in mistake
    assert "\n" not in mistake


def test_every_broken_module_of_a_package_is_said(shop: Path) -> None:
    (shop / "a.py").write_text("1 / 0")
    (shop / "b.py").write_text("import gone")

    assert 2 == len(mistakes("shop"))


def test_the_folder_of_a_package_is_where_its_settings_may_be(shop: Path) -> None:
    assert shop == target("shop").folder
    assert None is target("shop.orders").folder
    assert None is target("shop/orders.py").folder


def test_naming_an_app_imports_nothing_of_it(shop: Path) -> None:
    (shop / "orders.py").write_text("raise AssertionError")
    (shop / "__init__.py").write_text("raise AssertionError")

    assert shop == target("shop").folder
    assert None is target("shop.orders").folder
    assert "shop.orders" == target("shop/orders.py").module
    with pytest.raises(ConfigurationError):
        target("shop/gone.py")


def test_a_group_is_orderly_or_concurrent(shop: Path) -> None:
    """Both places are named: the one that is wrong is the author's choice."""
    (shop / "orders.py").write_text(
        dedent("""
            from framework import Message, consumer

            @consumer("stock", "inventory", orderly=True)
            def move(step: Message) -> None: ...

            @consumer("returns", "inventory")
            def take_back(step: Message) -> None: ...
        """)
    )

    (message,) = mistakes("shop.orders")
    assert "group 'inventory' is orderly for 'move' (" in message
    assert "and concurrent for 'take_back' (" in message
    assert message.count("orders.py:") >= 2
