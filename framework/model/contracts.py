"""What plugins implement: protocols that stand below everybody, so that host, core and guest can name them.

A protocol arrives here with the first code that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from framework.model.allocation import Allocation
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Extend, Outcome
from framework.model.queue import MessageQueue
from framework.model.subscription import Start

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

T = TypeVar("T")


@runtime_checkable
class AllocationStrategy(Protocol):
    """Which of a topic's queues a member owns.

    Members do not vote: each one computes this for itself from the same sorted lists, and all must come to answers that
    fit together. So a strategy is pure: no clock, no chance, no memory of the last round.
    """

    @property
    def name(self) -> str:
        """What `consumers.<group>.allocation` calls it."""
        ...

    def allocate(self, member: str, members: Sequence[str], queues: Sequence[MessageQueue]) -> list[MessageQueue]:
        """The queues of `member`; both lists are sorted, and a member that is not on the list owns nothing."""
        ...


@runtime_checkable
class TakesOptions(Protocol):
    """A strategy that may be named with options: `allocation: {name: {option: value}}`.

    What is registered is a pattern: each group that names it gets a strategy of its own from `configured`.
    """

    @property
    def options(self) -> type[Any]:
        """The pydantic model of the options. A field without a default must be written."""
        ...

    def configured(self, options: Any, choose: Callable[[Allocation, str], AllocationStrategy]) -> AllocationStrategy:
        """The strategy with these options; `choose` finds another one that the option of that name speaks of."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """A strategy that does not promise an owner for every queue, and says so."""

    def remarks(self, members: Sequence[str], queues: Sequence[MessageQueue]) -> Sequence[str]:
        """What a person should know of this division, with the numbers; nothing when all is well."""
        ...


@runtime_checkable
class ExpiryPolicy(Protocol):
    """What becomes of a message whose handler has run for longer than its group's `timeout`.

    Asked on the event loop, so it is quick; and pure: the same delivery and age have the same answer.
    """

    @property
    def name(self) -> str:
        """What `consumers.<group>.expiry` calls it."""
        ...

    def decide(self, delivery: Delivery, age_ms: int) -> Extend | Outcome:
        """`Extend` lets the handler run on; any outcome settles the message at once, and the handler has timed out."""
        ...


@dataclass(frozen=True, slots=True)
class Kept:
    """What a store has of one queue: the newest record, and the epoch of the acquisition that wrote it."""

    epoch: int
    content: bytes


class SmallFiles(Protocol):
    """Files that must be whole or not at all. Each method blocks, and raises OSError."""

    def read(self, path: str) -> bytes | None:
        """The content, or None where there is no such file."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Put the content in place so that a crash at any moment leaves the old file or the new one."""
        ...

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take the path for this process alone, and make its folder where there is none.

        What gives it up, or None where another process has it. A process that ends gives up what it has taken.
        """
        ...


class ProgressMeans(Protocol):
    """What one group gives to its store of progress."""

    @property
    def group(self) -> str: ...
    @property
    def folder(self) -> str:
        """Where files of this group belong on this machine."""
        ...

    @property
    def files(self) -> SmallFiles:
        """Those of this machine; call them by `in_thread`."""
        ...

    async def in_thread(self, job: Callable[[], T]) -> T:
        """For what blocks."""
        ...

    async def queues(self, topic: str) -> Sequence[MessageQueue]: ...
    async def end(self, queue: MessageQueue) -> int: ...
    async def peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[Message]:
        """What is at an offset, without waiting for more and without any trace at the broker."""
        ...

    async def send(self, message: Message, queue: MessageQueue) -> int:
        """Store a message in this very queue, confirmed; its offset there."""
        ...

    def proof(self, content: bytes) -> str:
        """A keyed hash, for what others may write who are no members: none of them can make it. The key is
        `progress.key`, else that of the credentials; without either there is no proof, and it is empty.
        """
        ...

    def at_broker(self) -> KeepsProgress:
        """What brokers keep themselves that have requests for it: those in the built-in broker. Others refuse each
        call.
        """
        ...


class KeepsProgress(Protocol):
    """One group's store at work. Whatever it raises, or takes longer than 30 s for, has failed: while it cannot be read
    a queue does not begin, but for a record that was asked for five times and can be replaced: that one is discarded.
    While it cannot be written nothing is kept and handling goes on. What it takes longer than
    a second for is named.
    """

    async def read(self, queue: MessageQueue) -> Kept | None:
        """The newest record of the highest epoch; StoreError where there is one that cannot be read."""
        ...

    async def take(self, queue: MessageQueue, content: bytes) -> int:
        """Keep the first record of an acquisition, durable when this returns; its epoch, above all before it."""
        ...

    async def write(self, queue: MessageQueue, epoch: int, content: bytes) -> None:
        """Keep a later one, durable when this returns. It counts no more once a higher epoch has been given, of which
        Superseded tells at once, or with a later record.
        """
        ...


@runtime_checkable
class ProgressStore(Protocol):
    """Where what has ended above a gap is kept: `consumers.<group>.progress` names one."""

    @property
    def name(self) -> str: ...
    def open(self, means: ProgressMeans) -> KeepsProgress:
        """The store of one group; nothing is opened or called yet."""
        ...


class DedupMeans(Protocol):
    """What one handler gives to the store of what it has handled."""

    @property
    def group(self) -> str: ...
    @property
    def folder(self) -> str:
        """Where files belong on this machine; it may have to be made."""
        ...

    @property
    def now_ms(self) -> Callable[[], int]:
        """Unix time; for `memory`, which outlives no process, time that nobody sets."""
        ...

    async def in_thread(self, job: Callable[[], T]) -> T:
        """For what blocks."""
        ...


class RemembersKeys(Protocol):
    """One handler's store at work, called on the event loop by several deliveries at once, of one key by one at a time.
    Whatever it raises, or takes longer than 5 s for: its message is handled.
    """

    async def has(self, key: str) -> bool:
        """Whether the key was recorded, and its time is not over."""
        ...

    async def record(self, key: str, keep_ms: int) -> None:
        """Its message was handled: `has` says so for this long."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class DedupStore(Protocol):
    """Where `once` remembers what was handled: `consumers.<group>.once_store` names one."""

    @property
    def name(self) -> str: ...
    def open(self, means: DedupMeans) -> RemembersKeys:
        """The store of one handler; nothing is opened or called yet."""
        ...


