"""By what brokers and other members know an application."""

from __future__ import annotations

import pytest

from framework import App
from framework.core.group_members import member_named
from framework.hooks.host import PluginHost
from framework.runtime.joining import SEATS_MAX, _attendance, _moment, attendance_text
from framework.settings.schema import AppSettings
from framework.wire.bodies.running import ATTENDANCE, RunningInfo

A, B = member_named("a", 10_000), member_named("b", 10_000)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(attendance_text({A: 3_000}, [B], {}), {A: 3_000, B: 10_000}, id="present-for-its-whole-grace"),
        pytest.param(attendance_text({A: 3_000}, [A], {}), {A: 3_000}, id="both-is-the-absent-one"),
        pytest.param(attendance_text({A: 99_000}, ["10.0.0.9@17"], {}), {A: 10_000}, id="no-longer-than-its-name-says"),
        pytest.param(f'{{"absent":{{"{A}":3000}},"flaps":{{}}}}', {A: 3_000}, id="of-an-older-version"),
        pytest.param('{"present":7}', {}, id="no-list"),
        pytest.param(attendance_text({}, [A.replace("a@", f"{n}@") for n in range(SEATS_MAX + 1)], {}), {}, id="many"),
        pytest.param("no JSON", {}, id="no-json"),
    ],
)
def test_the_seats_that_another_member_names_are_kept_as_long_as_their_names_say(
    text: str, expected: dict[str, int]
) -> None:
    assert expected == _attendance(RunningInfo(properties={ATTENDANCE: text}))[0]
