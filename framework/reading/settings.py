"""ReaderSettings: how a cluster is reached, as a value that may be pickled and shown.

It holds references to credentials and never the credentials: they are read from their file or variables by each process
that connects. It opens no connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from framework.errors import shorten
from framework.mistakes import ArgumentWrong, CredentialsWrong, TlsWrong
from framework.net.address import check_reach
from framework.net.credentials import Credentials
from framework.net.tls import TlsOptions

KEYS = ("access_key", "secret_key", "security_token")
_BYTES_MAX = 64 * 1024  # of a credentials file: three short lines


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Checked when made, frozen afterwards."""

    name_servers: tuple[str, ...]
    group: str = "framework_reader"
    """Named in pulls, for the broker's statistics and permissions. Reading joins no group and stores no offset."""
    credentials: str = ""
    """`file:PATH` (YAML with access_key, secret_key, security_token) or `env:PREFIX` (PREFIX_ACCESS_KEY, ...)."""
    tls: TlsOptions | None = None
    address_map: Mapping[str, str] = field(default_factory=dict)
    """{advertised: reachable}, for brokers that advertise addresses which cannot be reached from here."""
    allow: tuple[str, ...] = ()
    """Networks (CIDR) that brokers may be in; empty: wherever the routes say."""
    request_timeout_ms: int = 3_000
    retries: int = 3
    """How often a request is made again, elsewhere where there is an elsewhere, before it fails."""
    patience_ms: int = 0
    """For how long a request is made again beyond that, while its broker or all name servers are away."""
    batch: int = 1_024
    """Messages asked for in one pull. A stock broker answers with 32 of those that lie in its memory."""

    def __post_init__(self) -> None:
        check_reach(self.name_servers, self.address_map, self.allow)
        for name, least in (("request_timeout_ms", 1), ("retries", 0), ("patience_ms", 0), ("batch", 1)):
            if getattr(self, name) < least:
                raise ArgumentWrong(f"{name} {getattr(self, name)}: must be at least {least}")
        kind, _, rest = self.credentials.partition(":")
        if self.credentials and (kind not in {"file", "env"} or not rest):
            # The text may be a secret that somebody put there by mistake, so it is not repeated.
            raise CredentialsWrong("credentials: write a reference, file:PATH or env:PREFIX, never the keys themselves")
        if self.tls is not None and self.tls.key_password:
            raise TlsWrong("tls: a key's password cannot travel to other processes; give a key without one")

    def resolve_credentials(self) -> Credentials | None:
        """What the reference stands for here and now; None where there is none."""
        if not self.credentials:
            return None
        kind, _, rest = self.credentials.partition(":")
        found = _from_file(Path(rest)) if kind == "file" else _from_environment(rest)
        if not found.get("access_key") or not found.get("secret_key"):
            wanted = "access_key and secret_key" if kind == "file" else f"{rest}_ACCESS_KEY and {rest}_SECRET_KEY"
            raise CredentialsWrong(f"credentials {self.credentials}: {wanted} must be set")
        return Credentials(found["access_key"], found["secret_key"], found.get("security_token") or None)


def _from_environment(prefix: str) -> dict[str, str]:
    return {key: os.environ.get(f"{prefix}_{key.upper()}", "") for key in KEYS}


def _from_file(path: Path) -> dict[str, str]:
    from framework.settings import document  # YAML only where somebody has such a file

    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise CredentialsWrong(f"credentials file {str(path)!r}: {reason}") from error
    if len(data) > _BYTES_MAX:
        raise CredentialsWrong(f"credentials file {str(path)!r}: larger than {_BYTES_MAX} bytes")
    values = document.parsed(text, path.name).values
    strangers = sorted(str(key) for key in values if key not in KEYS)
    if strangers:
        raise CredentialsWrong(
            f"credentials file {str(path)!r}: unknown {shorten(strangers[0])}; use {', '.join(KEYS)}"
        )
    return {str(key): str(value) for key, value in values.items() if value is not None}
