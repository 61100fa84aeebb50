"""By what brokers and other members know an application."""

from __future__ import annotations

from framework import App
from framework.hooks.host import PluginHost
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
