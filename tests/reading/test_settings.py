"""ReaderSettings: checked when made, without secrets, and what a reference stands for."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from framework.errors import ConfigurationError
from framework.net.tls import TlsOptions
from framework.reading import ReaderSettings

HERE = ("127.0.0.1:9876",)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name_servers": ()}, "at least one host:port"),
        ({"name_servers": ("nowhere",)}, "name server 'nowhere': write host:port"),
        ({"address_map": {"a:1": "b"}}, "address_map 'b'"),
        ({"allow": ("10.0.0.0/99",)}, "allow '10.0.0.0/99'"),
        ({"request_timeout_ms": 0}, "request_timeout_ms 0: must be at least 1"),
        ({"retries": -1}, "retries -1: must be at least 0"),
        ({"batch": 0}, "batch 0: must be at least 1"),
        ({"tls": TlsOptions(key_password="x")}, "cannot travel"),
    ],
)
def test_what_cannot_work_is_refused_by_name(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        ReaderSettings(**{"name_servers": HERE, **options})


@pytest.mark.parametrize("given", ["hunter2", "file:", "vault:prod/hunter2"])
def test_credentials_are_a_reference_and_nothing_else(given: str) -> None:
    with pytest.raises(ConfigurationError, match="never the keys themselves") as caught:
        ReaderSettings(HERE, credentials=given)

    assert "hunter2" not in str(caught.value)


def test_a_file_s_keys_are_read_where_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("access_key: us\nsecret_key: sesame\nsecurity_token: t\n")
    settings = ReaderSettings(HERE, credentials=f"file:{path}")

    credentials = settings.resolve_credentials()

    assert credentials is not None
    assert ("us", "sesame", "t") == (credentials.access_key, credentials.secret_key, credentials.security_token)
    assert b"sesame" not in pickle.dumps(settings)
    assert "sesame" not in repr(settings)


def test_variables_have_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_ACCESS_KEY", "us")
    monkeypatch.setenv("SHOP_SECRET_KEY", "sesame")

    credentials = ReaderSettings(HERE, credentials="env:SHOP").resolve_credentials()

    assert credentials is not None
    assert ("us", "sesame", None) == (credentials.access_key, credentials.secret_key, credentials.security_token)
    with pytest.raises(ConfigurationError, match="NOBODY_ACCESS_KEY and NOBODY_SECRET_KEY must be set"):
        ReaderSettings(HERE, credentials="env:NOBODY").resolve_credentials()
    assert ReaderSettings(HERE).resolve_credentials() is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("access_key: us\n", "access_key and secret_key must be set"),
        ("- a\n", "expected keys and values"),
        ("access_key: us\npassword: x\n", "unknown 'password'; use access_key, secret_key, security_token"),
        ("a" * 70_000, "larger than 65536 bytes"),
    ],
)
def test_a_file_that_will_not_do_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=complaint):
        ReaderSettings(HERE, credentials=f"file:{path}").resolve_credentials()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"keys.yaml': No such file"):
        ReaderSettings(HERE, credentials=f"file:{tmp_path}/keys.yaml").resolve_credentials()
