"""Groups: who is in one, what each member subscribes to, and which queues it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.admin.cluster import Admin, BrokerPlace
from framework.errors import BrokerUnreachable, FrameworkError, ProtocolError, Refused, nearest
from framework.mistakes import NotInCluster
from framework.model.queue import MessageQueue
from framework.model.reserved import REPLAY_PREFIX, TOOLS_GROUP
from framework.wire.bodies.config import GroupConfigTable
from framework.wire.bodies.connections import ClientConnection, ConsumerConnections
from framework.wire.bodies.heartbeat import SubscriptionData
from framework.wire.bodies.running import HELD, PAUSED, RunningInfo
from framework.wire.exchanges import Exchange, body_of
from framework.wire.requests.admin import AllGroupConfigsRequest, ConsumerConnectionsRequest
from framework.wire.requests.inbound import RunningInfoRequest

SYSTEM_GROUPS = frozenset({
    TOOLS_GROUP, "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "SELF_TEST_P_GROUP", "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER",
})  # fmt: skip
_SYSTEM_PREFIXES = ("CID_RMQ_SYS_", "CID_SYS_RMQ_")
GROUP_CONFIGS = Exchange(AllGroupConfigsRequest(), body_of(GroupConfigTable))


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One process of a group, as brokers list it and as it describes itself."""

    client_id: str
    address: str
    language: str
    version: int
    broker: str
    """One that lists it."""
    info: RunningInfo | None = None
    """None where it did not answer."""
    silence: str = ""
    """Why it did not."""

    @property
    def queues(self) -> tuple[MessageQueue, ...] | None:
        """Those that it has, or pops of: number -1 is all of a broker. None where that is not known."""
        return None if self.info is None else tuple(sorted({*self.info.queues, *self.info.pop_queues}))

    def number(self, name: str) -> int | None:
        """What a member of ours says of its work; a text of somebody else's is no number."""
        text = "" if self.info is None else self.info.properties.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


@dataclass(slots=True)
class GroupView:
    """What a cluster knows of a group now."""

    members: list[GroupMember] = field(default_factory=list)
    subscriptions: Mapping[str, SubscriptionData] = field(default_factory=dict)
    """Topic -> what brokers filter by. They keep one for the whole group."""
    model: str | None = None
    unknown: dict[str, str] = field(default_factory=dict)
    """Brokers and members that did not answer, and why."""
    listed: Mapping[str, ConsumerConnections] = field(default_factory=dict)
    """Broker -> its own list, in which a client id may stand more than once."""

    @property
    def owners(self) -> dict[MessageQueue, str]:
        """Queue -> the client id of the member that has it."""
        return {queue: each.client_id for each in self.members for queue in each.queues or ()}

    @property
    def popped(self) -> set[tuple[str, str]]:
        """Topics and brokers whose queues have no owner, since members pop of all of them."""
        return {
            (queue.topic, queue.broker) for each in self.members for queue in each.queues or () if queue.number == -1
        }

    @property
    def paused(self) -> dict[str, list[str]]:
        """By whom, until when and why, as a member of ours says it -> the members that are."""
        return self._saying(PAUSED)

    @property
    def held(self) -> dict[str, list[str]]:
        """Why members of ours try one message at a time, since their handlers fail -> the members that do."""
        return self._saying(HELD)

    def _saying(self, name: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.members:
            text = None if each.info is None else each.info.properties.get(name)
            if text:
                found.setdefault(text, []).append(each.client_id)
        return found


def all_groups(admin: Admin, *, with_own: bool = False) -> tuple[list[str], dict[str, str]]:
    """Every group that a broker keeps, without RocketMQ's own, and the brokers that did not answer, with the reason.
    `with_own`: also ours that remember how far dead letters are replayed; nobody consumes in them.

    What an earlier look found at such a broker counts as a group, too.
    """
    answers = admin.ask_each(lambda _: GROUP_CONFIGS)
    names = {name for table in answers.found.values() for name in table.groups}
    failed = {name: str(error) for name, error in answers.failed.items()}
    failed |= admin.absent({*answers.found, *answers.failed})
    names |= admin.memory.groups_at(failed)
    users = (name for name in names if not is_system(name) and (with_own or not is_replays(admin, name)))
    return sorted(users), failed


def check_known(admin: Admin, group: str) -> None:
    """See that a broker keeps the group; else a ConfigurationError with the nearest name that one keeps."""
    names, failed = all_groups(admin)
    if group not in names and not failed:
        known = [admin.unwrapped(name) for name in names]
        name = admin.unwrapped(group)
        there = f"; there are: {', '.join(known[:10])}" if known else "; there are none"
        there = nearest(name, known) or there
        if admin.memory.queues(group):
            there = "; an earlier look saw it: it was deleted since then, or its brokers lost it"
        raise NotInCluster(f"no broker knows a group {name!r}{there}")


def is_system(group: str) -> bool:
    """Whether the group is one of RocketMQ's own."""
    return group in SYSTEM_GROUPS or group.startswith(_SYSTEM_PREFIXES)


def is_replays(admin: Admin, group: str) -> bool:
    """Whether it only remembers how far a group's dead letters are dealt with."""
    return admin.unwrapped(group).startswith(REPLAY_PREFIX)


def view(admin: Admin, group: str, *, with_info: bool = True, silent: dict[str, str] | None = None) -> GroupView:
    """Who is in the group. With `with_info` each member is asked for its queues, through a broker that lists it.

    `silent`: client ids that have not answered, and why; they are not asked again, and further ones are added.
    """
    silent = {} if silent is None else silent
    places = {place.name: place for place in admin.brokers()}
    answers = admin.ask_each(lambda _: connections_of(group))
    seen: dict[str, tuple[ClientConnection, str]] = {}
    found = GroupView(unknown=answers.unreachable, listed=answers.found)
    for broker, listed in answers.found.items():
        found.subscriptions = {**found.subscriptions, **listed.subscriptions}
        found.model = listed.message_model or found.model
        for each in listed.connections:
            seen.setdefault(each.client_id, (each, broker))
    for client_id, (each, broker) in sorted(seen.items()):
        info, silence = None, silent.get(client_id, "")
        if with_info and not silence:
            info, silence = _info(admin, places[broker], group, client_id)
        if silence:
            found.unknown[client_id] = silent[client_id] = silence
        found.members.append(
            GroupMember(client_id, each.client_addr, each.language, each.version, broker, info, silence)
        )
    return found


def connections_of(group: str) -> Exchange[ConsumerConnections]:
    """A broker's list of the group's members; refused where nobody is connected to it."""
    return Exchange(ConsumerConnectionsRequest(consumer_group=group), body_of(ConsumerConnections))


def _info(admin: Admin, broker: BrokerPlace, group: str, client_id: str) -> tuple[RunningInfo | None, str]:
    asking = Exchange(RunningInfoRequest(consumer_group=group, client_id=client_id), body_of(RunningInfo))
    try:
        return admin.ask_through(broker, asking), ""
    except (BrokerUnreachable, ProtocolError, Refused) as error:
        return None, reason_of(error)


def reason_of(error: FrameworkError) -> str:
    """Why somebody did not answer, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
