"""Plugins' secrets: found by their model, their name, a variable or a URL's password, wherever they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, SecretStr, ValidationError

from framework.runtime.logs.setup import secrets_of
from framework.settings.explain import explained
from framework.settings.hidden import without_passwords
from framework.settings.schema import AppSettings
from framework.settings.secret import Secret
from framework.settings.sources import load

HERE = ("plugins", "settings", "a")


class Inner(BaseModel):
    key: SecretStr
    port: int = 1


class Model(BaseModel):
    ours: Secret = Secret("")
    other: Annotated[SecretStr | None, Field(alias="spelled")] = None
    number: pydantic.Secret[int] | None = None
    inner: Inner | None = None
    many: Mapping[str, Inner] = {}
    listed: list[Inner] = []
    moved: SecretStr = Field(SecretStr(""), validation_alias=AliasChoices("there", AliasPath("deep", "there")))
    plain: str = ""


def settings(tmp_path: Path, of_plugin: str, **environment: str) -> AppSettings:
    file = tmp_path / "app.yaml"
    file.write_text(f"plugins: {{settings: {{a: {of_plugin}}}}}\n")
    return load(file, environment=environment)


def shown(of: AppSettings) -> dict[str, str]:
    return {row.name.removeprefix("plugins.settings.a."): row.value for row in explained(of)}


@pytest.mark.parametrize(
    ("written", "name", "value"),
    [
        ("{ours: hush-hush}", "ours", "***"),
        ("{spelled: hush-hush}", "spelled", "***"),
        ("{number: 4711471147}", "number", "***"),
        ("{there: hush-hush}", "there", "***"),
        ("{deep: {there: hush-hush}}", "deep.there", "***"),
        ("{inner: {key: hush-hush}}", "inner.key", "***"),
        ("{inner: {port: 5}}", "inner.port", "5"),
        ("{many: {x: {key: hush-hush}}}", "many.x.key", "***"),
        ("{many: {x: {port: 5}}}", "many.x.port", "5"),
        ("{listed: [{key: hush-hush, port: 5}]}", "listed", '[{"key": "***", "port": "5"}]'),
        ("{plain: seen}", "plain", "seen"),
        ("{plain: ''}", "plain", '""'),
    ],
)
def test_the_plugins_model_says_what_is_secret(tmp_path: Path, written: str, name: str, value: str) -> None:
    of = settings(tmp_path, written)
    of.hide(HERE, Model)

    assert value == shown(of)[name]
    assert ("***" in value) == any(text in {"hush-hush", "4711471147"} for text in secrets_of(of))


def test_what_a_variable_held_is_secret_without_any_model(tmp_path: Path) -> None:
    of = settings(tmp_path, '{dsn: "x ${env:DSN}", size: "${env:SIZE}", plain: seen}', DSN="hush-hush", SIZE="20")

    assert {"dsn": "***", "size": "***", "plain": "seen"}.items() <= shown(of).items()
    assert ["hush-hush"] == secrets_of(of), "20 would mask half of every line"


def test_the_password_of_a_url_is_secret_and_the_rest_is_shown(tmp_path: Path) -> None:
    of = settings(tmp_path, "{dsn: 'postgresql://u:hu%40sh@h/shop'}")

    assert "postgresql://u:***@h/shop" == shown(of)["dsn"]
    assert {"hu%40sh", "hu@sh"} <= set(secrets_of(of))
    assert "amqp://u:***@h" == without_passwords("amqp://u:p@ss/w@h")
    assert "host=h password=*** user=u" == without_passwords("host=h password=hush user=u")
    assert "http://h:80/a" == without_passwords("http://h:80/a")


def test_a_mistake_in_a_secret_does_not_quote_it(tmp_path: Path) -> None:
    class Numbers(BaseModel):
        size: int
        where: pydantic.PostgresDsn

    of = settings(tmp_path, "{size: '${env:SIZE}', where: 'http://u:hush@h'}", SIZE="hush")
    with pytest.raises(ValidationError) as caught:
        Numbers.model_validate(dict(of.plugins.settings["a"]))
    mistakes = [str(each) for each in of.explain(HERE, Numbers, caught.value).mistakes]

    assert 2 == len(mistakes)
    assert [] == [each for each in mistakes if "hush" in each]


def test_settings_do_not_show_plugins_values_in_their_repr() -> None:
    values: dict[str, Any] = {"plugins": {"settings": {"a": {"dsn": "amqp://u:hush@h"}}}}
    assert "hush" not in repr(AppSettings.parsed(values, {}))
