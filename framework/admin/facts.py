"""Facts: what `doctor` looks at, asked once. Reads only; what could not be asked stands there as its error.

A broker's settings may hold passwords, so of those only the named ones are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event

from framework.admin import dead_letters
from framework.admin.cluster import BROKER_CONFIG, BROKERS, Admin, Answers, BrokerPlace
from framework.admin.findings import Told, given, tried
from framework.admin.groups import GROUP_CONFIGS, GroupMember, GroupView, view
from framework.admin.positions import Positions, positions
from framework.client.inquiries import clock_in
from framework.core.broker_time import Reading
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, no_name_server
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, DEAD_LETTER_PREFIX, progress_topic, retry_topic
from framework.wire import exchanges
from framework.wire.bodies.config import GroupConfig, TopicConfig, TopicConfigTable
from framework.wire.bodies.route import MASTER, PERM_READ, TopicRoute
from framework.wire.bodies.running import OLDEST_MS, PAUSED, RETRIES_WAITING
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import AllTopicConfigsRequest

CREATES_TOPICS = "autoCreateTopicEnable"
CREATES_GROUPS = "autoCreateSubscriptionGroup"
SQL = "enablePropertyFilter"
PERMISSION = "brokerPermission"
INDEX = "messageIndexEnable"
TIMERS = "timerWheelEnable"
POOL = "transientStorePoolEnable"
BODY_MAX = "maxMessageSize"
KEPT_HOURS = "fileReservedTime"
NAME_SERVERS = "namesrvAddr"
DISK_FULL = "diskSpaceWarningLevelRatio"
SETTINGS = frozenset({
    CREATES_TOPICS, CREATES_GROUPS, SQL, PERMISSION, INDEX, TIMERS, POOL, BODY_MAX, KEPT_HOURS, DISK_FULL,
    NAME_SERVERS,
})  # fmt: skip
DISK_USED = "commitLogDiskRatio"
LATELY_MS = 3_600_000
"""Dead letters of this last while are new."""
LETTERS_ASKED = 1000
"""A look at all groups asks brokers for so many copies of a group's letters at most."""


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """One broker of the cluster."""

    place: BrokerPlace
    settings: Told[Mapping[str, str]]
    ahead: Told[Reading]
    """How far its clock is ahead of this machine's, at least and at most."""
    disk_used: Told[float]
    """How full the disk of its messages is: 0 to 1."""
    topics: Told[Mapping[str, TopicConfig]]
    groups: Told[Mapping[str, GroupConfig]]
    forbidden: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Group -> topic -> what it may not do there."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Addresses of it to which no connection can be made, and why."""
    has_template: bool | None = None
    """Whether it has the topic after which it makes others; None where that is not known."""

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def off_ms(self) -> int | None:
        """By how much its clock differs from this machine's, at least; None where it does not tell its time."""
        return None if isinstance(self.ahead, FrameworkError) else max(self.ahead.low_ms, -self.ahead.high_ms, 0)

    def is_on(self, name: str) -> bool | None:
        """How a switch of it stands; None where it has not said."""
        text = None if isinstance(self.settings, FrameworkError) else self.settings.get(name)
        return None if text is None else text.lower() == "true"

    @property
    def makes_topics(self) -> bool | None:
        """Whether a first send makes its topic: one that was started without the switch has no template."""
        is_on = self.is_on(CREATES_TOPICS)
        return self.has_template if is_on else is_on


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The name servers and brokers."""

    name_servers: Mapping[str, Told[Sequence[str]]]
    """Each with the names of the brokers that it knows."""
    brokers: Sequence[BrokerFacts]
    absent: Mapping[str, str] = field(default_factory=dict)
    """Brokers that should be there and are not: who says so."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic of a group."""

    name: str
    route: Told[TopicRoute | None]
    """None where no name server knows it."""
    probe: Told[None]
    """Whether the group may be asked about it, with the rights that its members have."""


