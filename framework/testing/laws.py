"""Laws that a strategy must keep before members may trust it with their queues, an expiry policy with messages, a codec
with bodies, and stores with what was handled (`once`) and with progress. For the tests of plugin authors, too
(`plugin_laws.py` tries all that a plugin offers):

    def test_my_strategy_keeps_the_laws() -> None:
        check_allocation(MyStrategy())

    def test_my_policy_keeps_the_laws() -> None:
        check_expiry(MyPolicy())

    def test_my_store_keeps_the_laws(tmp_path: Path) -> None:
        check_dedup(MyStore(), folder=str(tmp_path))

    def test_my_store_of_progress_keeps_the_laws(tmp_path: Path) -> None:
        check_progress(MyProgressStore(), folder=str(tmp_path))

A broken law is an AssertionError that names the law and the case. Strategies are asked as the framework asks them, with
sorted lists; what they do with one member, none of the queues, or more members than queues is tried as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from framework.core.assignment import allocate
from framework.errors import Refused, Superseded
from framework.model.contracts import (
    AllocationStrategy,
    DedupStore,
    ExpiryPolicy,
    KeepsProgress,
    Kept,
    ProgressMeans,
    ProgressStore,
    RemembersKeys,
)
from framework.model.delivery import Delivery
from framework.model.message import Message
from framework.model.outcome import Ack, DeadLetter, Drop, Extend, RetryLater, Suspend
from framework.model.queue import MessageQueue
from framework.net.real_world import RealFiles
from framework.testing.codec_laws import GARBAGE, check_codec

__all__ = [
    "GARBAGE",
    "check_allocation",
    "check_codec",
    "check_dedup",
    "check_expiry",
    "check_progress",
    "progress_laws",
]

T = TypeVar("T")
_ANSWERS = (Extend, Ack, RetryLater, DeadLetter, Suspend, Drop)

MEMBERS = tuple(f"10.0.{at % 3}.{at}@{1000 + 7 * at}#{at:04x}" for at in range(12))
"""Members as they are called in real groups: address, process, and something to tell apart two in one process."""
QUEUES = tuple(MessageQueue("orders", f"broker-{'abc'[at % 3]}", at // 3) for at in range(30))
MESSAGES = (
    *(Message("orders", b"{}", keys=("4711",), tags="created", attempt=attempt) for attempt in (1, 2, 16, 17, 1000)),
    Message("orders"),
)
AGES_MS = (1, 100, 60_100, 900_000, 86_400_000)


def check_allocation(
    strategy: AllocationStrategy,
    *,
    covers: bool = True,
    within: int | None = None,
    members: Sequence[str] = MEMBERS,
    queues: Sequence[MessageQueue] = QUEUES,
) -> None:
    """Raise AssertionError unless the strategy keeps the laws for these members and queues, and for fewer of them.

    - cover: every queue has an owner (leave it out by `covers=False`, for strategies that leave queues to others)
    - no overlap: no queue has two owners, and no member gets a queue that was not offered
    - determinism: asked again, it answers the same
    - permutation: it answers the same however the broker happened to list members and queues
    - strangers: who is not on the list owns nothing
    - balance: shares differ by at most `within`; not checked when it is None
    """
    assert isinstance(strategy, AllocationStrategy), f"{strategy!r} has no name or no allocate()"
    for some_members, some_queues in _cases(members, queues):
        case = f"strategy {strategy.name!r}, {len(some_members)} members, {len(some_queues)} queues"
        shares = [allocate(strategy, each, some_members, some_queues) for each in some_members]
        owned = [queue for share in shares for queue in share]
        twice = sorted({queue for queue in owned if owned.count(queue) > 1})
        assert not twice, f"{case}: no overlap: {twice[0]} has more than one owner"
        nobodys = [queue for queue in some_queues if queue not in owned]
        assert not (covers and nobodys), f"{case}: cover: {nobodys[0]} has no owner"
        for member, share in zip(some_members, shares, strict=True):
            _check_member(strategy, member, share, some_members, some_queues, case)
        sizes = [len(share) for share in shares]
        assert within is None or max(sizes) - min(sizes) <= within, f"{case}: balance: shares of {sorted(sizes)}"
        stranger = strategy.allocate("nobody", sorted(some_members), sorted(some_queues))
        assert not stranger, f"{case}: strangers: a member that is not on the list was given {stranger[0]}"


def _check_member(
    strategy: AllocationStrategy,
    member: str,
    share: list[MessageQueue],
    members: Sequence[str],
    queues: Sequence[MessageQueue],
    case: str,
) -> None:
    again = allocate(strategy, member, members, queues)
    assert share == again, f"{case}: determinism: {member} got {_shown(share)}, and then {_shown(again)}"
    for other_members in _permuted(members):
        for other_queues in _permuted(queues):
            found = allocate(strategy, member, other_members, other_queues)
            assert share == found, (
                f"{case}: permutation: {member} got {_shown(share)}, and {_shown(found)} in another order"
            )


def _cases(members: Sequence[str], queues: Sequence[MessageQueue]) -> Iterator[tuple[list[str], list[MessageQueue]]]:
    """Groups of every size, with no queue, one, as many as members, one more, and all."""
    for count in range(1, len(members) + 1):
        for size in sorted({0, 1, count - 1, count, count + 1, len(queues)}):
            yield list(members[:count]), list(queues[:size])


def _permuted(things: Sequence[T]) -> Iterator[list[T]]:
    """Three orders that have little in common; chosen by rule, so that a failure is the same on every machine."""
    yield list(reversed(things))
    yield [*things[len(things) // 2 :], *things[: len(things) // 2]]
    yield [*things[1::2], *things[::2]]


def _shown(share: Sequence[MessageQueue]) -> str:
    return ", ".join(map(str, share)) or "nothing"


def check_expiry(
    policy: ExpiryPolicy, *, messages: Sequence[Message] = MESSAGES, ages_ms: Sequence[int] = AGES_MS
) -> None:
    """Raise AssertionError unless the policy keeps the laws for these messages at these ages.

    - answers: always `Extend` or one of the five outcomes, also for a message without body, keys or tags
    - determinism: asked again, it answers the same, whatever it was asked in between
    - hands off: it asks for no time itself; that is the handler's affair
    """
    assert isinstance(policy, ExpiryPolicy), f"{policy!r} has no name or no decide()"
    cases = [(message, age_ms) for message in messages for age_ms in ages_ms]
    first = [_decided(policy, *case) for case in cases]
    again = [_decided(policy, *case) for case in reversed(cases)][::-1]
    for (message, age_ms), one, other in zip(cases, first, again, strict=True):
        case = f"policy {policy.name!r}, attempt {message.attempt} after {age_ms} ms"
        assert isinstance(one, _ANSWERS), f"{case}: answers: {one!r} is neither Extend nor an outcome"
        assert one == other, f"{case}: determinism: it answered {one}, and then {other}"


class _Watched:
    """A run that notes whether it was asked for more time."""

    verdict = None

    def __init__(self) -> None:
        self.is_extended = False

    def extend(self, by: str | float) -> bool:
        self.is_extended = True
        return True


def _decided(policy: ExpiryPolicy, message: Message, age_ms: int) -> object:
    run = _Watched()
    answer = policy.decide(Delivery("billing", message, 1_000.0, run), age_ms)
    assert not run.is_extended, f"policy {policy.name!r}: hands off: answer Extend instead of calling extend()"
    return answer


KEYS = ("4711", "", "a" * 300, "with 'quotes' and \x00", "\u5546\u54c1", "\ud800", "4711 ")
"""What users' functions answer, and what producers write into messages."""


