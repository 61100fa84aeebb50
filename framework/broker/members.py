"""Who is in which consumer group, and what the group wants: by connection, as RocketMQ keeps it.

Two connections of one client id are two members. A member is forgotten with its connection, when it says goodbye, or
after 120 s of silence. Knows neither queues nor messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from framework.broker.answers import Client, Refusal
from framework.broker.filters import Wanted, weight_of
from framework.broker.rounds import Timer, Timers
from framework.errors import shorten
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX

# channelExpiredTimeout and the scan's pace of every stock broker.
SILENCE_MAX_S = 120.0
SCAN_S = 10.0

# Newcomers whose watching ends this close together count from the same moment, the last one's: so their joining is one
# change of the group and not ten.
TOGETHER_S = 1.0

BROADCASTING = "BROADCASTING"

# About what an entry costs beside its texts.
_ENTRY_BYTES = 500

# A client's id, or a name that nobody has to make first. As RocketMQ's for groups.
NAME_BYTES_MAX = 255
# A list of all members must fit into a frame, else none of them hears of any other.
LISTING_BYTES_MAX = FRAME_BYTES_MAX - HEADER_BYTES_MAX


def check_name(what: str, name: str) -> None:
    """Refuse a name that is too long: it would be kept, and handed to everybody who asks."""
    size = len(name) if name.isascii() or len(name) > NAME_BYTES_MAX else len(name.encode("utf-8", "replace"))
    if size > NAME_BYTES_MAX:
        remark = f"{what} of {size} bytes, {NAME_BYTES_MAX} at most: {shorten(name)}"
        raise Refusal(ResponseCode.INVALID_PARAMETER, remark)


class Member:
    """One connection in one group."""

    __slots__ = ("client", "client_id", "counts_at", "heard", "language", "listed_bytes", "version", "weight")

    def __init__(self, client: Client, client_id: str, language: int, version: int, heard: float) -> None:
        self.client = client
        self.counts_at: float | None = None
        """When the others are to divide queues with it; None: they do."""
        self.client_id = client_id
        self.language = language
        self.version = version
        self.heard = heard
        self.weight = _ENTRY_BYTES + len(client_id)
        """What it adds to what is kept of heartbeats."""
        self.listed_bytes = _listed_bytes(client_id)
        """What it adds to the list of its group."""

    @property
    def counts(self) -> bool:
        """Whether the others divide queues with it; not while it is watched."""
        return self.counts_at is None


class MemberGroup:
    """One group with at least one member."""

    __slots__ = (
        "admits", "consume_from", "consume_type", "fingerprint", "listed_bytes", "listing", "members",
        "message_model", "name", "wanted", "weight",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[Client, Member] = {}
        self.wanted: dict[str, Wanted] = {}
        self.consume_type = ""
        self.message_model = ""
        self.consume_from = ""
        self.fingerprint = 0
        self.weight = 0
        """What its subscriptions add to what is kept of heartbeats."""
        self.listed_bytes = 0
        """How long a list of all members is."""
        self.listing = b""
        """The list of members as it was last answered; empty where somebody came or went since. A member's arrival has
        all of a thousand ask for the same list."""
        self.admits: Timer | None = None
        """Which ends the watching of the newcomers who are next."""

    def __repr__(self) -> str:
        return f"<Group {self.name}: {len(self.members)} members, topics {sorted(self.wanted)}>"


class Members:
    """All groups of one logical broker."""

    def __init__(self, timers: Timers, admission: Admission | None = None, *, bytes_max: int = 1 << 25) -> None:
        self.arrived: Callable[[MemberGroup], None] | None = None
        """Told of a group that has one member more, or other topics."""
        self.departed: Callable[[MemberGroup], None] | None = None
        """Told of a group that has one member less."""
        self._timers = timers
        self._admission = admission or Admission(timers, 0, 0)
        self._groups: dict[str, MemberGroup] = {}
        self._producers: dict[str, dict[Client, Member]] = {}
        self._producer_ids: dict[str, Member] = {}
        self._bytes_max = bytes_max
        self.bytes = 0
        """About what is kept of heartbeats."""
        self._scan: Timer | None = None

    def find(self, group: str) -> MemberGroup | None:
        return self._groups.get(group)

    def client_ids(self, group: str) -> list[str]:
        """The id of each connection that counts, in the order in which they came; one that has two is listed twice."""
        found = self._groups.get(group)
        return [] if found is None else [member.client_id for member in found.members.values() if member.counts]

    def producers(self, group: str) -> list[Member]:
        return list(self._producers.get(group, {}).values())

    def groups(self) -> list[MemberGroup]:
        return list(self._groups.values())

    def member(self, group: str, client_id: str) -> Member | None:
        """The first connection of a client in a group."""
        found = self._groups.get(group)
        members = [] if found is None else found.members.values()
        return next((member for member in members if member.client_id == client_id), None)

    def producer_groups(self) -> list[str]:
        return list(self._producers)

    def producer(self, client_id: str) -> Member | None:
        """The last connection by which a client said that it produces."""
        return self._producer_ids.get(client_id)

    def silence_ms(self, member: Member) -> int:
        """How long ago the member's last heartbeat was."""
        return int((self._timers.time() - member.heard) * 1000)

    def fits(self, group: str, fingerprint: int) -> bool:
        """Whether the group's last heartbeat had this fingerprint, too; 0 is that of one without."""
        found = self._groups.get(group)
        return found is None or found.fingerprint == fingerprint

    def is_known(self, client: Client, group: str) -> bool:
        """Whether this connection is a member already."""
        found = self._groups.get(group)
        return found is not None and client in found.members

    def heard(
        self, client: Client, client_id: str, group: str, subscriptions: Iterable[Wanted] | None, *, consume_type: str,
        message_model: str, consume_from: str, language: int, version: int, fingerprint: int = 0,
    ) -> bool:  # fmt: skip
        """Take one group's part of a heartbeat, None being those of before; whether members or topics changed.

        A Refusal of what is more than may be kept of all heartbeats; one that says no more than before never is.
        """
        check_name("client id", client_id)
        for what, text in (("consumeType", consume_type), ("messageModel", message_model), ("from", consume_from)):
            check_name(what, text)
        told = None if subscriptions is None else {each.topic: each for each in subscriptions}
        found = self._groups.get(group) or MemberGroup(group)
        _check_listing(found, client, client_id)
        weight = found.weight if told is None else sum(map(_weight, told.values()))
        self._grow((0 if client in found.members else _ENTRY_BYTES + len(client_id)) + weight - found.weight)
        self._groups[group] = found
        found.weight = weight
        # The last heartbeat wins, whichever member sent it.
        found.fingerprint = fingerprint
        found.consume_type, found.message_model, found.consume_from = consume_type, message_model, consume_from
        member = found.members.get(client)
        is_new = member is None or member.client_id != client_id
        if member is None or is_new:
            member = self._came(found, client, client_id, language, version)
        member.language, member.version, member.heard = language, version, self._timers.time()
        topics_changed = told is not None and _update(found.wanted, told)
        if (is_new and member.counts) or (topics_changed and self.client_ids(group)):
            self._tell(self.arrived, found)
        self._start_scan()
        return is_new or topics_changed

    def heard_producer(self, client: Client, client_id: str, group: str, *, language: int, version: int) -> None:
        """Take one producer group's part of a heartbeat; a Refusal of what is more than may be kept."""
        check_name("client id", client_id)
        check_name("producer group", group)
        member = Member(client, client_id, language, version, self._timers.time())
        member.weight += len(group)
        known = self._producers.get(group, {}).get(client)
        self._grow(member.weight - (known.weight if known is not None else 0))
        if known is not None and known.client_id != client_id:
            self._forget_id(known)  # the connection goes by another name now
        self._producers.setdefault(group, {})[client] = member
        self._producer_ids[client_id] = member
        self._start_scan()

    def left(self, client: Client, group: str) -> None:
        """A member says goodbye; the last one takes the group's entry along."""
        found = self._groups.get(group)
        member = None if found is None else found.members.pop(client, None)
        if found is None or member is None:
            return
        self._admission.went(found.name, member.client_id)
        found.listing = b""
        found.listed_bytes -= member.listed_bytes
        self.bytes -= member.weight
        if not found.members:
            self.bytes -= found.weight
            del self._groups[group]
        if not member.counts:
            self._watch(found)
        else:
            self._tell(self.departed, found)

    def producer_left(self, client: Client, group: str) -> None:
        found = self._producers.get(group)
        member = None if found is None else found.pop(client, None)
        if found is not None and member is not None:
            self.bytes -= member.weight
            self._forget_id(member)
            if not found:
                del self._producers[group]

    def _forget_id(self, member: Member) -> None:
        last = self._producer_ids.get(member.client_id)
        if last is not None and last.client is member.client:
            del self._producer_ids[member.client_id]

    def gone(self, client: Client) -> None:
        """A connection ended."""
        for name in [name for name, group in self._groups.items() if client in group.members]:
            self.left(client, name)
        for name in [name for name, clients in self._producers.items() if client in clients]:
            self.producer_left(client, name)

    def clear(self) -> None:
        """Forget everybody; nobody is told."""
        for group in self._groups.values():
            for member in group.members.values():
                self._admission.went(group.name, member.client_id)
            if group.admits is not None:
                group.admits.cancel()
        self._groups.clear()
        self._producers.clear()
        self._producer_ids.clear()
        self.bytes = 0
        self._admission.clear()
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None

    def _came(self, group: MemberGroup, client: Client, client_id: str, language: int, version: int) -> Member:
        known = group.members.get(client)
        group.listing = b""
        if known is not None:  # the connection goes by another name now
            self._admission.went(group.name, known.client_id)
            group.listed_bytes -= known.listed_bytes
            self.bytes += len(client_id) - len(known.client_id)
        member = group.members[client] = Member(client, client_id, language, version, self._timers.time())
        group.listed_bytes += member.listed_bytes
        wait_s = self._admission.came(group.name, client_id)
        if wait_s > 0:
            member.counts_at = self._timers.time() + wait_s
            self._watch(group)
        return member

    def _watch(self, group: MemberGroup) -> None:
        """See to it that newcomers count in time, those together whose times lie together."""
        if group.admits is not None:
            group.admits.cancel()
            group.admits = None
        times = [member.counts_at for member in group.members.values() if member.counts_at is not None]
        if times:
            first = min(times)
            last = max(at for at in times if at <= first + TOGETHER_S)
            group.admits = self._timers.call_later(max(last - self._timers.time(), 0), self._admit, group, last)

    def _admit(self, group: MemberGroup, until: float) -> None:
        for member in group.members.values():
            if member.counts_at is not None and member.counts_at <= until:
                member.counts_at = None
        group.listing = b""
        self._watch(group)
        self._tell(self.arrived, group)

    def _grow(self, by: int) -> None:
        """Count what is kept; a Refusal where it would be too much."""
        if by > 0 and self.bytes + by > self._bytes_max:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"[OVERLOAD] heartbeats of all clients say more than is kept, {self._bytes_max} bytes at most",
            )
        self.bytes += by

    @staticmethod
    def _tell(callback: Callable[[MemberGroup], None] | None, group: MemberGroup) -> None:
        if callback is not None:
            callback(group)

    def _start_scan(self) -> None:
        if self._scan is None:
            self._scan = self._timers.call_later(SCAN_S, self._forget_silent)

    def _forget_silent(self) -> None:
        self._scan = None
        since = self._timers.time() - SILENCE_MAX_S
        tables = [group.members for group in self._groups.values()] + list(self._producers.values())
        silent = dict.fromkeys(member.client for table in tables for member in table.values() if member.heard < since)
        for client in silent:
            # RocketMQ removes the member without telling the others, who hear of it by the closed connection.
            self.gone(client)
            client.close(f"no heartbeat for {SILENCE_MAX_S:.0f} s")
        if self._groups or self._producers:
            self._start_scan()


