"""By what brokers and other members know an application."""

from __future__ import annotations

import pytest

from framework import App
from framework.hooks.host import PluginHost
from framework.runtime.joining import _moment
from framework.settings.schema import AppSettings


def application(**app: object) -> App:
    settings = AppSettings.model_validate({"cluster": {"name_servers": ["127.0.0.1:9876"]}, "app": app})
    return App(settings, [], plugins=PluginHost(discover=lambda: ()))


def test_each_start_has_a_client_id_of_its_own_also_in_one_process() -> None:
    first, second = application(), application()
    host, number = first.world.identity.host, first.world.identity.process
    assert first.member != second.member
    assert all(each.member.startswith(f"{host}@{number}#") for each in (first, second))


def test_an_application_with_a_name_keeps_it_from_start_to_start() -> None:
    assert application(instance="till-1").member == application(instance="till-1").member
    assert application(instance="till-1").member != application(instance="till-2").member


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795351010385", "2026-11-22 12:36:50 UTC"),
        ("", "a time that it does not say"),
        ("9" * 30, "a time that it does not say"),
        ("soon", "a time that it does not say"),
    ],
)
def test_since_when_a_twin_is_there_is_told_as_a_time(text: str, expected: str) -> None:
    assert expected == _moment(text)
