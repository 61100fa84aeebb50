"""One broker in the box for the room's tests; each takes topics of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, thread_box


@pytest.fixture(scope="session")
def box() -> Iterator[ThreadBox]:
    with thread_box(brokers=2) as box:
        yield box


@pytest.fixture
def reader(box: ThreadBox) -> Iterator[Reader]:
    with Reader(ReaderSettings((box.address,))) as reader:
        yield reader


@pytest.fixture(scope="session")
def _numbers() -> Callable[[], int]:
    numbers = count()
    return lambda: next(numbers)


@pytest.fixture
def topic(_numbers: Callable[[], int]) -> str:
    return f"read-{_numbers()}"
