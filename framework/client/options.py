"""ClusterOptions: everything that decides how a cluster is reached. Checked when made, frozen afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.mistakes import ArgumentWrong
from framework.net.address import check_reach
from framework.net.credentials import Credentials
from framework.net.tls import TlsOptions


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Where the name servers are, who we are, and how far addresses are trusted."""

    name_servers: tuple[str, ...]
    client_id: str = ""
    """How brokers know this process."""
    credentials: Credentials | None = None
    tls: TlsOptions | None = None
    address_map: Mapping[str, str] = field(default_factory=dict)
    """{advertised: reachable}, for brokers that advertise addresses which cannot be reached from here."""
    request_timeout_ms: int = 3_000
    allow: tuple[str, ...] = ()
    """Networks (CIDR) that brokers may be in; empty: wherever the routes say."""
    namespace: str = ""
    """The tenant that senders' topics belong to, where they say nothing else."""
    brokers: tuple[str, ...] = ()
    """Those that should be there: commands that look say so where no name server knows one."""

    def __post_init__(self) -> None:
        check_reach(self.name_servers, self.address_map, self.allow)
        if self.request_timeout_ms <= 0:
            raise ArgumentWrong(f"request_timeout_ms {self.request_timeout_ms}: must be above 0")
        for name, given, kind in (("credentials", self.credentials, Credentials), ("tls", self.tls, TlsOptions)):
            if given is not None and not isinstance(given, kind):
                raise ArgumentWrong(f"{name} is of type {type(given).__name__}; write {kind.__name__}(...)")
