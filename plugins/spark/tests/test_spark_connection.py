"""Options that say how a cluster is reached, each against a box that asks for it: keys by reference, TLS both ways."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import trustme
from framework_spark import cluster_of
from framework_spark.connection import options_of, tell, told
from framework_spark.datasource import RocketMQ
from framework_spark.options import sink_options
from framework_spark.outgoing import Outgoing
from framework_spark.plugin import SparkPlugin
from framework_spark.runner import SparkRunner
from framework_spark.schema import SCHEMA
from framework_spark.settings import SparkSettings
from framework_spark.sink import send_rows
from pyspark.sql.datasource import CaseInsensitiveDict

from framework import Message
from framework.broker.rules import Rule, User
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.model.queue import MessageQueue
from framework.net.tls import TlsOptions
from framework.settings.schema import AppSettings, ClusterSettings
from tests.reading.tables import Given
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


def copied(frame: Any) -> None:
    copies = frame.select("body").write.format("rocketmq")
    copies.options(**cluster_of(frame.sparkSession), topic="copies").mode("append").save()


@pytest.mark.timeout(600)
def test_what_a_handler_writes_goes_where_its_messages_come_from(spark: Any, tmp_path: Path) -> None:
    """Wherever a command says that this is, with its keys and its certificates."""
    keys, ca = tmp_path / "keys.yaml", trustme.CA()
    keys.write_text("access_key: us\nsecret_key: sesame\n")
    keys.chmod(0o600)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = ca.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    (tmp_path / "server.pem").chmod(0o600)
    server = TlsOptions(cert_file=str(tmp_path / "server.pem"), key_file=str(tmp_path / "server.pem"))
    rules = (Rule("Topic", "*", frozenset(("Pub", "Sub"))), Rule("Group", "*", frozenset(("Sub",))))
    with thread_box(auth=[User("us", "sesame", rules=rules)], tls=server) as box:
        cluster = ClusterSettings.model_validate(
            {
                "name_servers": [box.address],
                "credentials": {"access_key": "us", "secret_key": "sesame", "file": str(keys)},
                "tls": {"enabled": True, "ca_file": str(tmp_path / "ca.pem")},
            }
        )
        given = options_of(cluster, "test")
        runner = SparkRunner(Given(spark))
        runner.reaches(cluster)
        found = [Message("orders", each, queue=MessageQueue("orders", "a", 0), queue_offset=0) for each in ALL]
        assert None is runner.prepared(copied, "copied", "copied")(found)
        assert ALL == read(**{**given, "topic": "copies"})


def test_the_plugin_tells_what_a_command_said_of_the_cluster() -> None:
    """In `mode: driver` nothing else knows of it."""
    runner = SparkPlugin(SparkSettings())
    runner.app_started(SimpleNamespace(settings=AppSettings.model_validate({"cluster": {"name_servers": ["far:1"]}})))
    assert {"nameServers": "far:1"} == runner._runner._sessions.cluster

    session = Conf()
    with pytest.raises(ConfigurationError, match=r"this session is of no handler with engine=.spark."):
        cluster_of(session)
    tell(session, told(ClusterSettings.model_validate({"name_servers": ["a:1"], "allow": ["10.0.0.0/8"]})))
    with pytest.raises(ConfigurationError, match=r"cluster\.allow do not reach executors"):
        cluster_of(session)


class Conf:
    """As much of a session as has settings."""

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}

    @property
    def conf(self) -> Conf:
        return self

    def set(self, name: str, value: str) -> None:
        self._settings[name] = value

    def get(self, name: str, default: None) -> str | None:
        return self._settings.get(name, default)
