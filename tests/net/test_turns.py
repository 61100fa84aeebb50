"""Turns: who is next. Laws: whoever has had least; nobody saves up; the loop has its turn between slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from framework.net.served import Served
from framework.net.turns import SLICE_STEPS, Turns
from tests.net.memory import virtually


class _Taker(Served):
    def __init__(self, name: str, steps: int, order: list[str], on_step: Callable[[], None] | None = None) -> None:
        self.name, self.steps, self.order, self.on_step = name, steps, order, on_step
        self.used = 0.0
        self.is_waiting = False

    def step(self) -> bool:
        self.order.append(self.name)
        self.steps -= 1
        if self.on_step is not None:
            self.on_step()
        return self.steps > 0


def test_they_take_turns_and_do_not_finish_one_by_one() -> None:
    async def story() -> list[str]:
        order: list[str] = []
        turns = Turns()
        for name in "abc":
            turns.enter(_Taker(name, 3, order))
        await asyncio.sleep(0.01)
        return order

    assert list("abcabcabc") == virtually(story)


def test_one_that_costs_more_comes_less_often() -> None:
    async def story() -> list[str]:
        order: list[str] = []
        loop, turns = asyncio.get_running_loop(), Turns()
        at = [0.0]
        loop.time = lambda: at[0]  # type: ignore[method-assign]

        def work() -> None:
            at[0] += 0.001

        turns.enter(_Taker("dear", 100, order, work))
        turns.enter(_Taker("cheap", 100, order))
        for _ in range(30):
            turns._run()
            if order.count("cheap") == 100:
                break
        del loop.time
        return order

    order = virtually(story)
    until = max(i for i, name in enumerate(order) if name == "cheap")

    assert order[:until].count("dear") <= 4


def test_who_comes_back_has_saved_up_nothing_and_who_is_new_waits_for_no_more_than_one() -> None:
    async def story() -> list[str]:
        order: list[str] = []
        turns = Turns()
        sleeper, busy = _Taker("sleeper", 1, order), _Taker("busy", 1000, order)
        turns.enter(sleeper)
        turns.enter(busy)
        await asyncio.sleep(0)
        order.clear()
        sleeper.steps = 10
        turns.enter(sleeper)
        turns.enter(_Taker("new", 10, order))
        await asyncio.sleep(0.01)
        return order[:30]

    order = virtually(story)

    assert (10, 10, 10) == (order.count("busy"), order.count("sleeper"), order.count("new"))


def test_the_loop_has_its_turn_after_a_slice() -> None:
    async def story() -> list[int]:
        order: list[str] = []
        turns = Turns()
        turns.enter(_Taker("a", SLICE_STEPS * 3, order))
        seen = []
        while len(order) < SLICE_STEPS * 3:
            await asyncio.sleep(0)
            seen.append(len(order))
        return seen

    assert {SLICE_STEPS, 2 * SLICE_STEPS, 3 * SLICE_STEPS} == set(virtually(story)) - {0}


def test_one_that_raises_keeps_nobody_else_waiting() -> None:
    """A mistake in what one connection sent would stop the turns of all."""

    async def story() -> tuple[list[str], list[str]]:
        order: list[str] = []
        complaints: list[str] = []
        turns, loop = Turns(), asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(repr(context["exception"])))

        def fail() -> None:
            raise ValueError("not foreseen")

        bad = _Taker("bad", 2, order, fail)
        for taker in (_Taker("one", 2, order), bad, _Taker("two", 2, order)):
            turns.enter(taker)
        await asyncio.sleep(0.01)
        bad.on_step = None
        turns.enter(bad)
        await asyncio.sleep(0.01)
        return order, complaints

    order, complaints = virtually(story)

    assert ["one", "bad", "two", "one", "two", "bad"] == order
    assert ["ValueError('not foreseen')"] == complaints
