"""The box behind TLS: whoever speaks it is served, whoever does not is not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import trustme

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.errors import BrokerUnreachable, FrameworkError
from framework.net.pool import Pool
from framework.net.real_world import real_world
from framework.net.tls import TlsOptions
from tests.broker.broker_lab import send_command
from tests.broker.test_server import PATIENCE_MS, running
from tests.cli.processes import command


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def files(ca: trustme.CA, folder: Path, name: str = "127.0.0.1") -> TlsOptions:
    """A certificate with its key in one file, and whom to trust in another."""
    cert = ca.issue_cert(name)
    both = folder / f"{name}.pem"
    both.touch(mode=0o600)
    cert.private_key_and_cert_chain_pem.write_to_path(both)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    return TlsOptions(cert_file=str(both), ca_file=str(folder / "ca.pem"))


async def send(address: str, tls: TlsOptions | None) -> int:
    pool = Pool(real_world(), tls=tls)
    try:
        return (await pool.request(address, send_command(), timeout_ms=PATIENCE_MS)).code
    finally:
        await pool.close()


def test_clients_that_speak_tls_are_served_and_others_are_not(ca: trustme.CA, tmp_path: Path) -> None:
    own = files(ca, tmp_path)

    async def scenario() -> None:
        async with running(tls=TlsOptions(cert_file=own.cert_file)) as broker:
            assert await send(broker.address, TlsOptions(ca_file=own.ca_file)) == 0
            with pytest.raises(BrokerUnreachable):
                await send(broker.address, None)

    asyncio.run(scenario())


def test_only_clients_with_a_certificate_are_let_in_where_an_authority_is_named(ca: trustme.CA, tmp_path: Path) -> None:
    own = files(ca, tmp_path)
    client = files(ca, tmp_path, "a-client")

    async def scenario() -> None:
        async with running(tls=own) as broker:
            assert await send(broker.address, client) == 0
            with pytest.raises(FrameworkError):
                await send(broker.address, TlsOptions(ca_file=own.ca_file))

    asyncio.run(scenario())


def test_the_command_speaks_tls(ca: trustme.CA, tmp_path: Path) -> None:
    own = files(ca, tmp_path)
    with command("broker", "--memory", "--tls-cert", own.cert_file, folder=tmp_path) as broker:
        found = re.search(r"namesrv=(\S+)", broker.line())
        assert found
        assert asyncio.run(send(found[1], TlsOptions(ca_file=own.ca_file))) == 0


def test_a_key_without_its_certificate_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.USAGE == main.run(["broker", "--memory", "--tls-key", "key.pem"])
    assert "--tls-cert FILE" in capfd.readouterr().err
