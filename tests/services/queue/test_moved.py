"""A queue goes on elsewhere under its owner: what was known to be stored before says nothing of what is handled now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framework.client.fences import Fence
from framework.model.pulled import OffsetIllegal
from framework.services.offsets.commit import CommitLoop
from framework.services.offsets.nothing_kept import NothingKept
from framework.services.queue.position import StartingPoint
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from tests.services.parts import QUEUE, end, play, start, turns
from tests.services.queue.pull_scene import Fixture, found

STORED = RemotingCommand(ResponseCode.SUCCESS)


class Fenced(NothingKept):
    """Of a group whose commits carry an epoch: their answers say what is stored."""

    def __init__(self) -> None:
        self.fence = Fence()
        self.fence.raise_to(7)


class Scene:
    """A queue of which 100 to 109 are handled, and stored as far as its brokers have said."""

    def __init__(self, *starts: StartingPoint) -> None:
        missing: Any = None  # nothing is sent here
        self.fixture = Fixture(found(100, 10), starts=(StartingPoint(100, "stored 100", 100), *starts))
        self.loop = self.fixture.loop
        self.loop.progress = self.progress = Fenced()
        self.commits = CommitLoop(
            "billing", missing, self.fixture.offsets, lambda: [self.loop], stored=lambda _: self.progress.fence.stored
        )

    def sent(self, offset: int) -> asyncio.Future[RemotingCommand]:
        """A commit that nobody waits for is on its way."""
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self.progress.fence.watch(answer, 7, QUEUE, offset)
        return answer

    async def handled(self) -> None:
        await turns()
        self.fixture.finish(self.fixture.pool.chunks[-1])
        self.commits.gather()

    async def moved(self, how: str) -> None:
        """Back to 95, of which ten are handled: by an administrator, by its broker, or because its lease was lost."""
        flow, script = self.fixture.flow, self.fixture.script
        await end(self.fixture.task)
        if how == "reset":
            self.loop.reset(95)
        elif how == "illegal":
            script.answers = [OffsetIllegal(95, 0, 1_000)]
        else:
            flow.lease_lost()
            flow.lease_granted()
        script.answers.append(found(95, 10))
        self.fixture.task = start(self.loop.run())
        await self.handled()

    @property
    def to_come_again(self) -> int:
        self.commits.gather()
        return self.commits.lacking(self.loop, has_kept=False)


MOVED = ["reset", "illegal", "lease lost"]


@pytest.mark.parametrize("how", MOVED)
@pytest.mark.parametrize("is_late", [False, True])
def test_what_was_stored_before_a_queue_moved_confirms_nothing_of_what_came_after(how: str, *, is_late: bool) -> None:
    """Else the exit line says that nothing comes again, and ten messages do. `is_late`: the answer came behind that."""

    async def story() -> None:
        scene = Scene(StartingPoint(95, "stored 95", 95))
        await scene.handled()
        answer = scene.sent(110)
        if not is_late:
            answer.set_result(STORED)
            await turns()
            assert 0 == scene.to_come_again
        await scene.moved(how)
        if is_late:
            answer.set_result(STORED)
            await turns()
        assert 10 == scene.to_come_again
        scene.sent(103).set_result(STORED)
        await turns()
        assert 10 == scene.to_come_again, "each chunk counts as one"
        scene.sent(105).set_result(STORED)
        await turns()
        assert 0 == scene.to_come_again
        await end(scene.fixture.task)

    play(story)
