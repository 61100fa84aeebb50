"""By which time `once` forgets: what is remembered by this process alone goes by no time of day."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from framework.declare import consumer
from framework.hooks.builtin.dedup.once_memory import MemoryStore
from framework.model.message import Message
from framework.net.real_world import real_world
from framework.runtime.plans.stores import Onces, once_for
from framework.settings.schema import AppSettings
from tests.services.parts import LoopClock, play

YEARS_MS = 5 * 365 * 24 * 3_600_000


class Told(LoopClock):
    """A time of day that follows brokers, of whom one is wrong for a while."""

    off_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.off_ms


@pytest.mark.parametrize("off_ms", [YEARS_MS, -YEARS_MS])
def test_a_key_that_was_kept_by_a_wrong_clock_drops_no_message_later(off_ms: int) -> None:
    @consumer("orders", "billing", once="30m")
    async def bill(message: Message) -> None: ...

    async def story() -> None:
        clock, running = Told(), Onces()
        world = replace(real_world(), clock=clock)
        once = once_for("billing", [bill.spec], AppSettings(), {"memory": MemoryStore()}, world, running)["orders"]
        clock.off_ms = off_ms
        await once._store.record("17", 1_800_000)
        assert await once._store.has("17")
        clock.off_ms = 0
        assert await once._store.has("17"), "it was handled a moment ago"
        await asyncio.sleep(1_801)
        assert not await once._store.has("17")

    play(story)
