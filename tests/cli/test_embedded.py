"""`cluster.embedded: true`: the box comes and goes with `run`, and keeps what it has where a folder is named."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from framework.cli.embedded import embedded
from framework.cli.exit_codes import ExitCode
from framework.errors import ConfigurationError
from framework.settings.schema import ClusterSettings
from tests.cli.processes import command
from tests.cli.test_run import shop
from tests.interop import probe
from tests.patience import PATIENCE_S
from tests.ports import free_port


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def embedding(folder: Path, *bodies: str, address: str = "", data: str = "box") -> Path:
    shop(folder, *bodies)
    settings = folder / "framework-app.yaml"
    cluster = f"cluster: {{embedded: true, embedded_data: {data}, name_servers: ['{address or free_address()}'], "
    settings.write_text(settings.read_text().replace("cluster: {", cluster))
    return folder


def test_an_application_brings_its_broker_along_and_finds_its_messages_again(tmp_path: Path) -> None:
    with command("run", "--json", folder=embedding(tmp_path, "a", "b")) as run:
        assert {"key-a", "key-b"} == {json.loads(run.line())["key"] for _ in range(2)}
        assert 0 == run.end()
    assert (tmp_path / "box" / "broker.db").exists()

    # What was handled is committed, and what comes now follows it.
    with command("run", "--json", "--until-idle", "1s", folder=embedding(tmp_path, "c")) as run:
        assert "key-c" == json.loads(run.line())["key"]
        assert 0 == run.end(None)
    assert 1 == json.loads(run.lines[-1])["handled"]


def test_several_processes_share_the_one_that_their_parent_has(tmp_path: Path) -> None:
    folder = embedding(tmp_path, "a", data="''")
    seen = set[str]()
    with command("run", "--workers", "2", "--json", folder=folder) as run:
        while len(seen) < 2:  # each of the two sends one, and may be given the other's
            seen.add(json.loads(run.line())["message_id"])
        assert 0 == run.end()


def test_an_address_that_is_taken_is_73(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with command("run", folder=embedding(tmp_path, address=address)) as run:
            assert ExitCode.TAKEN == run.end(None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name_servers": ["127.0.0.1:1", "127.0.0.1:2"]}, "write one, not 127.0.0.1:1, 127.0.0.1:2"),
        ({"name_servers": ["10.0.0.5:9876"]}, "only on this machine"),
        ({"tls": {"enabled": True}}, "no TLS and no keys"),
        ({"credentials": {"access_key": "a", "secret_key": "b"}}, "no TLS and no keys"),
    ],
)
def test_what_it_cannot_be_is_refused(changes: dict[str, Any], reason: str) -> None:
    cluster = ClusterSettings.model_validate({"embedded": True, **changes})

    async def start() -> None:
        async with embedded(cluster, alone=True):
            pass

    with pytest.raises(ConfigurationError, match=reason):
        asyncio.run(start())


def second_answer(address: str) -> int:
    """The code that one connection is answered while another, which has been answered, is open."""
    host, _, port = address.rpartition(":")
    header = json.dumps({"code": probe.GET_CLUSTER, "language": "PYTHON", "opaque": 1, "flag": 0}).encode()
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as first:
        first.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
        assert first.recv(4), "a connection that never asked for anything would make room"
        return probe.ask(address, probe.GET_CLUSTER)[0]


def test_limits_are_those_of_the_settings() -> None:
    address = free_address()
    cluster = ClusterSettings.model_validate(
        {"embedded": True, "name_servers": [address], "embedded_limits": {"connections": "1", "message": "1KiB"}}
    )

    async def within() -> int:
        async with embedded(cluster, alone=True):
            return await asyncio.to_thread(second_answer, address)

    assert 2 == asyncio.run(within()), "one connection is one too many"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"connection": "1"}, "no limit 'connection'; did you mean 'connections'"),
        ({"message": "16MiB"}, "'message: 16MiB': message is a size such as 4MiB, from 1B to 15MiB"),
        ({"topics": "many"}, "topics is a whole number, from 1 to 1,000,000"),
    ],
)
def test_limits_that_will_not_do_are_mistakes_of_the_settings(limits: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(reason)):
        ClusterSettings.model_validate({"embedded": True, "embedded_limits": limits})


def test_nothing_listens_where_none_is_asked_for() -> None:
    address = free_address()

    async def within() -> int:
        async with embedded(ClusterSettings.model_validate({"name_servers": [address]}), alone=True):
            return (await asyncio.to_thread(probe.ask, address, probe.GET_CLUSTER))[0]

    assert -1 == asyncio.run(within())
