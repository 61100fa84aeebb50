"""The dashboard in Chromium, of an application on a real cluster of its own: it knows all groups and topics there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.dashboard.driving import Drives, Shop, open_shop
from tests.interop.cluster import Cluster
from tests.interop.processes import Nursery

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.xdist_group("dashboard")]


@pytest.fixture(scope="module")
def shop(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with (
        Cluster(tmp_path_factory.mktemp("cluster"), nursery) as cluster,
        open_shop(tmp_path_factory.mktemp("shop"), cluster.name_server) as shop,
    ):
        yield shop


class TestOnARealCluster(Drives):
    """All of them; how views are drawn does not depend on the broker."""

    @pytest.mark.slow
    def test_each_view_is_readable_fits_and_runs_nothing_of_what_others_chose(self, shop: Shop) -> None:
        super().test_each_view_is_readable_fits_and_runs_nothing_of_what_others_chose(shop)
