"""Records of progress that somebody else has written: none of them has a message passed over."""

from __future__ import annotations

import asyncio
import re

import pytest

from framework.core import limits
from framework.core.ranges import Finished, ProgressRecord, is_proof, key_of, mark_of, proof_of
from framework.hooks.builtin.progress.progress_topic import AFTER, EPOCH, PROOF, TopicStore
from framework.model.message import KEYS, Message
from framework.model.queue import MessageQueue
from tests.services.offsets.progress_scene import END, LOW, Broker, Means, Owner
from tests.services.parts import QUEUE, play, play_logged, told

KEY, OTHER = b"k" * 32, b"o" * 32
PASSED = ((LOW + 1, END),)


def owner(broker: Broker, key: bytes = KEY, queue: MessageQueue = QUEUE) -> Owner:
    return Owner(broker, TopicStore().open(Means(broker, key=key)))


async def begun(broker: Broker, key: bytes = KEY) -> Owner:
    return await owner(broker, key).begin()


async def stuck(broker: Broker, key: bytes = KEY) -> Owner:
    """An owner that has kept 11 to 20, while 10 is at work."""
    broker.append(*range(END))
    broker.offset = LOW
    found = await begun(broker, key)
    found.pull(END)
    found.end(*range(LOW + 1, END))
    await found.flush()
    return found


def place_of(broker: Broker) -> tuple[MessageQueue, list[Message]]:
    ((place, records),) = broker.places.items()
    return place, records


def forged(broker: Broker) -> bytes:
    """All above the low end has ended, says a stranger who can read the topic."""
    found = Finished(mark_of(broker.log[LOW]), PASSED, mark_of(broker.log[END - 1]))
    return ProgressRecord(QUEUE, 3, found, "stranger").encode()


async def send(broker: Broker, content: bytes, **properties: str) -> None:
    place, _ = place_of(broker)
    await Means(broker).send(Message(place.topic, content, keys=(str(QUEUE),), properties=properties), place)


async def quiet(broker: Broker) -> None:
    """A group that was there, and has nothing to pass over."""
    broker.append(*range(END))
    broker.offset = LOW
    await begun(broker)


FORGERIES: dict[str, dict[str, str]] = {
    "a first record": {},
    "under the present epoch": {EPOCH: "0"},
    "under an epoch to come": {EPOCH: "999999999"},
    "under its own place": {EPOCH: "1"},
    "after what is to come": {EPOCH: "0", AFTER: "999999999"},
    "under no number": {EPOCH: "-1"},
    "with a proof by another key": {PROOF: proof_of(OTHER, b"billing", b"x")},
    "with no proof": {PROOF: "\ud800"},
}


@pytest.mark.parametrize("how", FORGERIES)
def test_what_a_stranger_writes_has_nothing_passed_over(how: str) -> None:
    async def story() -> None:
        broker = Broker()
        await quiet(broker)
        await send(broker, forged(broker), **FORGERIES[how])
        assert () == (await begun(broker)).passed
        assert () == (await begun(broker)).passed

    _, lines = play_logged(story)
    (said,) = [line for line in lines if line["event"] == "progress discarded"]
    assert "warning" == said["log_level"]
    assert "without this group's key" in said["reason"]


@pytest.mark.parametrize("epoch", ["999999999", "-1", "one"])
def test_an_epoch_that_nobody_was_given_makes_no_record_where_there_is_no_key_either(epoch: str) -> None:
    async def story() -> None:
        broker = Broker()
        broker.append(*range(END))
        broker.offset = LOW
        await begun(broker, b"")
        await send(broker, forged(broker), **{EPOCH: epoch})
        assert () == (await begun(broker, b"")).passed
        assert (await begun(broker, b"")).progress.epoch < 10

    play(story)


def test_members_with_one_key_pass_over_what_another_has_finished() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck(broker)
        assert PASSED == (await begun(broker)).passed
        assert PASSED == (await begun(broker)).passed, "what it inherited is kept under its own epoch"

    _, lines = play_logged(story)
    assert ("progress discarded",) not in told(lines)


@pytest.mark.parametrize("before", [b"", OTHER])
def test_an_older_version_s_records_and_those_under_an_old_key_are_repeated_and_named_once(before: bytes) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck(broker, before)
        changed = owner(broker)
        assert () == (await changed.begin()).passed
        changed.pull(END)
        changed.end(*range(LOW + 1, END))
        await changed.flush()
        assert PASSED == (await begun(broker)).passed

    _, lines = play_logged(story)
    assert 1 == told(lines).count(("progress discarded",))


def test_a_group_says_once_that_records_are_not_its_own() -> None:
    async def story() -> None:
        broker = Broker()
        await stuck(broker, b"")
        first, second = owner(broker), owner(broker)
        second.progress._shared = first.shared
        await first.begin()
        await stuck(broker, b"")
        await second.begin()

    _, lines = play_logged(story)
    levels = [line["log_level"] for line in lines if line["event"] == "progress discarded"]
    assert ["warning", "debug"] == levels


