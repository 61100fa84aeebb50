"""History: what happened in a run, as facts in the order of time. Others record it; checkers and timelines read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from framework.model.queue import MessageQueue
from tests.simulation.facts import Fact

F = TypeVar("F", bound="Fact")


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose a queue is."""

    who: tuple[str, ...]
    """Members that believe it to be theirs."""
    holder: str = ""
    """The process that has its lock at the broker; empty for none."""


@dataclass(slots=True)
class History:
    """Everything recorded in one run."""

    seed: int
    is_calm: bool = False
    """Nothing but joins and clean leaves happened."""
    facts: list[Fact] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    """The groups that consume what is sent."""
    popping: set[str] = field(default_factory=set)
    """Groups that pop, beside them: their facts are of other kinds (`ways/facts.py`), since they own no queues."""
    switched: set[str] = field(default_factory=set)
    """Those of them that also pull while the run lasts: what is pulled is nobody's secret."""
    pop_retries: list[tuple[str, str, int, float]] = field(default_factory=list)
    """(group, message id, which attempt it is for, when it came to its retry topic) of popped messages."""
    pop_dead: list[tuple[str, str]] = field(default_factory=list)
    """(group, message id) of each dead letter of these groups."""
    topics: dict[str, set[str]] = field(default_factory=dict)
    """Group -> what it consumes, where that is not everything."""
    orderly: dict[str, int] = field(default_factory=dict)
    """Those of them that keep an order, and into how many keys a queue is divided: one where its own is kept."""
    batched: set[str] = field(default_factory=set)
    """Those whose handlers are given several messages at once."""
    lingering: set[str] = field(default_factory=set)
    """Those of them whose batches may wait for more than there is room for."""
    by_hand: set[str] = field(default_factory=set)
    """Those whose handlers say when what they have handled is finished."""
    publishing: set[str] = field(default_factory=set)
    """Those whose handlers return what is to be sent."""
    once: dict[str, str] = field(default_factory=dict)
    """Those that drop duplicates -> how far their store reaches: `process`, `machine` or `all`."""
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    """(group, message id) -> what a store knows the message by."""
    uneven: set[str] = field(default_factory=set)
    """Those whose strategy promises no balance."""
    threaded: set[str] = field(default_factory=set)
    """Those whose handlers run on worker threads, which begin a little after they were asked to."""
    broadcasting: set[str] = field(default_factory=set)
    """Those of which each process is given everything."""
    skips: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Group -> older than how many seconds, and how far behind the end, it wants nothing; 0: no such rule."""
    wanted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Group -> the tags that it wants, where that is not everything."""
    unwanted: dict[str, set[str]] = field(default_factory=dict)
    """Group -> message ids of what it does not want, of all that brokers have at the end."""
    passed_by: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """(group, queue) -> offsets of the same."""
    is_heard: bool = False
    """A plugin listens."""
    plain: set[str] = field(default_factory=set)
    """Groups whose handlers return nothing where all is well."""
    rates: dict[str, int] = field(default_factory=dict)
    """Group -> how many messages a second it may be handed in a process, where there is such a limit."""
    breakers: dict[str, int] = field(default_factory=dict)
    """Group whose handlers may fail all -> how many messages a process has in hand at most."""
    allotted: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Group -> queue -> machines that may own it, where a strategy goes by names; nobody where there are none."""
    strict: set[str] = field(default_factory=set)
    """Those of these groups in which nobody else ever does."""
    limited: set[str] = field(default_factory=set)
    """Those whose handlers have a limit; what took too long comes back by the first delay, whichever try it was."""
    keeping: set[str] = field(default_factory=set)
    """The groups of which what has ended above a gap that lasts outlives its owner."""
    keeping_local: set[str] = field(default_factory=set)
    """Those whose members keep it on their own disks, for themselves alone."""
    announcing: set[str] = field(default_factory=set)
    """Those whose members say when they are done with a queue."""
    max_retries: int = 16
    delays_ms: tuple[int, ...] = ()
    """The brokers' ladder of delays."""
    limits: dict[str, float] = field(default_factory=dict)
    """Group -> for how many seconds its handlers may run, where that is shorter than a run."""
    places: dict[str, int] = field(default_factory=dict)
    """Group -> how many handlers a process runs at once."""
    grace_s: float = 0.0
    """For how long the seats of members are kept; 0 where they have no names."""
    is_protected: bool = False
    """Members that come and go too often wait before they join."""
    dead_letters: set[tuple[str, str]] = field(default_factory=set)
    """(group, message id) of what is among the dead letters at the end."""
    copies: list[tuple[str, str, int, str]] = field(default_factory=list)
    """(group, message copied, which retry it is, by which broker or BY_A_MEMBER) of every copy of a failed message."""
    copied_of: dict[str, str] = field(default_factory=dict)
    """Of each copy: the message that it names -> its message id."""
    stored: dict[MessageQueue, dict[int, str]] = field(default_factory=dict)
    """What the brokers have at the end: queue -> offset -> message id."""
    stored_at: dict[str, dict[int, float]] = field(default_factory=dict)
    """Queue -> offset -> at which second of the run it was stored, by the broker's own clock."""
    fired: list[tuple[str, str, int, float]] = field(default_factory=list)
    """(group, message, which retry it is, when it came to its retry topic) of copies that brokers made."""
    deals: dict[str, list[str]] = field(default_factory=dict)
    """Transaction -> message ids of its message in its topic, as often as it is there at the end."""
    loads: dict[str, list[str]] = field(default_factory=dict)
    """Message of a lot -> message ids of it in its topic, as often as it is there at the end."""
    half_messages: dict[str, int] = field(default_factory=dict)
    """Transaction -> how many half messages brokers have stored of it."""
    sync_s: float = 0.0
    """How long a sync of a broker's disk may take."""
    syncs_waited_for: int = 3
    """By what is due, at most: its own copy's, the one under way when it is due, and the one that brings it back."""
    skipped: dict[tuple[str, str], int] = field(default_factory=dict)
    """(process, group) -> how many messages it says to have skipped, when everything had settled."""
    resets: set[str] = field(default_factory=set)
    """Groups whose offsets an administrator has reset: what they had settled may be settled again."""
    excused_until: float = 0.0
    """Until when messages may have gone with a topic that was deleted, or behind the offsets of its former life."""
    members: tuple[str, ...] = ()
    """Who was up when everything had healed and settled; empty where nobody looked."""
    owners: dict[tuple[str, str], Ownership] = field(default_factory=dict)
    """(group, queue) -> whose it was then."""
    is_drained: bool = False
    """The run went to its end, and everything was to be handled by then."""
    marks: dict[str, int] = field(default_factory=dict)
    """How often each mark was reached."""
    excuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(truth, reason) -> how often a checker let something pass; see `checkers/excuses.py`."""

    def of(self, kind: type[F]) -> Iterator[F]:
        """The facts of one kind, in order."""
        return (fact for fact in self.facts if type(fact) is kind)

    def reads(self, group: str, topic: str) -> bool:
        """Whether the group consumes this topic."""
        return topic in self.topics.get(group, (topic,))

    def is_nobodys(self, group: str, queue: str) -> bool:
        """Whether the group's strategy leaves this queue without an owner, whoever is there."""
        return self.allotted.get(group, {}).get(queue) == ()


def machine_of(who: str) -> str:
    """The machine that this life of a process is on."""
    return who.partition(".")[0]


def place_of(queue: str) -> MessageQueue:
    """The queue that is called so. A broker's name may have an `@` in it, before which stands its room."""
    topic, _, rest = queue.partition("@")
    name, _, number = rest.rpartition(":")
    return MessageQueue(topic, name, int(number))
