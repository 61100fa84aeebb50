"""A broker in the box, reached as an operator reaches one; each test takes topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from framework.admin.cluster import Admin
from framework.client.options import ClusterOptions
from tests.admin.doctor_lab import Lab
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


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """`orders` with two queues on each of two brokers; the group `billing` is known, and nobody is in it."""
    options = getattr(request, "param", {})
    with ExitStack() as stack:
        lab = Lab(stack.enter_context(thread_box(**{"brokers": 2, **options})), stack)
        lab.topic("orders")
        lab.group()
        yield lab