class _Means:
    """What a store is given, with a clock that stands still until it is moved."""

    def __init__(self, group: str, folder: str) -> None:
        self.group, self.folder = group, folder
        self.at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms

    async def in_thread(self, job: Callable[[], Any]) -> Any:
        return job()


def check_dedup(store: DedupStore, *, folder: str = "", keys: Sequence[str] = KEYS, survives: bool = False) -> None:
    """Raise AssertionError unless the store keeps the laws for these keys. `folder`: where it may write.

    - memory: a key that was recorded is had, for as long as was said, and not any longer; until then nothing is had
    - apart: neither another key nor another group has it
    - again: recording it once more is no mistake, and counts from then
    - kind: any text is a key
    - survives (where `survives`): what was recorded is had by the store that is opened next
    """
    assert isinstance(store, DedupStore), f"{store!r} has no name or no open()"
    asyncio.run(_check_dedup(store, folder, keys, survives=survives))


async def _check_dedup(store: DedupStore, folder: str, keys: Sequence[str], *, survives: bool) -> None:
    means, others = _Means("billing", folder), _Means("shipping", folder)
    opened, other = store.open(means), store.open(others)
    said = f"store {store.name!r}"
    for key in keys:
        case = f"{said}, key {key!r}"
        assert not await opened.has(key), f"{case}: memory: it is had before it was recorded"
        await opened.record(key, 1_000)
        assert await opened.has(key), f"{case}: memory: it is not had after it was recorded"
        assert not await other.has(key), f"{case}: apart: another group has it, too"
        means.at_ms += 900
        await opened.record(key, 1_000)
        means.at_ms += 900
        assert await opened.has(key), f"{case}: again: the time did not count anew"
        means.at_ms += 101
        assert not await opened.has(key), f"{case}: memory: it is had after its time was over"
    first, *rest = keys
    await opened.record(first, 60_000)
    strange = [key for key in rest if await opened.has(key)]
    assert not strange, f"{said}: apart: {strange[0]!r} is had where {first!r} was recorded"
    await opened.close()
    await other.close()
    if survives:
        await _check_survival(store.open(means), first, said)


