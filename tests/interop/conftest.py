"""One real cluster, one JVM beside it, for a whole test run. Each test takes topics and groups of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.interop.cluster import Addresses, Cluster
from tests.interop.command import developers_cluster
from tests.interop.java_peer import JavaPeer
from tests.interop.mqadmin import Admin
from tests.interop.processes import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Whoever starts a process in a test starts it here, and it is gone when the run is."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def cluster(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """A name server and a broker with stock settings; tests that kill or need other settings start their own."""
    if (running := developers_cluster()) is not None:
        yield running
        return
    with Cluster(tmp_path_factory.mktemp("cluster"), nursery) as cluster:
        yield cluster.addresses


@pytest.fixture(scope="session")
def java(nursery: Nursery) -> Iterator[JavaPeer]:
    """RocketMQ's own producer and push consumer."""
    peer = JavaPeer(nursery)
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def admin(java: JavaPeer, cluster: Addresses) -> Admin:
    """mqadmin for the real cluster."""
    return Admin(java, cluster.name_server)


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return count()


@pytest.fixture
def new_topic(admin: Admin, numbers: Iterator[int], request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates topics on the real cluster, each with a name nobody had before, also not in an earlier run."""

    def create(*, queues: int = 4) -> str:
        topic = f"{request.node.originalname}-{os.getpid()}-{next(numbers)}"
        admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", str(queues), "-w", str(queues))
        return topic

    return create
