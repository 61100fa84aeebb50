"""The dashboard in Chromium, of an application on the broker in the box."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.dashboard.driving import Drives, Shop, open_shop

pytestmark = [pytest.mark.xdist_group("chromium"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


class TestOnTheBox(Drives):
    """All of them."""
