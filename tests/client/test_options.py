"""ClusterOptions: what cannot work is refused when the options are made, and nothing secret shows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.errors import ConfigurationError, RequestTimedOut
from framework.model.queue import MessageQueue
from framework.net.credentials import Credentials
from tests.client.script import NS, ScriptedCluster
from tests.net.memory import virtually


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name_servers": ()}, "give at least one host:port"),
        ({"name_servers": ("ns",)}, "name server 'ns': write host:port"),
        ({"address_map": {"a:1": "b"}}, "address_map 'b': write host:port"),
        ({"address_map": {"a": "b:1"}}, "address_map 'a': write host:port"),
        ({"allow": ("everything",)}, "allow 'everything'"),
        ({"request_timeout_ms": 0}, "request_timeout_ms 0: must be above 0"),
        ({"credentials": {"access_key": "me"}}, r"credentials is of type dict; write Credentials\(\.\.\.\)"),
        ({"tls": True}, r"tls is of type bool; write TlsOptions\(\.\.\.\)"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        ClusterOptions(**{"name_servers": (NS,), **options})


def test_options_show_no_secret() -> None:
    options = ClusterOptions(name_servers=(NS,), credentials=Credentials("me", "12345678"))

    assert "12345678" not in repr(options)


def test_a_cluster_is_reached_through_its_address_map() -> None:
    async def story() -> tuple[list[str], str]:
        cluster = ScriptedCluster()
        cluster.network.scripts["127.0.0.1:30911"] = cluster.broker_at("127.0.0.1:30911")
        client = Cluster(
            cluster.world, ClusterOptions(name_servers=(NS,), address_map={"10.0.0.1:10911": "127.0.0.1:30911"})
        )
        await client.routes.queues("orders")
        await client.pool.channel(client.routes.address_of("a"))
        picture = repr(client)
        await client.close()
        return cluster.network.dialled, picture

    dialled, picture = virtually(story)

    assert [NS, "127.0.0.1:30911"] == dialled
    assert f"<Cluster {NS} <RouteTable topics=1 brokers=['a', 'b']>>" == picture


def test_a_request_that_nobody_answers_is_given_up_after_the_time_that_was_chosen() -> None:
    async def story() -> float:
        cluster = ScriptedCluster(request_timeout_ms=700)
        await cluster.client.routes.queues("orders")
        cluster.both(lambda request: None)
        began = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimedOut):
            await cluster.client.brokers.max_offset(MessageQueue("orders", "a", 0))
        took = asyncio.get_running_loop().time() - began
        await cluster.client.close()
        return took

    assert 0.7 == pytest.approx(virtually(story), abs=0.01)