def _check_listing(group: MemberGroup, client: Client, client_id: str) -> None:
    """Refuse a newcomer with whom a list of all members would fit into no frame."""
    known = group.members.get(client)
    more = 0 if known is not None and known.client_id == client_id else _listed_bytes(client_id)
    if more and group.listed_bytes + more > LISTING_BYTES_MAX:
        raise Refusal(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD] a list of the members of {group.name} has {LISTING_BYTES_MAX} bytes at most",
        )


def _listed_bytes(client_id: str) -> int:
    return len(dialect.dumps(client_id)) + 1


def _weight(wanted: Wanted) -> int:
    return _ENTRY_BYTES + weight_of(wanted)


def _update(known: dict[str, Wanted], told: Mapping[str, Wanted]) -> bool:
    """Newer versions replace, topics not told are dropped; whether the set of topics changed."""
    changed = False
    for topic, each in told.items():
        before = known.get(topic)
        if before is None:
            known[topic] = each
            changed = True
        elif each.version > before.version:
            known[topic] = each
    for topic in [topic for topic in known if topic not in told]:
        del known[topic]
        changed = True
    return changed


# Two minutes beyond the longest wait that is usual: who stays away or stays steady this long begins anew.
FORGIVEN_S = 420.0
# More absent members than any group has; the one that left longest ago is forgotten first.
REMEMBERED_MAX = 10_000


