"""Addresses as texts: `host:port`, `[v6]:port`, with or without `http://` in front. It owns what is a legal one.

It resolves nothing and dials nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from framework.errors import shorten
from framework.mistakes import AddressWrong

HOST_LENGTH_MAX = 253  # DNS
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_V6 = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?")
_SCHEME = re.compile(r"https?://")  # the Java client accepts and strips it in front of a name server


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def peer_of(peername: object) -> tuple[str, str]:
    """The host at a connection's other end, empty where it has none, and its address as text."""
    return (str(peername[0]) if isinstance(peername, tuple) and peername else ""), text_of(peername)


def text_of(peername: object) -> str:
    """What the system calls a peer, as `host:port`."""
    if isinstance(peername, tuple) and len(peername) >= 2:
        return str(Address(str(peername[0]), peername[1]))
    return str(peername or "unknown peer")


def parse_address(text: str, what: str = "address") -> Address:
    """The address, or a ConfigurationError that names `what` it is and what is wrong with it."""
    if ";" in text or "," in text:  # as Java's setNamesrvAddr takes several
        raise AddressWrong(f'{what} {shorten(text)}: several are a list: ["first:9876", "second:9876"]')
    plain = _SCHEME.sub("", text.strip(), count=1).removesuffix("/")
    host, colon, port_text = plain.rpartition(":")
    if not colon or not host:
        raise AddressWrong(f"{what} {shorten(text)}: write host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_legal = ":" in host and _V6.fullmatch(host) is not None
    elif ":" in host:
        raise AddressWrong(f"{what} {shorten(text)}: write an IPv6 address as [address]:port")
    else:
        is_legal = len(host) <= HOST_LENGTH_MAX and _HOST.fullmatch(host) is not None
    if not is_legal:
        raise AddressWrong(f"{what} {shorten(text)}: not a host name or IP address of up to {HOST_LENGTH_MAX}")
    if not (port_text.isascii() and port_text.isdecimal() and len(port_text) <= 5 and 0 < int(port_text) < 65536):
        raise AddressWrong(f"{what} {shorten(text)}: the port must be 1 to 65535")
    return Address(host, int(port_text))


# Link-local addresses, where clouds keep what tells an instance's secrets; two clouds keep it elsewhere. And multicast.
_NEVER_TOLD = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16", "fe80::/10", "100.100.100.200/32", "fd00:ec2::254/128", "224.0.0.0/4", "ff00::/8",
        ),
    )
)  # fmt: skip
_NAT64 = ip_network("64:ff9b::/96")


class AllowList:
    """Which brokers may be dialled: networks in CIDR notation. An empty list allows all but link-local, metadata and
    multicast addresses: a name server, or who stands in its place, shall not send us there.
    """

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for text in networks:
            try:
                self._networks.append(ip_network(text))
            except ValueError as error:
                raise AddressWrong(f"allow {shorten(text)}: {error}; write for example 10.0.0.0/8") from error

    def __bool__(self) -> bool:
        return bool(self._networks)

    def refuses(self, host: str) -> bool | None:
        """Whether the host may not be dialled; None where only its address, once connected, can tell."""
        try:
            address = _plain(ip_address(host.partition("%")[0]))
        except ValueError:
            return None
        if not self._networks:
            return any(address in network for network in _NEVER_TOLD)
        return not any(address in network for network in self._networks)

    def refuses_peer(self, host: str) -> bool:
        """The same of the address at the other end of a connection; one that cannot be told is let pass by no list."""
        refused = self.refuses(host)
        return bool(self._networks) if refused is None else refused

    def reason(self, host: str) -> str:
        """Why it refuses, and the way out."""
        if not self._networks:
            return f"{host} is a link-local, metadata or multicast address; add it to cluster.allow to have it dialled"
        return f"{host} is not in cluster.allow ({self}); add its network or map it"

    def __str__(self) -> str:
        return ", ".join(str(network) for network in self._networks) or "everything"


def check_reach(name_servers: Collection[str], address_map: Mapping[str, str], allow: Iterable[str]) -> None:
    """Raise AddressWrong for settings by which no cluster can be reached."""
    if not name_servers:
        raise AddressWrong("name_servers: give at least one host:port")
    for server in name_servers:
        parse_address(server, "name server")
    for address in (*address_map, *address_map.values()):
        parse_address(address, "address_map")
    AllowList(allow)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address inside of an IPv6 one that stands for it."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address
