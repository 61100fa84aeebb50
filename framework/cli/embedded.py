"""`cluster.embedded`: the built-in broker that `run` starts, at the address of the one name server in the settings.

With several processes it runs in their parent, so that it stays while children come and go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.errors import ConfigurationError
from framework.mistakes import EmbeddedMisplaced

if TYPE_CHECKING:
    from framework.settings.schema import ClusterSettings


@asynccontextmanager
async def embedded(cluster: ClusterSettings, *, alone: bool) -> AsyncIterator[None]:
    """Within, the broker listens, if the settings ask for one. `alone`: nobody but this process needs its locks.

    A data folder or an address that is taken: StoreError, OSError.
    """
    if not cluster.embedded:
        yield
        return
    import structlog

    from framework.broker.server import Broker
    from framework.broker.settings import BrokerSettings
    from framework.net.address import parse_address
    from framework.net.real_world import real_world
    from framework.settings import broker_limits

    if len(cluster.name_servers) > 1:
        raise EmbeddedMisplaced(
            "cluster.embedded: it listens at the one address in cluster.name_servers; "
            f"write one, not {', '.join(cluster.name_servers)}"
        )
    if cluster.tls.enabled or cluster.credentials.access_key:
        raise EmbeddedMisplaced(
            "cluster.embedded: it has no TLS and no keys; remove cluster.tls and cluster.credentials, "
            "or start `framework-app broker` with --tls-cert and --auth"
        )
    host, port = parse_address(cluster.name_servers[0])
    data = Path(cluster.embedded_data) if cluster.embedded_data else None
    chosen: dict[str, Any] = dict(broker_limits.limits(cluster.embedded_limits))
    try:
        settings = BrokerSettings(keeps_locks=not alone, **chosen)
        broker = Broker(real_world(), data=data, host=host, port=port, settings=settings)
    except ConfigurationError as error:
        raise EmbeddedMisplaced(
            f"cluster.embedded: it listens at cluster.name_servers, {cluster.name_servers[0]}, and only on this "
            "machine: write 127.0.0.1:9876, or leave cluster.embedded out where that is a cluster"
        ) from error
    await broker.start()
    structlog.get_logger().info("embedded broker started", name_server=broker.address, data=str(data or "in memory"))
    try:
        yield
    finally:
        await broker.stop()
