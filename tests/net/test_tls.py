"""TLS over real loopback sockets, and contexts from files."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import trustme

from framework.errors import BrokerUnreachable, ConfigurationError
from framework.net.channel import Channel
from framework.net.listener import Listener
from framework.net.pool import Pool
from framework.net.real_world import real_world
from framework.net.tls import TlsOptions, client_context, handshake_trouble, server_context
from framework.wire.command import RemotingCommand
from tests.patience import PATIENCE_S

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.net.pool.CONNECT_SECONDS", PATIENCE_S)
    monkeypatch.setattr("framework.net.real_world.HANDSHAKE_SECONDS", PATIENCE_S)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(ca: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return str(path)


def files_of(cert: trustme.LeafCert, folder: Path) -> TlsOptions:
    cert.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    cert.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "key.pem").chmod(0o600)
    return TlsOptions(cert_file=str(folder / "cert.pem"), key_file=str(folder / "key.pem"))


def reply(channel: Channel, command: RemotingCommand) -> None:
    channel.answer(command, RemotingCommand(0, remark="hello"))


async def ask(server_tls: ssl.SSLContext | None, client: TlsOptions | None, *, host: str = "127.0.0.1") -> str | None:
    """One request against a listener; answers the remark or raises what the pool raises."""
    world = real_world()
    listener = Listener(world, "127.0.0.1", 0, on_request=reply, tls=server_tls)
    port = await listener.start()
    pool = Pool(world, tls=client)
    try:
        return (await pool.request(f"{host}:{port}", RemotingCommand(30), timeout_ms=60_000)).remark
    finally:
        await pool.close()
        await listener.close()


def refusal(server_tls: ssl.SSLContext | None, client: TlsOptions | None) -> str:
    with pytest.raises(BrokerUnreachable) as caught:
        asyncio.run(ask(server_tls, client))
    return str(caught.value)


def test_a_trusted_certificate_is_accepted(ca: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    server = server_context(files_of(ca.issue_cert("127.0.0.1"), tmp_path))

    assert "hello" == asyncio.run(ask(server, TlsOptions(ca_file=ca_file)))


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ("other.example", "certificate is not valid for '127.0.0.1'"),
        ("127.0.0.2", "certificate is not valid for '127.0.0.1'"),
    ],
)
def test_a_certificate_for_another_host_is_refused(
    ca: trustme.CA, ca_file: str, tmp_path: Path, identity: str, reason: str
) -> None:
    """Whatever address a route gives, the certificate must name it."""
    server = server_context(files_of(ca.issue_cert(identity), tmp_path))

    message = refusal(server, TlsOptions(ca_file=ca_file))

    assert "certificate refused for 127.0.0.1" in message
    assert reason in message
    assert message.endswith("; correct the address, or set cluster.tls.server_name")


def test_server_name_says_which_name_to_expect(ca: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    server = server_context(files_of(ca.issue_cert("broker.example"), tmp_path))

    assert "hello" == asyncio.run(ask(server, TlsOptions(ca_file=ca_file, server_name="broker.example")))
    assert "certificate refused for other.example: Hostname mismatch" in refusal(
        server, TlsOptions(ca_file=ca_file, server_name="other.example")
    )


@pytest.mark.parametrize(
    ("life", "reason"),
    [
        ({"not_before": NOW - timedelta(days=9000), "not_after": NOW - timedelta(days=8000)}, "has expired"),
        ({"not_before": NOW + timedelta(days=8000), "not_after": NOW + timedelta(days=9000)}, "not yet valid"),
    ],
)
def test_a_certificate_out_of_its_time_is_refused(
    ca: trustme.CA, ca_file: str, tmp_path: Path, life: dict[str, Any], reason: str
) -> None:
    server = server_context(files_of(ca.issue_cert("127.0.0.1", **life), tmp_path))

    assert reason in refusal(server, TlsOptions(ca_file=ca_file))


def test_a_certificate_of_a_stranger_is_refused(ca_file: str, tmp_path: Path) -> None:
    server = server_context(files_of(trustme.CA().issue_cert("127.0.0.1"), tmp_path))

    for options in (TlsOptions(ca_file=ca_file), TlsOptions()):
        message = refusal(server, options)
        assert "certificate refused for 127.0.0.1: " in message
        assert message.endswith("; name its issuer in cluster.tls.ca_file")


def test_verify_false_works_and_warns_once_a_start(tmp_path: Path) -> None:
    server = server_context(files_of(trustme.CA().issue_cert("other.example"), tmp_path))

    with structlog.testing.capture_logs() as logs:
        assert "hello" == asyncio.run(ask(server, TlsOptions(verify=False)))

    assert ["warning"] == [entry["log_level"] for entry in logs if entry["event"] == "certificates not verified"]


def refusal_by(server_tls: ssl.SSLContext, client: TlsOptions | None) -> str:
    """The same against a blocking server, which sends its alerts; asyncio's closes before they are out."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(PATIENCE_S)

    def serve() -> None:
        with listening, listening.accept()[0] as connection, contextlib.suppress(OSError):
            server_tls.wrap_socket(connection, server_side=True).close()

    async def story() -> str:
        world = real_world()
        served = world.workers.run(serve)
        pool = Pool(world, tls=client)
        try:
            await pool.request(f"127.0.0.1:{listening.getsockname()[1]}", RemotingCommand(30), timeout_ms=60_000)
        except BrokerUnreachable as error:
            await served
            return str(error)
        finally:
            await pool.close()
        raise AssertionError("was not refused")

    return asyncio.run(story())