@runtime_checkable
class Command(Protocol):
    """A command of `framework-app`, as those of the framework are; a module with these two functions is one, too.

    The docstring is its help, whose first line `framework-app plugins` shows.
    """

    def add_options(self, parser: ArgumentParser) -> None:
        """Name its options, to a parser that has those of the settings already (--config, --set)."""
        ...

    def execute(self, arguments: Namespace, settings: Any) -> int:
        """Do it with these settings (AppSettings); answers the exit code. What it raises is logged in one line, and its
        traceback with --debug.
        """
        ...


COMMAND_GROUPS: dict[str, dict[str, str]] = {
    "develop": {
        "new": "writes the folder of a new application or plugin: `new app NAME`, `new plugin NAME`",
        "dev": "runs an application with its own broker, restarts at each change, a line per message",
        "check": "reads settings, handlers and plugins; lists all errors",
        "config": "reads the settings: where each value comes from, or their schema for editors",
        "plugins": "reads which plugins are loaded, their sources and their hooks",
        "explain": "reads what the id of an error or a log line means, and what to do; offline",
    },
    "operate": {
        "run": "runs the handlers of an application; commits the offsets of its groups",
        "broker": "runs the built-in broker; writes to its own folder only",
    },
    "look (a broker is only asked)": {
        "topics": "reads the topics of a cluster",
        "groups": "reads the groups of a cluster, or one: members, queues, what is wrong",
        "lag": "reads how far groups are behind, in messages and in time",
        "tail": "reads messages of a topic; joins no group",
        "trace": "reads where a message is, and what became of it in each group",
        "doctor": "reads what is usually wrong in a cluster or a group, with the remedy",
        "dashboard": "reads all of this for a browser; with --allow-writes its pages may change it",
    },
    "look at a running application (its control socket is asked)": {
        "health": "reads whether it lives, or with --ready is ready, and why not; exits with 0 or 1",
        "stacks": "reads every handler that runs: its message, for how long, and where it is",
        "top": "reads what its groups do, again and again; pauses and resumes by keys",
        "snapshot": "reads the whole picture, as JSON",
    },
    "change (--dry-run shows the plan; without --yes it asks)": {
        "send": "writes a message to a topic, or one for each line of a file; does not ask",
        "reset": "writes where a group goes on; shows what comes again",
        "dlq": "reads a group's dead letters (list, show), or writes (replay, drop)",
        "pause": "writes to a running application: a group of it starts nothing, until `resume`",
        "resume": "writes to it: the group goes on",
        "resize": "writes to it: how many handlers of a group run at once",
    },
}
"""Each command says in its line whether it reads or writes, as whoever is called at night wants to know."""
COMMANDS = {name: text for commands in COMMAND_GROUPS.values() for name, text in commands.items()}
"""`cli/main.py` shows and runs them; a plugin may not offer one of these names."""