@dataclass(frozen=True, slots=True)
class LetterFacts:
    """How many dead letters wait, and how many came lately. What is not known is None."""

    waiting: int | None = None
    lately: int | None = None
    unasked: int = 0
    """So many of them may have been replayed, which was too much to ask: both counts are at most so many."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One group."""

    name: str
    """As the cluster calls it, like all names here."""
    cluster: ClusterFacts
    unwrapped: Callable[[str], str]
    """A name as its owner writes it."""
    positions: Told[Positions]
    topics: Mapping[str, TopicFacts]
    """What its members want, or it has an offset of, and its retry topic where there is one."""
    begins: Told[Mapping[MessageQueue, int]]
    """The first offset that is still there, of queues in which messages wait."""
    letters: Told[LetterFacts]
    progress_route: Told[TopicRoute | None]
    stuck: Told[Mapping[MessageQueue, int]]
    """Queues whose first unfinished message stayed the same between two looks, and which one that is."""
    stuck_s: float
    """How long lay between the looks."""

    @property
    def shown(self) -> str:
        return self.unwrapped(self.name)


# The cluster


def cluster(admin: Admin, now_ms: Callable[[], int]) -> ClusterFacts:
    """NotConnected where no name server answers: then there is nothing to look at."""
    servers = admin.ask_name_servers(BROKERS)
    if not servers.found and all(isinstance(error, BrokerUnreachable) for error in servers.failed.values()):
        raise no_name_server(servers.failed.values())
    places = {place.name: place for found in servers.found.values() for place in found}
    told: dict[str, Told[Sequence[str]]] = {
        server: servers.failed.get(server) or [place.name for place in servers.found[server]]
        for server in admin.settings.name_servers
    }
    absent = admin.absent(places)
    templates = admin.ask_name_servers(exchanges.route(AUTO_CREATE_TOPIC))
    brokers = [
        replace(_broker(admin, places[name], now_ms), has_template=_has_queues(templates, name))
        for name in sorted(places)
    ]
    return ClusterFacts(told, brokers, absent)


def _has_queues(routes: Answers[TopicRoute | None], broker: str) -> bool | None:
    """One name server may not know the broker; unless all have answered, it is not known that none does."""
    queues = [data for route in routes.found.values() if route is not None for data in route.queues]
    return any(data.broker_name == broker for data in queues) or (None if routes.failed else False)


def _broker(admin: Admin, place: BrokerPlace, now_ms: Callable[[], int]) -> BrokerFacts:
    unreached: dict[str, str] = {}
    away: FrameworkError | None = None if place.master else BrokerUnreachable(f"broker {place.name}: it has no master")
    for number, address in place.addresses.items():
        try:
            admin.reach.link(address)
        except FrameworkError as error:
            unreached[address] = str(error)
            away = error if number == MASTER else away
    if away is not None:  # each further question would wait as long
        return BrokerFacts(place, away, away, away, away, away, unreached=unreached)
    before_ms = now_ms()
    figures = tried(lambda: admin.figures(place.name, place.addresses[MASTER]))
    after_ms = now_ms()
    groups = tried(lambda: admin.ask(place, GROUP_CONFIGS))
    return BrokerFacts(
        place,
        tried(lambda: {name: text for name, text in admin.ask(place, BROKER_CONFIG).items() if name in SETTINGS}),
        tried(lambda: _ahead(given(figures), place, before_ms, after_ms)),
        tried(lambda: _ratio(given(figures), place)),
        tried(lambda: admin.ask(place, Exchange(AllTopicConfigsRequest(), body_of(TopicConfigTable))).topics),
        groups if isinstance(groups, FrameworkError) else groups.groups,
        {} if isinstance(groups, FrameworkError) else groups.forbidden,
        unreached,
    )


def _ahead(figures: Mapping[str, str], place: BrokerPlace, before_ms: int, after_ms: int) -> Reading:
    reading = clock_in(figures, place.name)
    return Reading(reading.low_ms - after_ms, reading.high_ms - before_ms)


def _ratio(figures: Mapping[str, str], place: BrokerPlace) -> float:
    try:
        return float(figures[DISK_USED])
    except (KeyError, ValueError):
        raise ProtocolError(f"it does not say {DISK_USED}", peer=place.name) from None


# One group


