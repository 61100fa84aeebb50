"""Expiry policies: chosen by name, contained where they fail, and the laws that each must keep."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from framework.errors import ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.hooks.validated import named
from framework.model.contracts import ExpiryPolicy
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import DeadLetter, Drop, Extend, RetryLater
from framework.settings.schema import AppSettings
from framework.testing.laws import check_expiry

DELIVERY = Delivery("billing", Message("orders", b"x", attempt=3), 0.0)


class Patient:
    """Two more minutes twice, and then the dead letters. A stranger's."""

    name = "patient"

    def __init__(self, answer: object = None) -> None:
        self._answer = answer

    def decide(self, delivery: Delivery, age_ms: int) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer or (Extend("2m") if age_ms < 300_000 else DeadLetter("too long"))


class Offers:
    def __init__(self, *policies: object) -> None:
        self._policies = policies

    @hookimpl
    def register_expiry_policies(self) -> object:
        return list(self._policies)


def host(*policies: object) -> PluginHost:
    return PluginHost(objects={"mine": Offers(*policies)}, discover=list)


def test_what_register_expiry_policies_offers_joins_the_built_in_ones() -> None:
    made = host(Patient())

    assert ["dead_letter", "drop", "extend", "patient", "send_back"] == list(made.expiry_policies)
    patient = made.expiry_policies["patient"]
    assert Extend("2m") == patient.decide(DELIVERY, 60_000)
    assert DeadLetter("too long") == patient.decide(DELIVERY, 900_000)
    assert "<policy patient>" == repr(patient)


@pytest.mark.parametrize("policy", PluginHost(discover=list).expiry_policies.values(), ids=repr)
def test_the_built_in_ones_keep_the_laws(policy: ExpiryPolicy) -> None:
    check_expiry(policy)


def test_what_the_built_in_ones_do() -> None:
    policies = PluginHost(discover=list).expiry_policies

    assert RetryLater("10s", "timed out after 60.1 s") == policies["send_back"].decide(DELIVERY, 60_100)
    assert DeadLetter("timed out after 60.1 s") == policies["dead_letter"].decide(DELIVERY, 60_100)
    assert Drop("timeout", "timed out after 60.1 s") == policies["drop"].decide(DELIVERY, 60_100)
    assert Extend() == policies["extend"].decide(DELIVERY, 60_100)


@pytest.mark.parametrize("answer", [ZeroDivisionError("oh"), "yes", 7, object()], ids=["raises", "text", "int", "any"])
def test_a_policy_that_fails_is_named_and_its_message_sent_back(answer: object) -> None:
    made = host(Patient(answer))
    with capture_logs() as lines:
        found = made.expiry_policies["patient"].decide(DELIVERY, 60_000)

    assert RetryLater("10s", "its expiry policy failed") == found
    assert {"mine": 1} == made.calls.failures
    assert [("hook failed", "mine")] == [(line["event"], line["plugin"]) for line in lines]


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        ([Patient(), Patient()], "both offer the expiry policy 'patient'"),
        (["a text"], "has no name or no decide()"),
    ],
)
def test_a_policy_that_cannot_be_registered_stops_the_start(policies: list[object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match="plugin") as caught:
        host(*policies)

    assert reason in str(caught.value)


def test_a_name_that_nobody_offers_is_refused_with_the_nearest() -> None:
    path, policies = ("consumers", "billing", "expiry"), PluginHost(discover=list).expiry_policies
    with pytest.raises(ConfigurationError, match="no expiry policy 'sendback'; did you mean 'send_back'"):
        named("expiry policy", "sendback", policies, path, AppSettings())
    with pytest.raises(ConfigurationError, match="known: dead_letter, drop, extend, send_back"):
        named("expiry policy", "q", policies, path, AppSettings())


class Forgets:
    name = "forgets"

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, delivery: Delivery, age_ms: int) -> Extend | Drop:
        self.asked += 1
        return Extend() if self.asked % 7 else Drop("me")


class Meddles:
    name = "meddles"

    def decide(self, delivery: Delivery, age_ms: int) -> Extend:
        delivery.extend("1m")
        return Extend()


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (Forgets(), "determinism"),
        (Meddles(), "hands off"),
        (Patient("yes"), "neither Extend nor an outcome"),
        ("a text", "no decide"),
    ],
)
def test_the_laws_find_what_is_broken(policy: object, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_expiry(policy)  # type: ignore[arg-type]  # broken on purpose


@pytest.mark.parametrize("by", [0, "0s", "soon", -1])
def test_more_time_is_some_time(by: str | float) -> None:
    with pytest.raises(ValueError, match=r"nothing|duration|outside"):
        Extend(by)
