"""What the cluster is told: how to reach it, from the settings, and who we are, from the plans of our groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from framework.client.cluster import Cluster
from framework.client.options import ClusterOptions
from framework.core import limits
from framework.core.backoff import Backoff
from framework.core.consistency import Profile
from framework.errors import BrokerUnreachable, ConfigurationError, FrameworkError, retold
from framework.mistakes import CredentialsWrong
from framework.model.durations import to_text
from framework.model.reserved import AUTO_CREATE_TOPIC, RETRY_PREFIX
from framework.net.credentials import Credentials
from framework.net.tls import TlsOptions, check_files
from framework.ports import Chance
from framework.runtime.group.plan import GroupPlan
from framework.services.missing_topics import remedy_of
from framework.settings.schema import AppSettings, ClusterSettings, TlsSettings
from framework.wire.bodies.heartbeat import (
    BROADCASTING,
    CLUSTERING,
    FROM_FIRST,
    FROM_LAST,
    FROM_TIMESTAMP,
    ConsumerData,
    Heartbeat,
    ProducerData,
    subscriptions_of,
)

# The producer's name in heartbeats of an application that also sends; the Java client announces the same one.
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
SHOWN_MAX = 10


def cluster_options(settings: AppSettings, client_id: str) -> ClusterOptions:
    """The client's options; what is empty in the settings is absent here."""
    cluster = settings.cluster
    return ClusterOptions(
        name_servers=tuple(cluster.name_servers),
        client_id=client_id,
        credentials=_credentials(settings),
        tls=_tls(cluster.tls),
        address_map=dict(cluster.address_map),
        request_timeout_ms=cluster.request_timeout,
        allow=tuple(cluster.allow),
        namespace=cluster.namespace,
        brokers=tuple(cluster.brokers),
    )


def _credentials(settings: AppSettings) -> Credentials | None:
    given = settings.cluster.credentials
    if not given.access_key and not given.secret_key:
        return None
    if not given.access_key or not given.secret_key:
        there, missing = ("access_key", "secret_key") if given.access_key else ("secret_key", "access_key")
        place = settings.place("cluster", "credentials", there)
        raise CredentialsWrong(f"cluster.credentials: {missing} is missing; requests are signed with both", place=place)
    return Credentials(given.access_key, given.secret_key.reveal(), given.security_token.reveal() or None)


def _tls(given: TlsSettings) -> TlsOptions | None:
    if not given.enabled:
        return None
    return TlsOptions(
        verify=given.verify,
        ca_file=given.ca_file,
        cert_file=given.cert_file,
        key_file=given.key_file,
        key_password=given.key_password.reveal(),
        server_name=given.server_name,
    )


def check_keys(settings: AppSettings) -> None:
    """See that `cluster.credentials` are both there, or neither. Raises ConfigurationError with the place."""
    _credentials(settings)


def check_tls(settings: AppSettings) -> None:
    """Read the files that `cluster.tls` names. Raises ConfigurationError with the place of the name."""
    options = _tls(settings.cluster.tls)
    if options is None:
        return
    try:
        check_files(options)
    except ConfigurationError as error:
        name = str(error).partition(" ")[0].removeprefix("tls.")
        raise retold(error, f"cluster.{error}", place=settings.place("cluster", "tls", name)) from None


def heartbeat_of(client_id: str, plans: Sequence[GroupPlan], producers: Sequence[ProducerData] = ()) -> Heartbeat:
    """Everything that brokers know of this process: its groups, what each of them wants, and producer groups."""
    return Heartbeat(
        client_id=client_id,
        producers=(ProducerData(group=INNER_PRODUCER), *producers),
        consumers=tuple(_consumer_data(plan) for plan in plans),
    )


def _consumer_data(plan: GroupPlan) -> ConsumerData:
    return ConsumerData(
        group=plan.name,
        message_model=BROADCASTING if plan.broadcasting else CLUSTERING,
        consume_from=consume_from(plan),
        subscriptions=subscriptions_of(plan.wanted.values()),
    )


def profile_of(plan: GroupPlan) -> Profile:
    """What the group's other members should say of themselves, too."""
    return Profile(
        orderly=plan.orderly,
        model=BROADCASTING if plan.broadcasting else CLUSTERING,
        subscriptions={each.topic: each.expression for each in plan.subscriptions},
    )


