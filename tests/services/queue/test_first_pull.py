"""A queue that is taken is pulled as soon as it is known where to begin; Java waits for half a second."""

from __future__ import annotations

import asyncio

from tests.services.parts import end, play, turns
from tests.services.queue.pull_scene import Fixture, found


def test_the_first_pull_follows_the_position_without_a_pause() -> None:
    async def story() -> None:
        began = asyncio.get_running_loop().time()
        it = Fixture(found(100, 3))
        await turns()
        assert [(100, 0)] == it.script.asked[:1]
        assert asyncio.get_running_loop().time() - began < 0.01
        await end(it.task)

    play(story)
