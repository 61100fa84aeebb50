"""AppSettings: what they mean without a file, and how mistakes in them read."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from framework.core.window import FlowLimits
from framework.model.subscription import Start
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings, TlsSettings


def mistakes_in(values: dict[str, object], places: dict[tuple[str, ...], str] | None = None) -> list[str]:
    found = AppSettings.parsed(values, places or {})
    return [str(each) for each in found] if isinstance(found, list) else []


def test_no_file_at_all_is_fine() -> None:
    settings = AppSettings()

    assert ("127.0.0.1:9876",) == settings.cluster.name_servers
    assert None is settings.cluster.wait_broker
    assert 3_000 == settings.cluster.request_timeout
    assert ConsumerSettings() == settings.consumer("anybody")
    assert () == settings.warnings


def test_a_queues_bound_of_bytes_acts_before_the_process_has_no_room_left() -> None:
    settings = AppSettings()
    bounds = FlowLimits()

    assert settings.app.budget // 4 == settings.consumer("anybody").cache_bytes
    assert (bounds.messages_max, bounds.bytes_max) == (
        settings.consumer("anybody").cache_count, settings.consumer("anybody").cache_bytes,
    )  # fmt: skip


def test_settings_are_frozen() -> None:
    settings = AppSettings()

    with pytest.raises(ValidationError, match="frozen"):
        settings.app.drain = 1


def test_a_group_has_its_own_settings() -> None:
    settings = AppSettings.parsed({"consumers": {"billing": {"concurrency": "4"}}}, {})

    assert isinstance(settings, AppSettings)
    assert 4 == settings.consumer("billing").concurrency
    assert 20 == settings.consumer("other").concurrency


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("first", Start("first")),
        ("last", Start("last")),
        ("30m", Start("age", 1_800_000)),
        ("1970-01-01T00:00:01Z", Start("time", 1_000)),
        ("1970-01-01T08:00:00+08:00", Start("time", 0)),
    ],
)
def test_a_group_may_start_at_an_end_an_age_or_a_time(text: str, start: Start) -> None:
    assert start == ConsumerSettings.model_validate({"start": text}).start


@pytest.mark.parametrize("text", ["yesterday", "2026-11-21T09:30:00", "", "30"])
def test_other_starts_are_refused(text: str) -> None:
    """A time without a zone, too: two machines would read it differently."""
    (mistake,) = mistakes_in({"consumers": {"g": {"start": text}}})

    assert mistake.startswith("consumers.g.start: ")


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        ({"ap": {}}, "unknown key 'ap' in the settings; did you mean 'app'?"),
        ({"app": {"nmae": "x"}}, "unknown key 'nmae' in app; did you mean 'name'?"),
        ({"consumers": {"g": {"max_retry": "3"}}}, "unknown key 'max_retry' in consumers.g; did you mean"),
        ({"cluster": {"tls": {"zzz": "3"}}}, "unknown key 'zzz' in cluster.tls; known here: ca_file,"),
        ({"consumers": {"g": {"concurrency": "many"}}}, "consumers.g.concurrency: expected a whole number"),
        ({"consumers": {"g": {"concurrency": "0"}}}, "consumers.g.concurrency: expected at least 1"),
        ({"cluster": {"request_timeout": "0s"}}, "cluster.request_timeout: expected at least 1"),
        ({"consumers": {"g g": {}}}, "consumers.g g: a group's name has"),
        ({"consumers": "x"}, "consumers: expected keys and values, found 'x'"),
        ({"app": ["x"]}, "app: expected keys and values, found a list"),
        ({"app": {"name": None}}, "app.name: expected a text, found nothing"),
        ({"cluster": {"name_servers": "here"}}, "cluster.name_servers.0: 'here' is not an address"),
        ({"cluster": {"name_servers": "a:99999"}}, "cluster.name_servers.0: 'a:99999' is not an address"),
        ({"cluster": {"address_map": {"a:1": "b"}}}, "cluster.address_map.a:1: 'b' is not an address"),
        ({"cluster": {"allow": "10.0.0.1/8"}}, "cluster.allow.0: 10.0.0.1/8 has host bits set"),
        ({"cluster": {"tls": {"enabled": "perhaps"}}}, "cluster.tls.enabled: expected true or false"),
        ({"app": {"drain": "30"}}, "app.drain: 30 of what?"),
        ({"app": {"budget": "64MB"}}, "app.budget: write a size"),
        ({"consumers": {"g": {"rate": {"count": 0}}}}, "consumers.g.rate: write 100/s, 30/m or 1000/h"),
        ({"consumers": {"g": {"start": {"policy": "time", "ms": -5}}}}, "consumers.g.start: write first, last, an age"),
        ({"consumers": {"g": {"start": None}}}, "consumers.g.start: write first, last, an age"),
        ({"cluster": {"name_servers": None}}, "cluster.name_servers: expected a list, found nothing"),
        ({"logging": {"level": "loud"}}, "logging.level: expected 'debug', 'info', 'warning' or 'error', found 'loud'"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_is_there_and_what_may_be(values: dict[str, object], mistake: str) -> None:
    (found,) = mistakes_in(values)

    assert found.startswith(mistake)


@pytest.mark.parametrize(
    "values",
    [
        {"consumers": None}, {"consumers": {"g": None}}, {"app": None}, {"app": {"handlers": None}},
        {"cluster": {"tls": None, "allow": None, "address_map": None, "embedded_limits": None}},
        {"logging": {"levels": None}}, {"plugins": {"settings": None, "local": None, "block": None, "only": None}},
    ],
)  # fmt: skip
def test_a_section_or_list_with_nothing_behind_it_means_its_default(values: dict[str, object]) -> None:
    settings = AppSettings.parsed(values, {})

    assert isinstance(settings, AppSettings)
    assert AppSettings() == settings.model_copy(update={"consumers": {}})


def test_all_mistakes_are_said_at_once_with_their_places() -> None:
    values: dict[str, object] = {"app": {"drian": "3s"}, "logging": {"format": "xml"}}
    places = {("app", "drian"): "f.yaml:2:3", ("logging",): "f.yaml:3:1"}

    first, second = mistakes_in(values, places)

    assert first.startswith("f.yaml:2:3: unknown key 'drian'")
    assert second.startswith("f.yaml:3:1: logging.format")


def test_a_long_value_is_shortened() -> None:
    (mistake,) = mistakes_in({"consumers": {"g": {"concurrency": "9x" * 5_000}}})

    assert 200 > len(mistake)


def test_trusting_anybody_is_said_at_each_start() -> None:
    settings = AppSettings.parsed({"cluster": {"tls": {"enabled": "true", "verify": "no"}}}, {})

    assert isinstance(settings, AppSettings)
    assert TlsSettings(enabled=True, verify=False) == settings.cluster.tls
    assert ["cluster.tls.verify"] == [warning.partition(" ")[0] for warning in settings.warnings]


@pytest.mark.parametrize(
    ("app", "cluster", "takes"),
    [
        ({"killed_after": "30s"}, {}, "56s"),
        ({"killed_after": "60s", "drain": "2m"}, {}, "2m26s"),
        ({"killed_after": "60s"}, {"request_timeout": "5s"}, "1m2s"),
        ({"killed_after": "60s"}, {}, None),
        ({"killed_after": "56s"}, {}, None),
        ({"drain": "2m"}, {}, None),
    ],
)
def test_a_stop_that_is_cut_off_is_said_at_each_start(
    app: dict[str, str], cluster: dict[str, str], takes: str | None
) -> None:
    settings = AppSettings.parsed({"app": app, "cluster": cluster}, {})

    assert isinstance(settings, AppSettings)
    assert [takes] * (takes is not None) == [
        re.findall(r"a stop may take (\S+), but .* \(app.killed_after\)", warning)[0] for warning in settings.warnings
    ]


def test_an_empty_part_is_a_part_that_was_left_out() -> None:
    settings = AppSettings.parsed({"cluster": {"tls": None}, "consumers": {"g": None}}, {})

    assert isinstance(settings, AppSettings)
    assert ConsumerSettings() == settings.consumers["g"]
