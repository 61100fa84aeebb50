"""What two settings differ in: which of it is live, which waits for a restart, and which is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from framework.settings.changes import Kind, changes, taken_over
from framework.settings.fields import OnEdit
from framework.settings.schema import AppSettings
from framework.settings.secret import Secret
from tests.settings.marks import marked


def settings_of(values: dict[str, Any]) -> AppSettings:
    parsed = AppSettings.parsed(values, {})
    assert isinstance(parsed, AppSettings), parsed
    return parsed


def told(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, Kind]]:
    return [(str(change), change.kind) for change in changes(settings_of(before), settings_of(after))]


def test_the_same_settings_differ_in_nothing() -> None:
    assert [] == told({}, {})
    assert [] == told({"consumers": {"billing": {}}}, {}), "a group that is named without a word has the defaults"


def test_each_difference_is_named_in_the_order_of_the_schema() -> None:
    assert [
        ("app.drain: 30s -> 5s", Kind.LIVE),
        ("app.name: app -> shop", Kind.RESTART),
        ("consumers.billing.concurrency: 20 -> 4", Kind.LIVE),
        ("consumers.billing.start: last -> first", Kind.RESTART),
        ("consumers.stock.paused: false -> true", Kind.LIVE),
        ("logging.level: info -> debug", Kind.LIVE),
    ] == sorted(
        told(
            {},
            {
                "app": {"name": "shop", "drain": "5s"},
                "consumers": {"stock": {"paused": "true"}, "billing": {"start": "first", "concurrency": "4"}},
                "logging": {"level": "debug"},
            },
        )
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("timeout", "3s", "15m -> 3s"), ("timeout", None, "15m -> none"), ("topic_bytes", "1MiB", "none -> 1MiB"),
        ("rate", "100/s", "none -> 100/s"), ("cache_bytes", "64KiB", "16MiB -> 64KiB"),
        ("start", "30m", "last -> 30m"),
        ("allocation", {"nearby": {"by": "averaging"}}, 'averaging -> {"nearby": {"by": "averaging"}}'),
    ],
)  # fmt: skip
def test_a_change_is_shown_as_a_file_writes_it(name: str, value: object, said: str) -> None:
    ((shown, _),) = told({}, {"consumers": {"billing": {name: value}}})

    assert f"consumers.billing.{name}: {said}" == shown


def test_a_group_that_is_named_no_more_goes_back_to_the_defaults() -> None:
    before = {"consumers": {"billing": {"concurrency": "4"}}}
    assert [("consumers.billing.concurrency: 4 -> 20", Kind.LIVE)] == told(before, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cluster": {"tls": {"enabled": True}}}, {}),
        ({}, {"cluster": {"tls": {"verify": False}}}),
        ({"cluster": {"credentials": {"access_key": "a", "secret_key": "s"}}}, {}),
        ({}, {"plugins": {"local": ["evil"]}}),
        ({"plugins": {"block": ["audit"]}}, {}),
        ({"plugins": {"only": ["audit"]}}, {}),
        ({}, {"app": {"handlers": ["elsewhere"]}}),
    ],
)
def test_what_opens_a_door_or_brings_other_code_is_refused(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert Kind.REFUSED in {kind for _, kind in told(before, after)}


def test_a_door_that_is_closed_waits_for_a_restart() -> None:
    assert [("cluster.tls.enabled: false -> true", Kind.RESTART)] == told({}, {"cluster": {"tls": {"enabled": True}}})


def test_no_secret_is_shown() -> None:
    (secret,) = [
        each
        for each, _ in told(
            {"cluster": {"credentials": {"access_key": "a", "secret_key": "hush-1"}}},
            {"cluster": {"credentials": {"access_key": "a", "secret_key": "hush-2"}}},
        )
    ]
    assert "hush" not in secret


def test_only_live_values_are_taken_over_and_nothing_else_of_the_file() -> None:
    before = settings_of({"consumers": {"billing": {"concurrency": "4", "start": "first"}}})
    after = settings_of({"consumers": {"billing": {"concurrency": "8"}}, "app": {"name": "shop", "budget": "2MiB"}})

    running = taken_over(before, changes(before, after))
    billing = running.consumer("billing")
    assert (8, "first") == (billing.concurrency, billing.start.policy)
    assert ("app", 2 << 20) == (running.app.name, running.app.budget)
    assert {Kind.RESTART} == {change.kind for change in changes(running, after)}, "what waits is said again next time"
    assert 4 == before.consumer("billing").concurrency


def test_what_an_edit_does_stands_at_these_fields() -> None:
    """A mark that is lost by accident would let an edit bring code, or open a door, without a restart."""
    assert ["app.handlers", "plugins.block", "plugins.local", "plugins.only"] == named(OnEdit.CODE)
    assert [
        "cluster.credentials.access_key", "cluster.credentials.secret_key", "cluster.tls.enabled", "cluster.tls.verify",
        "observe.listen", "observe.public", "observe.token",
    ] == named(OnEdit.GUARD)  # fmt: skip
    live_in_groups = [
        "breaker",
        "cache_bytes",
        "cache_count",
        "concurrency",
        "expiry",
        "paused",
        "rate",
        "timeout",
        "topic_bytes",
        "topic_count",
    ]
    assert [
        "app.budget", "app.drain", "app.killed_after", *(f"consumers.*.{name}" for name in live_in_groups),
        "logging.format", "logging.level", "logging.levels",
    ] == named(OnEdit.LIVE)  # fmt: skip


def named(mark: OnEdit) -> list[str]:
    return sorted(".".join(path) for path in marked(mark))


def of_plugins(**plugins: Any) -> dict[str, Any]:
    return {"plugins": {"settings": plugins}}


def test_plugins_settings_differ_key_by_key() -> None:
    before = of_plugins(outbox={"interval": "1s", "database": "postgresql://u:hush-1@h/shop"}, audit={"folder": "/a"})
    after = of_plugins(outbox={"interval": "2s", "database": "postgresql://u:hush-1@h/shop", "batch": "5"})

    assert [
        ("plugins.settings.audit.folder: /a -> none", Kind.RESTART),
        ("plugins.settings.outbox.batch: none -> 5", Kind.RESTART),
        ("plugins.settings.outbox.interval: 1s -> 2s", Kind.RESTART),
    ] == told(before, after)


def test_no_secret_of_a_plugin_is_shown_when_it_changes() -> None:
    shown = told(
        of_plugins(a={"url": "amqp://u:hush-1@h", "tokens": {"eu": "hush-1"}, "hosts": [{"password": "hush-1"}]}),
        of_plugins(a={"url": "amqp://u:hush-2@h", "tokens": {"eu": "hush-2"}, "hosts": [{"password": "hush-2"}]}),
    )

    assert [
        'plugins.settings.a.hosts: [{"password": "***"}] -> [{"password": "***"}]',
        "plugins.settings.a.tokens.eu: *** -> ***",
        "plugins.settings.a.url: amqp://u:***@h -> amqp://u:***@h",
    ] == [each for each, _ in shown]


def test_what_the_model_of_a_plugin_calls_secret_is_hidden_in_settings_that_it_has_not_seen_yet() -> None:
    class Model(BaseModel):
        where: Secret = Secret("")

    before, after = (settings_of(of_plugins(a={"where": each})) for each in ("hush-1", "hush-2"))
    before.hide(("plugins", "settings", "a"), Model)

    assert ["plugins.settings.a.where: *** -> ***"] == [str(each) for each in changes(before, after)]
