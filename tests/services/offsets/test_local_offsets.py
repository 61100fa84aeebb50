"""LocalOffsets: a broadcasting group's files, on a simulated disk and in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.core.offset_file import SavedOffsets, encode
from framework.errors import ConfigurationError, StoreError
from framework.model.queue import MessageQueue
from framework.net.task_tree import TaskTree
from framework.ports import World
from framework.services.offsets.local_offsets import LocalOffsets, OffsetFiles
from framework.testing.sim.disk import SimDisk
from tests.services.parts import QUEUE, EvenChance, LoopClock, play, play_logged, told
from tests.simulation.left_out import left_out

OTHER, UNREAD = MessageQueue("orders", "broker-b", 0), MessageQueue("orders", "broker-b", 1)
PLACE = OffsetFiles("/offsets/app", "cache", "/java/10.0.0.1@DEFAULT")


class Disk(SimDisk):
    """Counts what is written, and may be full."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.error: OSError | None = None

    def replace(self, path: str, content: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.writes.append(path)
        super().replace(path, content)


class Threads:
    """Jobs run at a later step."""

    async def run(self, job: Any) -> Any:
        await asyncio.sleep(0.001)
        return job()


class Brokers:
    async def min_offset(self, queue: MessageQueue) -> int:
        return 3

    max_offset = min_offset


def offsets_on(disk: SimDisk, tree: TaskTree | None = None) -> LocalOffsets:
    brokers: Any = Brokers()
    brokers.search_offset = brokers.min_offset
    nowhere: Any = None
    workers: Any = Threads()
    world = World(LoopClock(), nowhere, workers, EvenChance(), nowhere, disk)
    return LocalOffsets(PLACE, brokers, world, tree or TaskTree())


async def stored(disk: SimDisk, queue: MessageQueue = QUEUE) -> int | None:
    """What a process that starts now would find."""
    disk.crash()
    after = offsets_on(disk)
    after.open()
    return await after.query_offset("cache", queue)


def test_what_is_committed_is_found_by_the_next_process() -> None:
    async def story() -> None:
        disk = Disk()
        offsets = offsets_on(disk)
        offsets.open()
        assert await offsets.query_offset("cache", QUEUE) is None
        await offsets.commit("cache", QUEUE, 7)
        await offsets.commit("cache", OTHER, 9)
        await offsets.commit("cache", QUEUE, 3)  # a reset goes back
        offsets.close()
        after = offsets_on(disk)
        after.open()
        assert (3, 9) == (await after.query_offset("cache", QUEUE), await after.query_offset("cache", OTHER))
        assert 3 == await after.min_offset(QUEUE), "what brokers know is asked of them"

    play(story)


def test_those_who_come_together_share_one_write() -> None:
    async def story() -> None:
        disk = Disk()
        offsets = offsets_on(disk)
        offsets.open()
        for number in range(20):
            assert 5 == await offsets.commit_one_way("cache", MessageQueue("t", "b", number), lambda: 5)
        await asyncio.sleep(0.1)
        assert 1 == len(disk.writes)
        await asyncio.gather(*(offsets.commit("cache", MessageQueue("t", "b", number), 6) for number in range(20)))
        assert len(disk.writes) <= 3, "one that was under way, and one for all who came meanwhile"
        assert 6 == await stored(disk, MessageQueue("t", "b", 19))
        assert await offsets.commit_one_way("cache", QUEUE, lambda: None) is None

    play(story)


def test_a_damaged_file_costs_one_save_and_says_so() -> None:
    async def story() -> None:
        disk = Disk()
        offsets = offsets_on(disk)
        offsets.open()
        await offsets.commit("cache", QUEUE, 7)
        await offsets.commit("cache", QUEUE, 8)
        SimDisk.replace(disk, disk.writes[-1], b"torn")
        assert 7 == await stored(disk)

    _, lines = play_logged(story)
    assert [("offset file damaged", "/offsets/app/cache.0.offsets")] == told(lines, "file")


def test_without_two_files_a_damaged_one_is_the_end() -> None:
    async def story() -> None:
        disk = Disk()
        offsets = offsets_on(disk)
        offsets.open()
        await offsets.commit("cache", QUEUE, 7)
        await offsets.commit("cache", QUEUE, 8)
        SimDisk.replace(disk, disk.writes[-1], b"torn")
        with pytest.raises(StoreError, match="restore one of the files from a copy, or remove them all"):
            await stored(disk)

    with left_out("saves go to two files in turn"):
        play(story)


def test_a_second_process_is_refused_until_the_first_is_gone() -> None:
    async def story() -> None:
        disk = Disk()
        offsets_on(disk).open()
        with pytest.raises(ConfigurationError, match=r"'cache': another process .*`broadcasting.name` of its own"):
            offsets_on(disk).open()
        disk.crash()
        offsets_on(disk).open()

    play(story)


def test_a_full_disk_is_tried_again_and_named_once_a_minute() -> None:
    async def story() -> None:
        disk = Disk()
        offsets = offsets_on(disk)
        offsets.open()
        disk.error = OSError(28, "No space left on device")
        await offsets.commit_one_way("cache", QUEUE, lambda: 7)
        with pytest.raises(StoreError, match="No space left on device"):
            await offsets.commit("cache", QUEUE, 8)
        await asyncio.sleep(100)
        disk.error = None
        await asyncio.sleep(30)
        assert 8 == await stored(disk)

    _, lines = play_logged(story)
    events = [line["event"] for line in lines]
    assert 2 == events.count("offsets not saved")
    assert 1 == events.count("offsets saved again")


JAVA = b"""{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":3,
			"topic":"orders"
		}:41,{"brokerName":"broker-b","queueId":0,"topic":"orders"}:-1,
		{"brokerName":"broker-b","queueId":1,"topic":"orders"}:0
	}
}"""


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"offsets.json": JAVA}, 41),
        ({"offsets.json": JAVA[:30], "offsets.json.bak": JAVA}, 41),
        ({"offsets.json": b"", "offsets.json.bak": JAVA}, 41),
        ({"offsets.json": b"{}"}, None),
        ({}, None),
    ],
)
def test_a_java_client_s_file_is_taken_over_once(files: dict[str, bytes], found: int | None) -> None:
    async def story() -> None:
        disk = Disk()
        for name, content in files.items():
            SimDisk.replace(disk, f"/java/10.0.0.1@DEFAULT/cache/{name}", content)
        offsets = offsets_on(disk)
        offsets.open()
        assert found == await offsets.query_offset("cache", QUEUE)
        assert await offsets.query_offset("cache", OTHER) is None, "an offset below 0 is none"
        unread = await offsets.query_offset("cache", UNREAD)
        assert (None if found is None else 0) == unread, "0 is one: the queue's first message is still to come"
        await offsets.commit("cache", QUEUE, 50)
        assert 50 == await stored(disk), "ours counts from then on"

    play(story)


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out() -> None:
    class Sealed(Disk):
        def lock(self, path: str) -> Any:
            raise OSError(30, "Read-only file system")

    async def story() -> None:
        with pytest.raises(ConfigurationError, match=r"/offsets/app: Read-only file system; .*`broadcasting.folder`"):
            offsets_on(Sealed()).open()

    play(story)


def test_a_group_s_file_in_another_s_place_is_refused() -> None:
    async def story() -> None:
        disk = Disk()
        SimDisk.replace(disk, PLACE.files[0], encode(SavedOffsets("other", 1, {QUEUE: 5})))
        with pytest.raises(StoreError, match="it is of group 'other'"):
            offsets_on(disk).open()

    play(story)