def consume_from(plan: GroupPlan) -> str:
    """RocketMQ's name of the policy; brokers only show it."""
    match plan.settings.start.policy:
        case "first":
            return FROM_FIRST
        case "last":
            return FROM_LAST
        case _:
            return FROM_TIMESTAMP


class BrokerSearch:
    """Finds brokers by the routes of what is consumed, and says why there is none."""

    def __init__(self, cluster: Cluster, plans: Sequence[GroupPlan], more: Iterable[str] = ()) -> None:
        self._cluster = cluster
        self._topics = sorted({each.topic for plan in plans for each in plan.subscriptions}.union(more))
        self._clusters: Sequence[str] = ()
        """Those that have brokers, as name servers say though they name none for our topics."""

    async def once(self) -> None:
        """Ask for the routes. What fails is tried again by others."""
        for topic in (*self._topics, AUTO_CREATE_TOPIC):
            if topic == AUTO_CREATE_TOPIC and self._cluster.brokers.addresses():
                return  # it is only asked for where no topic of ours exists yet, to find a broker at all
            try:
                await self._cluster.routes.queues(topic)
            except BrokerUnreachable:
                return  # no name server answers; each further topic would wait as long
            except FrameworkError:
                continue  # this topic's affair: whoever keeps routes has said it
        names = self._cluster.names
        if names.failure is None and not self._cluster.brokers.addresses():
            with suppress(FrameworkError):  # who may not ask is told less
                self._clusters = await names.clusters()

    async def go_on(self, chance: Chance) -> None:
        """Until one is known: nobody else asks before the groups begin."""
        backoff = Backoff(limits.REBALANCE_SOON_MS, limits.REBALANCE_AGAIN_MAX_MS)
        while not self._cluster.brokers.addresses():
            await asyncio.sleep(backoff.failed(chance.random()) / 1000)
            await self.once()

    @property
    def trouble(self) -> str:
        """The same in a line; empty where a broker is known, or no name server answers."""
        names = self._cluster.names
        is_nowhere = names.has_answered and names.failure is None and not self._cluster.brokers.addresses()
        return "; ".join(self.because) if is_nowhere else ""

    @property
    def because(self) -> tuple[str, str]:
        """Why no broker is known, where name servers answer; and the way out."""
        topics = [each for each in self._topics if not each.startswith(RETRY_PREFIX)]
        shown = f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics[:SHOWN_MAX])}"
        if len(topics) > SHOWN_MAX:
            shown += f" and {len(topics) - SHOWN_MAX} more"
        if self._clusters and topics:
            reason = f"no name server knows {shown}, and brokers make none by themselves (autoCreateTopicEnable=false)"
            return reason, remedy_of(topics[0], server=self._cluster.options.name_servers[0], cluster=self._clusters[0])
        return f"no name server names a broker of {shown} yet", "start a broker, or set namesrvAddr in its broker.conf"


class Patience:
    """For how long a start waits for a broker: around everything that it does before one has accepted a heartbeat.

    What it waits for on purpose (`paused`) counts for nothing. The default is for ever: the loops go on trying.
    """

    def __init__(self, accepted: asyncio.Event, cluster: ClusterSettings, why: Callable[[], str] = str) -> None:
        """`why`: what keeps brokers from accepting us, as far as that is known."""
        self._accepted, self._cluster, self._why = accepted, cluster, why
        self._limit: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        if self._cluster.wait_broker is not None:
            self._limit = asyncio.timeout(self._cluster.wait_broker / 1000)
            await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        limit = self._limit
        if limit is None:
            return
        try:
            await limit.__aexit__(kind, error, trace)
        except TimeoutError:
            servers, wait = ", ".join(self._cluster.name_servers), to_text(self._cluster.wait_broker or 0)
            because = self._why() or "check cluster.name_servers, or raise cluster.wait_broker"
            raise BrokerUnreachable(
                f"no broker accepted a heartbeat within {wait} (name servers {servers}); {because}"
            ) from None

    @contextmanager
    def paused(self) -> Iterator[None]:
        limit = self._limit
        if limit is None or (until := limit.when()) is None:
            yield
            return
        now = asyncio.get_running_loop().time
        began = now()
        limit.reschedule(None)
        try:
            yield
        finally:
            limit.reschedule(until + now() - began)

    async def over(self) -> None:
        """Wait until a broker has accepted us, or our end is asked for. Who keeps us waiting, heartbeats log."""
        await self._accepted.wait()