def test_a_member_without_the_key_takes_back_what_one_with_it_has_kept() -> None:
    """As in a rolling change: it moves the queue back, and what was kept before must not be passed over after it."""

    async def story() -> None:
        broker = Broker()
        await stuck(broker)
        without = await begun(broker, b"")
        without.goes_on_at(5)
        assert await without.progress.start_over(without.window)
        broker.offset = LOW
        assert () == (await begun(broker)).passed

    play(story)


def test_a_record_that_is_sent_once_more_brings_nothing_back() -> None:
    """A stranger may copy what he reads, with its proof."""

    async def story() -> None:
        broker = Broker()
        await stuck(broker)
        inheriting = await begun(broker)  # its first record has ranges, too
        inheriting.goes_on_at(5)
        assert await inheriting.progress.start_over(inheriting.window)
        broker.offset = LOW
        for record in list(place_of(broker)[1]):
            await send(
                broker, record.body, **{name: record.properties[name] for name in record.properties if name != KEYS}
            )
            assert () == (await begun(broker)).passed

    play(story)


@pytest.mark.parametrize("left_out", [(), (AFTER,), (AFTER, PROOF), (EPOCH,)])
def test_a_copy_brings_nothing_back_either_where_what_took_it_back_is_buried(left_out: tuple[str, ...]) -> None:
    """The search for a queue's record goes back by a bounded number of records, which a stranger can write."""

    async def story() -> None:
        broker = Broker()
        moved = await stuck(broker)
        place, records = place_of(broker)
        kept = records[-1]
        moved.goes_on_at(5)
        assert await moved.progress.start_over(moved.window)
        broker.offset = LOW
        means = Means(broker)
        for _ in range(limits.RECORDS_READ_MAX):
            await means.send(Message(place.topic, b"x", keys=("other@broker-a:0",)), place)
        copied = {name: text for name, text in kept.properties.items() if name not in (KEYS, *left_out)}
        await send(broker, kept.body, **copied)
        assert () == (await begun(broker)).passed

    play(story)


def test_an_owner_that_could_not_see_all_takes_its_queue_anew() -> None:
    """More was written between two of its records than anybody looks at; among it may be who has taken the queue."""

    async def story() -> None:
        broker = Broker()
        present = await stuck(broker)
        place, _ = place_of(broker)
        means, epoch = Means(broker), present.progress.epoch
        for _ in range(limits.RECORDS_READ_MAX + 10):
            await means.send(Message(place.topic, b"x", keys=("other@broker-a:0",)), place)
        await asyncio.sleep(limits.RECORD_REFRESH_MS / 1000)
        await present.flush()
        assert present.progress.epoch > epoch
        assert PASSED == (await begun(broker)).passed

    _, lines = play_logged(story)
    assert ("progress not kept",) not in told(lines)


@pytest.mark.parametrize("key", [b"", KEY])
def test_an_owner_whose_topic_was_made_again_takes_its_queue_anew(key: bytes) -> None:
    async def story() -> None:
        broker = Broker()
        await stuck(broker, key)
        present = await begun(broker, key)
        place_of(broker)[1].clear()
        present.pull(END)
        await asyncio.sleep(limits.RECORD_REFRESH_MS / 1000)
        await present.flush()
        await present.flush()
        assert 0 <= present.progress.epoch < 3
        assert PASSED == (await begun(broker, key)).passed

    play(story)


@pytest.mark.parametrize("key", [b"", KEY])
def test_an_owner_that_has_written_for_long_is_believed(key: bytes) -> None:
    """Its acquisition began further back than anybody looks."""

    async def story() -> None:
        broker = Broker()
        present = await stuck(broker, key)
        store = present.shared.store
        content = place_of(broker)[1][-1].body
        for _ in range(limits.RECORDS_READ_MAX + 10):
            await store.write(QUEUE, present.progress.epoch, content)
        assert PASSED == (await begun(broker, key)).passed

    play(story)


def test_a_strangers_first_record_takes_no_queue_from_its_owner() -> None:
    async def story() -> None:
        broker = Broker()
        present = await stuck(broker)
        epoch = present.progress.epoch
        await send(broker, forged(broker))
        broker.append(*range(END, END + 5))
        present.pull(END + 5)
        present.end(*range(END, END + 5))
        await present.flush()
        assert epoch == present.progress.epoch

    _, lines = play_logged(story)
    assert ("progress not kept",) not in told(lines)


def test_a_proof_is_of_its_key_and_of_all_that_is_said() -> None:
    key = key_of("secret")
    proof = proof_of(key, b"billing", b"content")

    assert re.fullmatch("[0-9a-f]{32}", proof)
    assert is_proof(proof, proof_of(key_of("secret"), b"billing", b"content"))
    for other in (
        proof_of(key, b"billingc", b"ontent"), proof_of(key, b"billing", b"content", b""),
        proof_of(key_of("another"), b"billing", b"content"), "",
    ):  # fmt: skip
        assert not is_proof(other, proof)
