"""A broker in the box, reached as an operator reaches one; each test takes topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from framework.admin.cluster import Admin
from framework.client.options import ClusterOptions
from tests.reading.threads import ThreadBox, thread_box

_NUMBERS = count()


@pytest.fixture(scope="session")
def box() -> Iterator[ThreadBox]:
    with thread_box(brokers=2) as box:
        yield box


@pytest.fixture
def admin(box: ThreadBox) -> Iterator[Admin]:
    with Admin(ClusterOptions(name_servers=(box.address,))) as admin:
        yield admin


@pytest.fixture
def topic() -> str:
    return f"asked-{next(_NUMBERS)}"
