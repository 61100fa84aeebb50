"""What a harness is given is checked as `framework-app check` checks it: a mistake must not pass as success."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from framework import App, ConfigurationError, Message, consumer
from framework.mistakes import GroupUnknown, NameUnknown, NothingToRun, OptionWrong, UnknownKey, WrongValue
from framework.settings.schema import AppSettings
from framework.settings.sources import load
from framework.testing import Harness


@consumer("orders", "billing")
async def bill(order: Message) -> None: ...


@consumer("orders", "billing")
async def bill_again(order: Message) -> None: ...


def undecorated(order: Message) -> None: ...


class Desk:
    def bill(self, order: Message) -> None: ...


def refused(app: Any = bill, **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        Harness(app, **options)
    return caught.value


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({"consumers": {"biling": {}}}, GroupUnknown, "consumers.biling: no consumer is in this group; did you"),
        ({"consumer": {}}, UnknownKey, "unknown key 'consumer' in the settings; did you mean 'consumers'?"),
        ({"consumers": {"billing": {"max_retires": 1}}}, UnknownKey, "in consumers.billing; did you mean 'max_ret"),
        ({"consumers": {"billing": {"max_retries": "many"}}}, WrongValue, "consumers.billing.max_retries: expected a"),
        ({"consumers": {"billing": 5}}, WrongValue, "consumers.billing"),
        ({"consumers": {"billing": {"expiry": "nope"}}}, NameUnknown, "billing.expiry: no expiry policy 'nope'"),
        ({"consumers": {"billing": {"once_store": "memory"}}}, ConfigurationError, "no handler of this group drops"),
        ({"cluster": {"credentials": {"access_key": "x"}}}, ConfigurationError, "secret_key is missing"),
        ({"plugins": {"only": ["nope"]}}, ConfigurationError, "plugins.only: no plugin 'nope' is installed"),
        ("shop.yaml", ConfigurationError, "settings='shop.yaml': give a dict as in YAML, or AppSettings"),
    ],
)  # fmt: skip
def test_settings_are_checked_with_the_words_of_check(settings: Any, kind: type, said: str) -> None:
    error = refused(settings=settings)

    assert isinstance(error, kind)
    assert said in str(error)
    assert "pydantic" not in str(error)


def test_all_mistakes_are_said_at_once() -> None:
    settings = {"consumers": {"biling": {}, "billing": {"expiry": "nope", "max_retires": 1}}, "loging": {}}

    said = str(refused([bill, bill_again], settings=settings))

    for each in ("'biling'", "'nope'", "'max_retires'", "'loging'", "already has a consumer"):
        assert each.strip("'") in said


def app_with(values: dict[str, Any]) -> App:
    return App(AppSettings.model_validate(values), [bill])


@pytest.mark.parametrize("made", [AppSettings.model_validate, app_with])
def test_settings_and_applications_that_code_made_are_checked_too(made: Callable[[Any], Any]) -> None:
    given = made({"consumers": {"biling": {}}})

    error = refused(given) if isinstance(given, App) else refused(settings=given)
    assert "consumers.biling: no consumer is in this group" in str(error)


def test_a_file_has_the_settings_of_a_whole_application_and_a_test_may_take_one_group(tmp_path: Path) -> None:
    file = tmp_path / "framework-app.yaml"
    file.write_text("consumers: {billing: {max_retries: 1}, audit: {concurrency: 2}}\n")

    with Harness(bill, settings=load(file)) as desk:
        desk.send("orders", b"x")
        assert 1 == len(desk.settle())


@pytest.mark.parametrize(
    "app",
    [
        undecorated,
        [undecorated],
        (bill, undecorated),
        partial(undecorated),
        Desk().bill,
        Desk,
        print,
        None,
        5,
        {"a": 1},
    ],
    ids=lambda app: type(app).__name__,
)
def test_what_is_no_consumer_is_to_be_marked(app: Any) -> None:
    error = refused(app)

    assert isinstance(error, OptionWrong)
    assert "is not a consumer; mark it with @consumer(topic, group)" in str(error)
    if app is undecorated:
        line = undecorated.__code__.co_firstlineno
        assert f"{__file__}:{line}: Harness: undecorated is not a consumer" in str(error)


def test_an_application_and_its_subscriptions_say_so_too() -> None:
    for consumers in (undecorated, [undecorated]):
        with pytest.raises(OptionWrong, match="App: undecorated is not a consumer; mark it with @consumer"):
            App(AppSettings(), consumers)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(OptionWrong, match="subscribe: undecorated is not a consumer; mark it with @consumer"):
        App(AppSettings(), [bill]).subscribe(undecorated)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ConfigurationError, match=r"App: settings=\{\}: give AppSettings"):
        App({}, [bill])  # type: ignore[arg-type]  # the mistake


def test_no_consumer_is_none_to_wait_for() -> None:
    assert isinstance(refused([]), NothingToRun)


def test_a_module_s_mistakes_are_said_as_check_says_them(tmp_path: Path) -> None:
    file = tmp_path / "desk_of_a_test.py"
    file.write_text("from framework import consumer\n\n@consumer('orders', 'billing')\ndef bill(order) -> bool: ...\n")

    assert "desk_of_a_test.py:3: consumer 'bill': " in str(refused(str(file)))
