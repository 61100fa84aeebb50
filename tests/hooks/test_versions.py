"""Versions of the hooks: a plugin says what it needs, and is told what goes."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.errors import ConfigurationMistakes
from framework.hooks import hookimpl, signatures
from framework.hooks.host import PluginHost
from framework.hooks.signatures import VERSION, Deprecation
from framework.model.delivery import Delivery
from framework.model.outcome import Outcome


class Plugin:
    @hookimpl
    def after_consume(self, delivery: Delivery, outcome: Outcome) -> None: ...


def hosted(**names: Any) -> PluginHost:
    return PluginHost(objects={"night": type("Night", (Plugin,), names)()}, discover=list)


@pytest.mark.parametrize(
    ("needed", "reason"),
    [
        (
            VERSION + 1,
            f"needs version {VERSION + 1} of the hooks, but this is version {VERSION}; upgrade framework-app",
        ),
        ("2", "HOOKS_VERSION is '2'; write a number from 1"),
        (0, "HOOKS_VERSION is 0; write a number from 1"),
    ],
)
def test_a_plugin_that_needs_other_hooks_is_refused_with_its_name(needed: object, reason: str) -> None:
    with pytest.raises(ConfigurationMistakes) as raised:
        hosted(HOOKS_VERSION=needed)

    assert "plugin 'night'" in str(raised.value)
    assert reason in str(raised.value)


def test_one_that_needs_what_is_there_is_loaded() -> None:
    assert hosted(HOOKS_VERSION=VERSION).calls.after


@pytest.mark.parametrize(
    ("deprecation", "said"),
    [
        (Deprecation("after_consume", goes_in=2, instead="use settled"), "the hook after_consume goes in version 2"),
        (
            Deprecation("after_consume", "outcome", 3, "ask the delivery"),
            "the argument 'outcome' of after_consume goes",
        ),
        (Deprecation("after_consume", "kind", 3, "ask the outcome"), None),
        (Deprecation("before_consume", goes_in=2, instead="use around"), None),
    ],
)
def test_who_implements_what_goes_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch, deprecation: Deprecation, said: str | None
) -> None:
    monkeypatch.setattr(signatures, "DEPRECATED", (deprecation,))
    with capture_logs() as logs:
        hosted()

    warnings = [each for each in logs if each["event"] == "hook deprecated"]
    assert (0 if said is None else 1) == len(warnings)
    if said is not None:
        assert ("night", "after_consume") == (warnings[0]["plugin"], warnings[0]["hook"])
        assert warnings[0]["reason"].startswith(said)
        assert warnings[0]["reason"].endswith(deprecation.instead)
