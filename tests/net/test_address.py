"""Addresses: what is a legal one, and which may be dialled."""

from __future__ import annotations

import pytest

from framework.errors import ConfigurationError
from framework.net.address import AllowList, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port", "plain"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876, "127.0.0.1:9876"),
        (" broker-a.example:10911 ", "broker-a.example", 10911, "broker-a.example:10911"),
        ("http://ns:9876", "ns", 9876, "ns:9876"),
        ("https://ns:9876/", "ns", 9876, "ns:9876"),
        ("[::1]:9876", "::1", 9876, "[::1]:9876"),
        ("[fe80::1%eth0]:9876", "fe80::1%eth0", 9876, "[fe80::1%eth0]:9876"),
        ("my_broker:1", "my_broker", 1, "my_broker:1"),
    ],
)
def test_legal_addresses(text: str, host: str, port: int, plain: str) -> None:
    address = parse_address(text)

    assert (host, port) == (address.host, address.port)
    assert plain == str(address)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("127.0.0.1", "write host:port"),
        (":9876", "write host:port"),
        ("", "write host:port"),
        ("h:0", "the port must be 1 to 65535"),
        ("h:65536", "the port must be 1 to 65535"),
        ("h:-1", "the port must be 1 to 65535"),
        ("h:٣", "the port must be 1 to 65535"),
        ("h:99999999999999999999", "the port must be 1 to 65535"),
        ("::1:9876", r"write an IPv6 address as \[address\]:port"),
        ("a:1;b:1", r'several are a list: \["first:9876", "second:9876"\]'),
        ("a:1,b:1", "several are a list"),
        ("a b:1", "not a host name or IP address"),
        ("a\nb:1", "not a host name or IP address"),
        ("[abc]:1", "not a host name or IP address"),
        ("h" * 10_240 + ":1", "not a host name or IP address of up to 253"),
        ("user@host:1", "not a host name"),
    ],
)
def test_illegal_addresses_say_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as caught:
        parse_address(text, "name server")

    assert str(caught.value).startswith("name server ")
    assert len(str(caught.value)) < 250


def test_the_allow_list_knows_networks_and_leaves_names_for_later() -> None:
    allow = AllowList(["10.0.0.0/8", "fd00::/8"])

    assert not allow.refuses("10.1.2.3")
    assert not allow.refuses("fd00::1")
    assert allow.refuses("169.254.169.254")
    assert allow.refuses("::1")
    assert allow.refuses("broker.example") is None
    assert "10.0.0.0/8, fd00::/8" == str(allow)


def test_an_empty_allow_list_leaves_names_for_later_too() -> None:
    assert AllowList().refuses("broker.example") is None
    assert not AllowList().refuses_peer("a host without an address")
    assert not AllowList()
    assert "everything" == str(AllowList())


def test_a_network_that_is_none_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"allow '10.0.0.1/8'.*10.0.0.0/8"):
        AllowList(["10.0.0.1/8"])


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe", "100.100.100.200", "fd00:ec2::254", "224.0.0.1", "ff02::1",
    ],
)  # fmt: skip
def test_where_no_broker_is_nobody_is_sent_unless_the_user_says_so(host: str) -> None:
    """A name server, or who stands in its place, could have us ask a cloud's metadata service."""
    nothing, said = AllowList(), AllowList(["169.254.0.0/16", "fe80::/10", "0.0.0.0/0", "::/0"])

    assert nothing.refuses(host)
    assert nothing.refuses_peer(host)
    assert f"{host} is a link-local, metadata or multicast address; add it to cluster.allow" in nothing.reason(host)
    assert not said.refuses(host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "100.100.100.201", "fd00::1", "::1", "170.0.0.1", "64:ff9b::a00:1"]
)
def test_everywhere_else_may_be_a_broker(host: str) -> None:
    assert AllowList().refuses(host) is False
    assert not AllowList().refuses_peer(host)


def test_a_mapped_address_is_the_one_that_it_stands_for() -> None:
    assert not AllowList(["10.0.0.0/8"]).refuses("::ffff:10.1.2.3")
    assert AllowList(["10.0.0.0/8"]).refuses("::ffff:11.1.2.3")