@runtime_checkable
class Runner(Protocol):
    """How handlers are run that name an engine: `@consumer(..., engine="spark")`."""

    def prepared(self, function: Callable[..., object], name: str, group: str) -> Callable[[list[Message]], object]:
        """What is called, on worker threads and perhaps several at once, with each batch in the function's place.

        Asked once a handler, when an application is put together, before anything is started; `group` is what settings
        call its group. What the call answers or raises means what it means of a batch handler: None is success, a list
        has one outcome a message.
        """
        ...


@runtime_checkable
class Codec(Protocol):
    """How bodies are read by handlers that name it: `@consumer(..., codec="avro")`."""

    def decoder(self, annotation: Any, parameter: str) -> Callable[[bytes], object]:
        """What makes a body what the handler's parameter is annotated; of a batch, what its list is of.

        Asked once a parameter, when an application is put together; what it cannot make fails the start, by whatever it
        raises. What the decoder itself raises, on worker threads or the event loop, is an undecodable body: of a
        `BodyUndecodable` the text is shown, so it should hold nothing of the body.
        """
        ...


@runtime_checkable
class Encodes(Protocol):
    """A codec that also writes: `@publishes("invoices", codec="avro")`."""

    def encoder(self, topic: str) -> Callable[[object], bytes]:
        """What makes a body of what handlers return; called once per handler, when an application is put together.

        Called on the event loop with anything but a `Message`, bytes or an outcome. What it raises is the handler's
        failure, and nothing is sent.
        """
        ...


@dataclass(frozen=True, slots=True)
class Taking:
    """A group that its engine consumes by itself, with its one handler. Names are those that the cluster knows."""

    name: str
    """The handler's."""
    function: Callable[..., object]
    group: str
    topic: str
    tags: str
    sql: str | None
    batch: int
    linger_ms: int
    max_retries: int
    start: Start
    """Where a new group starts."""
    cluster: Any
    """`framework.settings.schema.Cluster`: how it is reached."""


class Taken(Protocol):
    """One such group at work. `run` has a thread to itself; the others are quick, and called on the event loop."""

    def run(self) -> None:
        """Consume until `stop`, and over all troubles that pass; returns when what ran has ended."""
        ...

    def stop(self, drain_ms: int) -> None:
        """Begin nothing new, and let what runs take this long at most."""
        ...

    @property
    def idle_ms(self) -> int:
        """For how long there has been nothing to do; 0 while there is."""
        ...

    @property
    def picture(self) -> Mapping[str, str]:
        """What people should see of it, without a secret; `state` says in a word how it goes."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of messages so far: `handled`, `retried`, `dead_lettered`."""
        ...

    @property
    def lag(self) -> Mapping[str, int]:
        """Queue, as texts name it -> messages of it that were not read yet at the last call."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A runner that counts what it runs, in both ways."""

    def figures(self, group: str) -> Mapping[str, float]:
        """Name -> number, for metrics; nothing where nothing ran yet. What only grows ends in `_total`, all else is as
        it was last. `group` is what settings call it. Asked on the event loop, and quick.
        """
        ...


@runtime_checkable
class NamesGroups(Protocol):
    """A runner whose settings name groups. About a group that has no handler of its they would have no effect."""

    @property
    def named(self) -> Mapping[str, tuple[str, ...]]:
        """Group -> where the settings name it: ("plugins", "settings", "spark", "groups", GROUP)."""
        ...


@runtime_checkable
class TakesGroups(Protocol):
    """A runner that may also consume groups by itself, with what it has for reading: we join no such group."""

    def takes(self, group: str) -> bool:
        """Whether it does so with this group, named as in the settings."""
        ...

    def taken(self, taking: Taking) -> Taken:
        """Asked once a group, before anything is started. ConfigurationError for what cannot work."""
        ...
