"""Addresses as texts: `host:port`, `[v6]:port`, with or without `http://` in front. It owns what is a legal one.

It resolves nothing and dials nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from framework.errors import ConfigurationError, shorten

HOST_LENGTH_MAX = 253  # DNS
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_V6 = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?")
_SCHEME = re.compile(r"https?://")  # the Java client accepts and strips it in front of a name server


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def text_of(peername: object) -> str:
    """What the system calls a peer, as `host:port`."""
    if isinstance(peername, tuple) and len(peername) >= 2:
        return str(Address(str(peername[0]), peername[1]))
    return str(peername or "unknown peer")


def parse_address(text: str, what: str = "address") -> Address:
    """The address, or a ConfigurationError that names `what` it is and what is wrong with it."""
    plain = _SCHEME.sub("", text.strip(), count=1).removesuffix("/")
    host, colon, port_text = plain.rpartition(":")
    if not colon or not host:
        raise ConfigurationError(f"{what} {shorten(text)}: write host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_legal = ":" in host and _V6.fullmatch(host) is not None
    elif ":" in host:
        raise ConfigurationError(f"{what} {shorten(text)}: write an IPv6 address as [address]:port")
    else:
        is_legal = len(host) <= HOST_LENGTH_MAX and _HOST.fullmatch(host) is not None
    if not is_legal:
        raise ConfigurationError(f"{what} {shorten(text)}: not a host name or IP address of up to {HOST_LENGTH_MAX}")
    if not (port_text.isascii() and port_text.isdecimal() and len(port_text) <= 5 and 0 < int(port_text) < 65536):
        raise ConfigurationError(f"{what} {shorten(text)}: the port must be 1 to 65535")
    return Address(host, int(port_text))


class AllowList:
    """Which brokers may be dialled: networks in CIDR notation. An empty list allows all."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in networks:
            try:
                self._networks.append(ip_network(text))
            except ValueError as error:
                raise ConfigurationError(f"allow {shorten(text)}: {error}; write for example 10.0.0.0/8") from error

    def __bool__(self) -> bool:
        return bool(self._networks)

    def refuses(self, host: str) -> bool | None:
        """Whether the host is outside the list; None where only its address, once connected, can tell."""
        if not self._networks:
            return False
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return None
        return not any(address in network for network in self._networks)

    def __str__(self) -> str:
        return ", ".join(str(network) for network in self._networks) or "everything"