class Admission:
    """How long a newcomer to a group is watched before the others divide queues with it. `wait_ms` 0: not at all.

    A member that comes and goes moves queues twice each time. So one counts after a while of unbroken connection, and
    one that was here lately waits twice as long as the last time, up to a maximum. It is answered meanwhile and
    administrators see it; only the list of members leaves it out.
    """

    def __init__(self, timers: Timers, wait_ms: int, wait_ms_max: int) -> None:
        self._timers = timers
        self._wait_s = wait_ms / 1000
        self._wait_s_max = max(wait_ms, wait_ms_max) / 1000
        self._left: dict[tuple[str, str], tuple[int, float]] = {}
        self._flaps: dict[tuple[str, str], tuple[int, float]] = {}

    def came(self, group: str, client_id: str) -> float:
        """How many seconds the newcomer is watched."""
        if self._wait_s <= 0:
            return 0.0
        key, now = (group, client_id), self._timers.time()
        flaps, left = self._left.pop(key, (-1, 0.0))
        flaps = flaps + 1 if now - left < FORGIVEN_S else 0
        self._flaps[key] = (flaps, now)
        # A bounded exponent: a thousand flaps are no number of a thousand digits.
        return min(self._wait_s * 2.0 ** min(flaps, 32), self._wait_s_max)

    def went(self, group: str, client_id: str) -> None:
        """The member's connection ended, or it said goodbye."""
        flaps, since = self._flaps.pop((group, client_id), (0, 0.0))
        if self._wait_s <= 0:
            return
        now = self._timers.time()
        self._left[group, client_id] = (-1 if now - since >= FORGIVEN_S else flaps, now)
        if len(self._left) > REMEMBERED_MAX:
            del self._left[next(iter(self._left))]

    def clear(self) -> None:
        self._left.clear()
        self._flaps.clear()
