"""Hooks as they are called: in order, one by one, failures contained. One test a hook, named after it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.hooks import Skip, hookimpl
from framework.hooks.calls import LOOKED_AT_FIRST
from framework.hooks.host import PluginHost
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, Drop, Outcome, RetryLater

DELIVERY = Delivery("billing", Message("orders", b"x"), 0.0)


class Watcher:
    """Implements what it is told to, and notes that it was called."""

    def __init__(self, name: str, notes: list[str], verdict: object = None) -> None:
        self.name, self.notes, self.verdict = name, notes, verdict

    def _answer(self, hook: str) -> Any:
        self.notes.append(f"{self.name} {hook}")
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    @hookimpl
    def app_started(self) -> None:
        self._answer("started")

    @hookimpl
    def app_stopping(self, app: object) -> None:
        self._answer("stopping")

    @hookimpl
    def before_consume(self, delivery: Delivery) -> Any:
        return self._answer("before")

    @hookimpl
    def after_consume(self, outcome: Outcome, elapsed_ms: float) -> None:
        self._answer(f"after {type(outcome).__name__} {elapsed_ms}")


def host(notes: list[str], **verdicts: object) -> PluginHost:
    watchers: dict[str, object] = {name: Watcher(name, notes, verdict) for name, verdict in verdicts.items()}
    return PluginHost(objects=watchers, discover=list)


def test_nobody_listens_where_nothing_is_implemented() -> None:
    calls = PluginHost(discover=list).calls

    assert ((), ()) == (calls.before, calls.after)
    calls.app_started(object())
    calls.app_stopping(object())
    assert {} == calls.failures


def test_app_started_and_app_stopping_are_told_in_opposite_orders() -> None:
    notes: list[str] = []
    calls = host(notes, first=None, second=None).calls

    calls.app_started(object())
    calls.app_stopping(object())

    started, stopping = notes[:2], notes[2:]
    assert {"first started", "second started"} == set(started)
    assert [each.split()[0] for each in reversed(started)] == [each.split()[0] for each in stopping]


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [
        (None, None),
        (Skip("no stock"), Drop("one", "no stock")),
        (RetryLater("10s"), RetryLater("10s")),
        ("yes", None),
        (ValueError("oh"), None),
    ],
)
def test_before_consume_answers_a_verdict_or_nothing(verdict: object, answer: object) -> None:
    (before,) = host([], one=verdict).calls.before

    assert answer == before(DELIVERY)


def test_after_consume_is_told_the_outcome_and_the_time() -> None:
    notes: list[str] = []
    (after,) = host(notes, one=None).calls.after

    after(DELIVERY, Ack(), 1.5, "success")

    assert ["one after Ack 1.5"] == notes


def test_a_failure_is_counted_under_its_plugin_s_name_and_stops_no_other() -> None:
    notes: list[str] = []
    calls = host(notes, bad=ValueError("oh"), good=None).calls

    with capture_logs() as logs:
        calls.app_started(object())
        for before in calls.before:
            before(DELIVERY)
        for after in calls.after:
            after(DELIVERY, Ack(), 0.0, "success")
        calls.app_stopping(object())

    assert {"bad": 4} == calls.failures
    assert 4 == len([note for note in notes if note.startswith("good")])
    assert [("hook failed", "bad", 1)] == [(each["event"], each["plugin"], each["failures"]) for each in logs]


def test_a_hook_that_always_fails_does_not_flood_the_log() -> None:
    (before,) = host([], bad=ValueError("oh")).calls.before

    with capture_logs() as logs:
        for _ in range(1_000):
            before(DELIVERY)

    assert [1, 10, 100, 1_000] == [each["failures"] for each in logs]


def test_register_settings_and_register_allocation_strategies_are_asked_at_start() -> None:
    """Their tests stand in test_host.py; here, that being told of deliveries needs neither."""
    made = host([], one=None)

    assert {"averaging", "circle", "one"} <= {each.name for each in made.plugins}


def test_a_slow_hook_is_counted_and_named_and_hurts_no_message() -> None:
    """On a clock that each look moves on by as much as the hook is said to take."""
    calls = host([], slow=None, failing=ValueError("oh")).calls
    looks = itertools.count(step=0.15)
    calls.now = lambda: next(looks)

    with capture_logs() as logs:
        assert [None] == [before(DELIVERY) for before in calls.before]
        for after in calls.after:
            after(DELIVERY, Ack(), 0.0, "success")
        calls.app_started(object())

    assert {"slow": 3, "failing": 3} == calls.slow
    slow = [each for each in logs if each["event"] == "hook slow"]
    assert {("slow", "before_consume"), ("failing", "before_consume")} == {
        (each["plugin"], each["hook"]) for each in slow
    }
    assert all(each["elapsed_ms"] >= 150 for each in slow)


def test_one_that_becomes_slow_later_is_timed_by_itself_from_then_on_and_named() -> None:
    """Where nobody was slow for long, all hooks are timed together, which does not say who it was."""
    now = [0.0]

    class Slow:
        seconds = 0.0

        @hookimpl
        def before_consume(self, delivery: Delivery) -> None:
            now[0] += self.seconds

        @hookimpl
        def after_consume(self, delivery: Delivery) -> None:
            now[0] += self.seconds

    slow = Slow()
    calls = PluginHost(objects={"quick": Watcher("quick", []), "slow": slow}, discover=list).calls
    calls.now = lambda: now[0]

    def deliver() -> None:
        delivery = Delivery("billing", Message("orders"), now[0])
        for before in calls.before:
            before(delivery)
        for after in calls.after:
            after(delivery, Ack(), (now[0] - delivery.started) * 1_000, "success")

    for _ in range(LOOKED_AT_FIRST):
        deliver()
    slow.seconds = 0.2
    deliver()
    seen = dict(calls.slow)
    deliver()

    assert ({}, {"slow": 2}) == (seen, calls.slow), "the first delivery says that something was slow, the second what"


def test_a_slow_one_is_noticed_where_nothing_is_called_after_it() -> None:
    now = [0.0]

    class Slow:
        @hookimpl
        def before_consume(self, delivery: Delivery) -> None:
            now[0] += 0.2

    calls = PluginHost(objects={"slow": Slow()}, discover=list).calls
    calls.now, calls.looks = (lambda: now[0]), 0

    for _ in range(2):
        for before in calls.before:
            before(Delivery("billing", Message("orders"), now[0]))

    assert {"slow": 1} == calls.slow


def test_a_quick_hook_is_not_called_slow() -> None:
    calls = host([], quick=None).calls
    looks = itertools.count(step=0.04)
    calls.now = lambda: next(looks)

    for before in calls.before:
        before(DELIVERY)

    assert {} == calls.slow
