"""Java's clients over TLS against the broker in the box: the certificate is checked, and what is sent is consumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from tests.cli.processes import command
from tests.interop.java_peer import JavaPeer, Outgoing, PeerError
from tests.interop.processes import Nursery

# Each wait has a bound; all of them twice is more than a test usually may take.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.xdist_group("box_tls")]

# A JVM that loads an OpenSSL of its own does so with its first connection, on a thread of Netty's, and once it waited
# there for ever: the channel was open, and it said nothing on it. That class loading and native libraries can block
# each other is known of Netty (netty/netty#11209). Java's own TLS is the same on the wire, and loads nothing.
JAVAS_OWN_TLS = {"io.netty.handler.ssl.noOpenSsl": "true"}
# On a busy machine a first handshake may still take longer than Java's client gives a request.
ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Guarded:
    """A box behind TLS, and where the authority's certificate lies that its own is of."""

    name_server: str
    authority: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    certificate, authority = folder / "box.pem", folder / "ca.pem"
    certificate.touch(mode=0o600)
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    ca.cert_pem.write_to_path(authority)
    with command("broker", "--memory", "--tls-cert", str(certificate), folder=folder) as box:
        yield Guarded(box.until("broker: ready").split("namesrv=")[1].split()[0], authority)
        assert 0 == box.end()


def peer(nursery: Nursery, folder: Path, authority: Path) -> JavaPeer:
    """A JVM that speaks TLS and believes this authority alone."""
    settings = folder / "tls.properties"
    settings.write_text(f"tls.client.authServer=true\ntls.client.trustCertPath={authority}\n")
    properties = {"tls.enable": "true", "tls.test.mode.enable": "false", "tls.config.file": str(settings)}
    return JavaPeer(nursery, properties={**properties, **JAVAS_OWN_TLS})


def test_what_is_sent_over_tls_is_consumed_over_tls(guarded: Guarded, nursery: Nursery, tmp_path: Path) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        java = peer(nursery, tmp_path, guarded.authority)
        try:
            (sent,) = java.send(guarded.name_server, "private", [Outgoing(body=b"in private", keys="k")])
            member = java.consume(guarded.name_server, "readers", "private")
            received = member.received(1)
            member.leave()
            break
        except PeerError:
            if attempt == ATTEMPTS:
                raise
        finally:
            java.close()

    assert "SEND_OK" == sent.status
    assert {b"in private"} == {message.body for message in received}