def group(
    admin: Admin, found: ClusterFacts, name: str, more: Sequence[str], *, stuck_s: float, now_ms: Callable[[], int]
) -> GroupFacts:
    """`more`: topics that it should read, though it may not yet. Waits `stuck_s` where a queue may be stuck."""
    place = tried(lambda: positions(admin, name))
    wanted = {*more}
    if not isinstance(place, FrameworkError):
        wanted |= {row.queue.topic for row in place.rows} | set(place.members.subscriptions)
        for member in place.members.members:
            wanted |= set() if member.info is None else {each.topic for each in member.info.subscriptions}
    wanted = {topic for topic in wanted if not topic.startswith(DEAD_LETTER_PREFIX)} - {retry_topic(name)}
    retry = tried(lambda: admin.reach.ask_name_server(exchanges.route(retry_topic(name))))
    topics = {topic: _topic(admin, name, topic) for topic in sorted(wanted)}
    if retry is not None:
        topics[retry_topic(name)] = _topic(admin, name, retry_topic(name))
    return GroupFacts(
        name,
        found,
        admin.unwrapped,
        place,
        topics,
        place if isinstance(place, FrameworkError) else tried(lambda: _begins(admin, place)),
        tried(lambda: letters(admin, name, now_ms() - LATELY_MS)),
        tried(lambda: admin.reach.ask_name_server(exchanges.route(progress_topic(name)))),
        place if isinstance(place, FrameworkError) else tried(lambda: _stuck(admin, place, stuck_s)),
        stuck_s,
    )


def _topic(admin: Admin, group: str, topic: str) -> TopicFacts:
    route = tried(lambda: admin.reach.ask_name_server(exchanges.route(topic)))
    probe: Told[None] = None
    if isinstance(route, TopicRoute):
        for data in route.queues:
            if data.perm & PERM_READ and data.read_queue_nums:
                queue = MessageQueue(topic, data.broker_name, 0)
                probe = probe or tried(partial(_probe, admin, group, queue))
    return TopicFacts(topic, route, probe)


def _probe(admin: Admin, group: str, queue: MessageQueue) -> None:
    """A stock broker wants `Sub` for the first of these and `Get` for the second; a member asks both."""
    admin.ask_master(queue, exchanges.stored_offset(group, queue))
    admin.ask_master(queue, exchanges.max_offset(queue))


def _begins(admin: Admin, found: Positions) -> dict[MessageQueue, int]:
    return {row.queue: admin.ask_master(row.queue, exchanges.min_offset(row.queue)) for row in found.rows if row.lag}


def letters(admin: Admin, group: str, since_ms: int) -> LetterFacts:
    """How many of the group's wait, and how many came since then."""
    waiting = lately = unasked = 0
    for each in dead_letters.queues(admin, group, most=LETTERS_ASKED):
        waiting, unasked = waiting + each.waiting, unasked + each.unasked
        if each.waiting:
            first = admin.ask_master(each.queue, exchanges.offset_at(each.queue, since_ms))
            since = max(first, each.begin)
            lately += max(each.end - since - sum(offset >= since for offset in each.replayed), 0)
    return LetterFacts(waiting, lately, unasked)


def _stuck(admin: Admin, found: Positions, seconds: float) -> dict[MessageQueue, int]:
    """A first unfinished message that is older than that, and is still the first one that much later."""
    old = {row.queue for row in found.rows if row.lag and row.lag_s is not None and row.lag_s >= seconds}
    before = _first_unfinished(found.members)
    if not old & set(before):
        return {}
    Event().wait(seconds)
    members = view(admin, found.group)
    after = _first_unfinished(members)
    busy = {each.client_id for each in members.members if _is_busy(each, before, after, seconds)}
    queues = {queue for queue, owner in members.owners.items() if owner in busy}
    return {queue: before[queue] for queue in old & set(before) - queues if after.get(queue) == before[queue]}


def _first_unfinished(members: GroupView) -> dict[MessageQueue, int]:
    """What members say that they have: the first that is not done. One that is paused does nothing by intent."""
    return {
        queue: max(each.commit_offset, each.cached_offset_min)
        for member in members.members
        if member.info is not None and not member.info.properties.get(PAUSED)
        for queue, each in member.info.queues.items()
        if each.cached_count and not each.is_dropped
    }


def _is_busy(
    member: GroupMember, before: Mapping[MessageQueue, int], after: Mapping[MessageQueue, int], seconds: float
) -> bool:
    """Whether it is one of ours that moved another queue, ran no handler for so long, and has none that waits for its
    next try: then its queues wait for a worker. Members of Java do not say so much of themselves.
    """
    oldest_ms = member.number(OLDEST_MS) or 0
    is_ours = member.number(RETRIES_WAITING) == 0
    moved = any(after.get(queue, 0) > offset for queue, offset in before.items() if queue in (member.queues or ()))
    return is_ours and moved and oldest_ms < seconds * 1000
