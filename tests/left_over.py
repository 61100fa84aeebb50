"""A fixture for conftests: what a file of tests left open is found at its end, and not in somebody else's test."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def nothing_left_over() -> Iterator[None]:
    """A warning about a socket that was never closed comes when garbage is collected, and every warning is an error."""
    yield
    gc.collect()
    gc.freeze()  # what is left is needed: it is looked at no more, or each file would cost more than the one before
