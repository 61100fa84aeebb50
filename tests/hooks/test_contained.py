"""What plugins offer and we ask: what fails or is slow is counted and named, and who asks decides what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from framework.hooks import hookimpl
from framework.hooks.contained import SENT_BACK
from framework.hooks.host import PluginHost
from framework.hooks.validated import choose
from framework.model.allocation import Allocation
from framework.model.contracts import AllocationStrategy, Remarks
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Extend
from framework.model.queue import MessageQueue
from framework.settings.schema import AppSettings

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(3)]


class Inner:
    name = "acme"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return list(queues)

    def decide(self, delivery: Delivery, age_ms: int) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Remarking(Inner):
    name = "remarking"

    def remarks(self, members: Sequence[str], queues: Sequence[MessageQueue]) -> Sequence[str]:
        return [f"{len(members)} members"]


class Over(BaseModel):
    over: str


class Outer:
    """One that asks another."""

    name, options = "outer", Over

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        return self.inner.allocate(member, members, queues)

    def configured(self, options: Over, choose: Callable[[Allocation, str], AllocationStrategy]) -> AllocationStrategy:
        made = Outer()
        made.inner = choose(Allocation(options.over), "over")
        return made

    inner: AllocationStrategy


class Plugin:
    def __init__(self, *strategies: Any, policy: Any = None) -> None:
        self._strategies, self._policy = strategies, policy

    @hookimpl
    def register_allocation_strategies(self) -> Sequence[Any]:
        return self._strategies

    @hookimpl
    def register_expiry_policies(self) -> Sequence[Any]:
        return [self._policy] if self._policy else []


class Ticks:
    """A clock that moves by so much each time somebody looks."""

    def __init__(self, step: float) -> None:
        self.at, self.step = 0.0, step

    def __call__(self) -> float:
        self.at += self.step
        return self.at


def chosen(host: PluginHost, name: str, **options: Any) -> AllocationStrategy:
    return choose(Allocation(name, options), host.strategies, ("allocation",), AppSettings(), host.contained)


def test_a_slow_strategy_is_counted_and_said_once_with_its_plugin_and_its_time() -> None:
    host = PluginHost(objects={"acme": Plugin(Inner())}, discover=list)
    host.calls.now = Ticks(0.25)

    with capture_logs() as logs:
        for _ in range(9):
            assert QUEUES == chosen(host, "acme").allocate("a", ["a"], QUEUES)

    assert {"acme": 9} == host.calls.slow
    (said,) = [line for line in logs if line["event"] == "hook slow"]
    assert ("acme", "register_allocation_strategies", 250) == (said["plugin"], said["hook"], said["elapsed_ms"])


def test_a_quick_one_is_neither_slow_nor_changed() -> None:
    host = PluginHost(objects={"acme": Plugin(Inner(), Remarking())}, discover=list)
    host.calls.now = Ticks(0.01)

    plain, remarking = chosen(host, "acme"), chosen(host, "remarking")

    assert ("acme", "remarking") == (plain.name, remarking.name)
    assert not isinstance(plain, Remarks)
    assert isinstance(remarking, Remarks)
    assert ["1 members"] == remarking.remarks(["a"], QUEUES)
    assert QUEUES == remarking.allocate("a", ["a"], QUEUES)
    assert {} == host.calls.slow == host.calls.failures


def test_a_strategy_that_fails_is_counted_and_fails_whoever_asked() -> None:
    host = PluginHost(objects={"acme": Plugin(Inner(RuntimeError("no map")))}, discover=list)

    with pytest.raises(RuntimeError, match="no map"):
        chosen(host, "acme").allocate("a", ["a"], QUEUES)
    assert {"acme": 1} == host.calls.failures


def test_of_one_that_asks_another_each_has_its_own_name() -> None:
    objects = {"acme": Plugin(Inner(RuntimeError("no map"))), "far": Plugin(Outer())}
    host = PluginHost(objects=objects, discover=list)

    with pytest.raises(RuntimeError):
        chosen(host, "outer", over="acme").allocate("a", ["a"], QUEUES)
    assert {"acme": 1, "far": 1} == host.calls.failures


def test_a_slow_policy_is_counted_and_named_and_its_answer_stands() -> None:
    host = PluginHost(objects={"acme": Plugin(policy=Inner(Extend("1s")))}, discover=list)
    host.calls.now = Ticks(0.25)
    delivery = Delivery("billing", Message("orders", b"x"), 0.0)

    with capture_logs() as logs:
        answers = [host.expiry_policies["acme"].decide(delivery, 1_000) for _ in range(3)]

    assert [Extend("1s")] * 3 == answers
    assert {"acme": 3} == host.calls.slow
    assert [("acme", "register_expiry_policies")] == [
        (line["plugin"], line["hook"]) for line in logs if line["event"] == "hook slow"
    ]


@pytest.mark.parametrize("answer", [None, 17, RuntimeError("tired")])
def test_a_policy_that_fails_sends_back_and_is_counted_once(answer: object) -> None:
    host = PluginHost(objects={"acme": Plugin(policy=Inner(answer))}, discover=list)

    assert SENT_BACK == host.expiry_policies["acme"].decide(Delivery("billing", Message("orders"), 0.0), 1_000)
    assert {"acme": 1} == host.calls.failures
