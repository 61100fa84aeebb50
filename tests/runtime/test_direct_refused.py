"""A place for direct consumption is taken by what runs, and by nothing that was refused: served again afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from framework.model.message import Message
from framework.net.channel import Channel
from framework.net.task_tree import TaskTree
from framework.runtime.inbound import DIRECT_MAX, Inbound
from framework.wire.bodies.running import SUCCESS, THREW, DirectResult
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from tests.runtime.test_inbound import Answers, Group, Member, direct, record
from tests.services.parts import play

REFUSED: dict[str, Callable[[], RemotingCommand]] = {
    "unknown group": lambda: direct("nobody"),
    "no handler": lambda: direct(body=record("stock")),
    "two records": lambda: direct(body=record() * 2),
    "no record": lambda: direct(body=b""),
    "damaged": lambda: direct(body=record()[:-3]),
    "no group": lambda: RemotingCommand(direct().code, {}, record()),
}


class Scene:
    def __init__(self, group: Group | None = None) -> None:
        self.channel, self.tree, self.member = Answers(), TaskTree(), Member()
        self.member.billing = group or Group()
        self.inbound = Inbound(cast("Any", self.member), self.tree)

    async def ask(self, *commands: RemotingCommand) -> list[int]:
        """The codes of the answers, a second later."""
        self.channel.given.clear()
        for command in commands:
            self.inbound(cast("Channel", self.channel), command)
        await asyncio.sleep(1)
        return [answer.code for answer in self.channel.given]

    async def serves_all_places(self) -> None:
        served = await self.ask(*[direct()] * DIRECT_MAX)
        assert [ResponseCode.SUCCESS] * DIRECT_MAX == served


@pytest.mark.parametrize("why", REFUSED)
def test_what_was_refused_takes_no_place(why: str) -> None:
    async def story() -> None:
        scene = Scene()
        for _ in range(3):
            codes = await scene.ask(*(REFUSED[why]() for _ in range(DIRECT_MAX)))
            assert [ResponseCode.SYSTEM_ERROR] * DIRECT_MAX == codes, "refused for what it is, and not for want of room"
        await scene.serves_all_places()
        await scene.tree.close()

    play(story)


def test_what_found_no_place_takes_none_either() -> None:
    async def story() -> None:
        scene = Scene()
        scene.member.billing.gate = asyncio.Event()
        busy = await scene.ask(*[direct()] * (3 * DIRECT_MAX))
        assert [ResponseCode.SYSTEM_BUSY] * (2 * DIRECT_MAX) == busy
        scene.member.billing.gate.set()
        await asyncio.sleep(1)
        await scene.serves_all_places()
        await scene.tree.close()

    play(story)


def test_what_was_forbidden_takes_no_place() -> None:
    """The setting is read when the application starts; what it refuses is not counted."""

    async def story() -> None:
        scene = Scene()
        scene.inbound._may_consume = False
        assert [ResponseCode.NO_PERMISSION] * 8 == await scene.ask(*[direct()] * 8)
        scene.inbound._may_consume = True
        await scene.serves_all_places()
        await scene.tree.close()

    play(story)


class Failing(Group):
    """The first few end as a handler may."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 2 * DIRECT_MAX

    async def consume_directly(self, message: Message) -> DirectResult:
        self.left -= 1
        if self.left >= 0:
            return DirectResult(result=THREW, remark="ValueError('no stock')", spent_ms=1)
        return DirectResult(result=SUCCESS, spent_ms=3)


def test_a_handler_that_fails_gives_its_place_back() -> None:
    async def story() -> None:
        scene = Scene(Failing())
        for _ in range(2):
            await scene.serves_all_places()
        await scene.serves_all_places()
        await scene.tree.close()

    play(story)


def test_one_that_is_cut_off_gives_its_place_back() -> None:
    """The tree that it runs in ends it; the next one runs in another."""

    async def story() -> None:
        scene = Scene()
        scene.member.billing.gate = asyncio.Event()
        await scene.ask(*[direct()] * DIRECT_MAX)
        await scene.tree.close()
        scene.member.billing.gate = None
        scene.inbound._tree = scene.tree = TaskTree()
        await scene.serves_all_places()
        await scene.tree.close()

    play(story)
