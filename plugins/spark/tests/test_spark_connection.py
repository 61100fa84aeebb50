"""Options that say how a cluster is reached, each against a box that asks for it: keys by reference, TLS both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme
from framework_spark.datasource import RocketMQ
from framework_spark.options import sink_options
from framework_spark.outgoing import Outgoing
from framework_spark.schema import SCHEMA
from framework_spark.sink import send_rows
from pyspark.sql.datasource import CaseInsensitiveDict

from framework.broker.rules import Rule, User
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.net.tls import TlsOptions
from tests.reading.threads import thread_box


def sent(**options: str) -> int:
    batch = pa.RecordBatch.from_pydict({"body": [f"m{n}" for n in range(5)]})
    given = sink_options({"topic": "orders", **options})
    rows = Outgoing(given, iter([batch]), "q/0/0")
    send_rows(given, rows)
    return rows.sent


def read(**options: str) -> list[bytes]:
    given: Any = CaseInsensitiveDict({"topic": "orders", **options})
    reader = RocketMQ(given).reader(SCHEMA)
    return sorted(
        body
        for piece in reader.partitions()
        for batch in reader.read(piece)
        for body in batch.column("body").to_pylist()
    )


ALL = [f"m{n}".encode() for n in range(5)]


def test_keys_are_read_where_the_reference_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And stand in no option: what Spark shows and pickles is the reference."""
    path, wrong = tmp_path / "keys.yaml", tmp_path / "wrong.yaml"
    path.write_text("access_key: us\nsecret_key: sesame\n")
    wrong.write_text("access_key: us\nsecret_key: guess\n")
    monkeypatch.setenv("SHOP_ACCESS_KEY", "us")
    monkeypatch.setenv("SHOP_SECRET_KEY", "sesame")
    rules = (Rule("Topic", "*", frozenset(("Pub", "Sub"))), Rule("Group", "*", frozenset(("Sub",))))
    with thread_box(auth=[User("us", "sesame", rules=rules)]) as box:
        assert 5 == sent(nameServers=box.address, credentials=f"file:{path}")
        assert ALL == read(nameServers=box.address, credentials=f"file:{path}")
        assert ALL == read(nameServers=box.address, credentials="env:SHOP")
        for reference in ("", f"file:{wrong}"):
            with pytest.raises(Refused):
                read(nameServers=box.address, credentials=reference)
            with pytest.raises(Refused):
                sent(nameServers=box.address, credentials=reference)
        with pytest.raises(ConfigurationError, match="credentials env:NOBODY: NOBODY_ACCESS_KEY and NOBODY_SECRET_KEY"):
            read(nameServers=box.address, credentials="env:NOBODY")


def test_tls_is_verified_on_both_sides(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, host in (("server", "127.0.0.1"), ("client", "executor")):
        issued = ca.issue_cert(host)
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        (tmp_path / f"{name}.key").chmod(0o600)
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")

    server = TlsOptions(
        ca_file=str(tmp_path / "ca.pem"),
        cert_file=str(tmp_path / "server.pem"),
        key_file=str(tmp_path / "server.key"),
    )
    with thread_box(tls=server) as box:
        trusting = {"nameServers": box.address, "tls": "true", "tlsCaFile": str(tmp_path / "ca.pem")}
        own = {"tlsCertFile": str(tmp_path / "client.pem"), "tlsKeyFile": str(tmp_path / "client.key")}
        assert 5 == sent(**trusting, **own)
        assert ALL == read(**trusting, **own)
        with pytest.raises(BrokerUnreachable):
            read(**trusting, brokerWait="0s")
        with pytest.raises(BrokerUnreachable, match="certificate refused"):
            read(nameServers=box.address, tls="true", brokerWait="0s", **own)
        with pytest.raises(BrokerUnreachable):
            read(nameServers=box.address, brokerWait="0s")