async def _check_survival(again: RemembersKeys, key: str, said: str) -> None:
    had = await again.has(key)
    await again.close()
    assert had, f"{said}: survives: what was recorded is gone"


RECORDS = (b"{}", b"", b"first\nsecond\x00\xff", b"x" * 4_096)
"""What members write; nothing but the length is a store's affair."""
_PLACES = tuple(MessageQueue("orders", "broker-a", number) for number in range(3))


class _MemoryMeans:
    """What one group gives to its store: a folder of this machine, and brokers in memory, none of which is a built-in
    broker.
    """

    def __init__(self, group: str, folder: str, places: dict[MessageQueue, list[Message]]) -> None:
        self.group, self.folder, self.files = group, f"{folder}/{group}", RealFiles()
        self._places = places

    async def in_thread(self, job: Callable[[], Any]) -> Any:
        return job()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        return [MessageQueue(topic, "broker-a", number) for number in range(4)]

    async def end(self, queue: MessageQueue) -> int:
        return len(self._places.get(queue, []))

    async def peek(self, queue: MessageQueue, offset: int, count: int) -> Sequence[Message]:
        return self._places.get(queue, [])[offset : offset + count]

    async def send(self, message: Message, queue: MessageQueue) -> int:
        place = self._places.setdefault(queue, [])
        stored = Message(
            queue.topic, message.body, keys=message.keys, properties=message.properties, queue=queue,
            queue_offset=len(place),
        )  # fmt: skip
        place.append(stored)
        return stored.queue_offset

    def proof(self, content: bytes) -> str:
        return ""

    def at_broker(self) -> KeepsProgress:
        raise Refused(3, "there is no built-in broker in memory", request="at_broker", peer="broker-a")


def check_progress(store: ProgressStore, *, folder: str = "", survives: bool = True) -> None:
    """Raise AssertionError unless the store keeps the laws. `folder`: where it may write.

    - nothing: a queue of which nothing was kept has no record
    - kept: what was taken or written last is read, with its epoch, byte by byte
    - epochs: each acquisition has a higher one than all before
    - former: what is written under an epoch that is not the highest any more counts for nothing
    - apart: neither another queue nor another group has it
    - survives (where `survives`): the store that is opened next has it, and gives higher epochs
    """
    places: dict[MessageQueue, list[Message]] = {}
    asyncio.run(progress_laws(store, lambda group: _MemoryMeans(group, folder, places), survives=survives))


async def progress_laws(store: ProgressStore, means: Callable[[str], ProgressMeans], *, survives: bool = True) -> None:
    """`check_progress` for a store that needs more than a folder: `means` gives it to a group, in this very loop."""
    assert isinstance(store, ProgressStore), f"{store!r} has no name or no open()"
    said, (queue, other, _) = f"store {store.name!r}", _PLACES
    opened, others = store.open(means("billing")), store.open(means("shipping"))
    assert await opened.read(queue) is None, f"{said}: nothing: there is a record before one was kept"
    epochs: list[int] = []
    for content in RECORDS:
        epochs.append(await _acquired(opened, queue, content, epochs, said))
        for later in RECORDS:
            await opened.write(queue, epochs[-1], later)
            await _check_kept(opened, queue, Kept(epochs[-1], later), f"{said}: kept")
        if len(epochs) > 1:
            await _written_late(opened, queue, epochs[-2])
            await _check_kept(opened, queue, Kept(epochs[-1], later), f"{said}: former")
    for elsewhere, place in ((opened, other), (others, queue)):
        assert await elsewhere.read(place) is None, f"{said}: apart: {place} of another group or number has it, too"
        await elsewhere.write(place, await elsewhere.take(place, b"other"), b"other")
    await _check_kept(opened, queue, Kept(epochs[-1], RECORDS[-1]), f"{said}: apart")
    if survives:
        again = store.open(means("billing"))
        await _check_kept(again, queue, Kept(epochs[-1], RECORDS[-1]), f"{said}: survives")
        await _acquired(again, queue, b"", epochs, said)


async def _acquired(opened: KeepsProgress, queue: MessageQueue, content: bytes, epochs: list[int], said: str) -> int:
    epoch = await opened.take(queue, content)
    assert all(epoch > before for before in epochs), f"{said}: epochs: {epoch} was given after {epochs}"
    await _check_kept(opened, queue, Kept(epoch, content), f"{said}: kept")
    return epoch


async def _written_late(opened: KeepsProgress, queue: MessageQueue, epoch: int) -> None:
    try:
        await opened.write(queue, epoch, b"of a former owner")
    except Superseded:
        return  # told at once; others tell it with a later record


async def _check_kept(opened: KeepsProgress, queue: MessageQueue, kept: Kept, law: str) -> None:
    found = await opened.read(queue)
    assert found == kept, f"{law}: {found} was read, and not {kept}"