def test_old_versions_are_refused(ca: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    server = server_context(files_of(ca.issue_cert("127.0.0.1"), tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        server.minimum_version = ssl.TLSVersion.TLSv1
        server.maximum_version = ssl.TLSVersion.TLSv1_1
    server.set_ciphers("ALL:@SECLEVEL=0")

    assert "peer offers no TLS 1.2 or newer" in refusal_by(server, TlsOptions(ca_file=ca_file))
    assert ssl.TLSVersion.TLSv1_2 == client_context(TlsOptions()).minimum_version


def test_a_plain_broker_is_named_and_never_spoken_to_in_plain_text(ca_file: str) -> None:
    assert "may not speak TLS" in refusal(None, TlsOptions(ca_file=ca_file))


def test_a_plain_client_at_a_tls_port_is_told_so(ca: trustme.CA, tmp_path: Path) -> None:
    """Where its alert arrives before the end, the channel names it (tests of the channel)."""
    server = server_context(files_of(ca.issue_cert("127.0.0.1"), tmp_path))

    assert "it may be a TLS port" in refusal_by(server, None)
    assert "it may be a TLS port" in refusal(server, None)


def test_a_client_certificate_is_given_where_asked_for(ca: trustme.CA, ca_file: str, tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    own = replace(files_of(ca.issue_cert("127.0.0.1"), tmp_path), ca_file=ca_file)
    server = server_context(own, client_certificates=True)
    client = replace(files_of(ca.issue_cert("client"), tmp_path / "client"), ca_file=ca_file)

    assert "hello" == asyncio.run(ask(server, client))
    message = refusal(server, TlsOptions(ca_file=ca_file))
    assert "lost" in message or "closed" in message


def encrypted(cert: trustme.LeafCert, folder: Path, password: bytes) -> TlsOptions:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.load_pem_private_key(cert.private_key_pem.bytes(), None)
    options = files_of(cert, folder)
    Path(options.key_file).write_bytes(
        plain.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )
    return options


def test_trouble_with_key_files_is_named(ca: trustme.CA, tmp_path: Path) -> None:
    cert = ca.issue_cert("client")
    options = encrypted(cert, tmp_path, b"open sesame")
    client_context(replace(options, key_password="open sesame"))

    def trouble(changed: TlsOptions) -> str:
        with pytest.raises(ConfigurationError) as caught:
            client_context(changed)
        assert "sesame" not in str(caught.value)
        return str(caught.value)

    assert "wrong tls.key_password" in trouble(replace(options, key_password="sesame street"))
    assert "is encrypted: give tls.key_password" in trouble(options)
    assert "no such file" in trouble(replace(options, key_file="/nowhere/key.pem"))
    assert "give tls.cert_file as well" in trouble(replace(options, cert_file=""))
    assert "tls.ca_file '/nowhere/ca.pem': no such file" in trouble(TlsOptions(ca_file="/nowhere/ca.pem"))
    (tmp_path / "junk.pem").write_text("junk")
    assert "no certificate in PEM form" in trouble(TlsOptions(ca_file=str(tmp_path / "junk.pem")))
    assert "no certificate in PEM form in" in trouble(replace(options, cert_file=str(tmp_path / "junk.pem")))
    assert "no key in PEM form" in trouble(replace(options, key_file=str(tmp_path / "junk.pem")))
    (tmp_path / "other").mkdir()
    other = files_of(ca.issue_cert("other"), tmp_path / "other")
    assert "does not belong to the certificate" in trouble(replace(other, cert_file=options.cert_file))
    with pytest.raises(ConfigurationError, match="a listener needs cert_file"):
        server_context(TlsOptions())


def test_a_key_that_others_may_read_is_warned_about(ca: trustme.CA, tmp_path: Path) -> None:
    options = files_of(ca.issue_cert("client"), tmp_path)
    Path(options.key_file).chmod(0o644)

    with structlog.testing.capture_logs() as logs:
        client_context(options)

    assert [("key readable by others", "chmod 600")] == [(entry["event"], entry["remedy"]) for entry in logs]


def test_options_show_no_password() -> None:
    assert "sesame" not in repr(TlsOptions(key_password="open sesame"))


def test_errors_that_tls_is_not_to_blame_for_keep_their_text() -> None:
    assert handshake_trouble(ConnectionRefusedError(111, "Connection refused"), "host") is None
    assert "TLS handshake failed: handshake failure" == handshake_trouble(ssl.SSLError(1, "handshake failure"), "host")
