"""A Secret shows itself nowhere."""

from __future__ import annotations

import copy
import json

import pytest
from pydantic import ValidationError

from framework.settings.schema import AppSettings, ClusterSettings, CredentialsSettings
from framework.settings.secret import Secret
from framework.settings.secret_words import MASK

CANARY = "canary-8f3a1c"


def settings() -> AppSettings:
    return AppSettings(cluster=ClusterSettings(credentials=CredentialsSettings(secret_key=Secret(CANARY))))


@pytest.mark.parametrize("shown", [repr, str, "{}".format, "{:>9}".format, lambda it: f"{it!r} {it!s}"])
def test_no_text_form_shows_it(shown: object) -> None:
    assert CANARY not in shown(Secret(CANARY))  # type: ignore[operator]  # each is callable


def test_no_dump_of_settings_shows_it() -> None:
    made = settings()

    assert CANARY not in repr(made)
    assert CANARY not in str(made.model_dump())
    assert CANARY not in made.model_dump_json()
    assert MASK == json.loads(made.model_dump_json())["cluster"]["credentials"]["secret_key"]


def test_what_a_pickle_would_hold_is_the_mask() -> None:
    """Read as the pickle protocol reads it; the module itself is banned here."""
    secret = Secret(CANARY)

    kind, arguments = secret.__reduce__()

    assert (Secret, (MASK,)) == (kind, arguments)


def test_it_is_there_for_whoever_asks_by_name() -> None:
    assert CANARY == settings().cluster.credentials.secret_key.reveal()
    assert Secret("a") == Secret("a") != Secret("b")
    assert {Secret("a")} == {Secret("a"), Secret("a")}
    assert not Secret("")


def test_no_error_shows_it() -> None:
    with pytest.raises(ValidationError) as caught:
        AppSettings.model_validate({"cluster": {"credentials": {"secret_key": [CANARY], "access_kye": CANARY}}})

    assert CANARY not in str(caught.value)


def test_a_copy_within_the_process_is_the_secret_itself() -> None:
    """pydantic copies defaults deeply; an empty secret must stay an empty one."""
    secret = Secret("hush")

    assert secret is copy.copy(secret) is copy.deepcopy(secret)
    assert not CredentialsSettings.model_validate({}).secret_key
    assert not ClusterSettings.model_validate({"tls": {"enabled": True}}).credentials.secret_key
