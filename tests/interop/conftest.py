"""A real cluster that processes of tests share, a JVM beside each. Each test takes topics and groups of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.interop import shared
from tests.interop.application import Application
from tests.interop.cluster import Addresses, Cluster
from tests.interop.command import developers_cluster
from tests.interop.java_peer import JavaPeer
from tests.interop.live import Live, NewTopic
from tests.interop.mqadmin import Admin
from tests.interop.places import Place, start_box
from tests.interop.processes import Nursery

LONE = pytest.StashKey[Cluster]()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Whoever starts a process in a test starts it here, and it is gone when the run is."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="session")
def shared_cluster(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Tests of other processes use it meanwhile, under other names."""
    if (running := developers_cluster()) is not None:
        yield running
    elif (folder := shared.chosen(tmp_path_factory.getbasetemp().parent)) is not None:
        yield shared.start(folder)
    else:
        with Cluster(tmp_path_factory.mktemp("cluster"), nursery) as cluster:
            yield cluster.addresses


@pytest.fixture(scope="session")
def unshared_cluster(
    request: pytest.FixtureRequest, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    request.config.stash[LONE] = cluster = Cluster(tmp_path_factory.mktemp("lone-cluster"), nursery)
    yield cluster
    cluster.stop()


@pytest.fixture
def lone_cluster(unshared_cluster: Cluster) -> Cluster:
    """With stock settings. One test at a time uses it, which may kill what it likes; the next starts it again."""
    unshared_cluster.start()
    return unshared_cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Addresses:
    """A name server and a broker with stock settings; tests that need others from the start on start their own.

    Tests of the group `lone_cluster` may change them, if they set them back, and look at all that there is.
    """
    if not is_alone(request.node):
        everybodys: Addresses = request.getfixturevalue("shared_cluster")
        return everybodys
    lone: Cluster = request.getfixturevalue("lone_cluster")
    return lone.addresses


def is_alone(item: pytest.Item | None) -> bool:
    group = None if item is None else item.get_closest_marker("xdist_group")
    return group is not None and group.args == ("lone_cluster",)


@pytest.hookimpl(trylast=True)  # behind the test's own fixtures, which may still ask it
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A broker that nobody asks costs a tenth of a core: when a process is through with that group, it stops it."""
    if (lone := item.config.stash.get(LONE, None)) is not None and not is_alone(nextitem):
        lone.stop()


@pytest.fixture(scope="session")
def java(nursery: Nursery) -> Iterator[JavaPeer]:
    """RocketMQ's own producer and push consumer."""
    peer = JavaPeer(nursery)
    yield peer
    peer.close()


@pytest.fixture
def admin(java: JavaPeer, cluster: Addresses) -> Admin:
    """mqadmin for the real cluster."""
    return Admin(java, cluster.name_server)


@pytest.fixture(scope="session")
def box(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, numbers: Callable[[], str]) -> Place:
    """The broker in the box, in memory; what fails comes back after a second."""
    return Place(start_box(nursery, tmp_path_factory.mktemp("box")), numbers)


@pytest.fixture(params=["real", "box"])
def place(request: pytest.FixtureRequest) -> Place:
    """A test that takes this runs twice: what holds on a real cluster must hold in the box."""
    if request.param == "box":
        box: Place = request.getfixturevalue("box")
        return box
    return Place(request.getfixturevalue("cluster").name_server, request.getfixturevalue("numbers"))


@pytest.fixture(scope="session")
def numbers() -> Callable[[], str]:
    """Endings for names that nobody had before, also not in an earlier run against the same cluster."""
    numbers = count()
    return lambda: f"{os.getpid()}-{next(numbers)}"


@pytest.fixture
def new_topic(admin: Admin, numbers: Callable[[], str]) -> Callable[..., str]:
    """Creates topics on the real cluster."""

    def create(*, queues: int = 4) -> str:
        topic = f"topic-{numbers()}"
        admin.run("updateTopic", "-c", "DefaultCluster", "-t", topic, "-r", str(queues), "-w", str(queues))
        return topic

    return create


@pytest.fixture
def begin(
    admin: Admin, cluster: Addresses, new_topic: NewTopic, nursery: Nursery, tmp_path: Path
) -> Callable[..., Live]:
    """Starts a member of a new group on a new topic."""

    def begin(*, queues: int = 4, **options: object) -> Live:
        topic = new_topic(queues=queues)
        group = f"members-of-{topic}"
        application = Application(
            nursery,
            tmp_path,
            cluster.name_server,
            topic=topic,
            group=group,
            **options,  # type: ignore[arg-type]
        )
        return Live(application, admin, topic, group)

    return begin
