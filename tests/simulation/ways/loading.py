"""Loading: desks that prepare and settle lots, for the way `transactions`.

The lots come one after the other, each by whichever desk is there; where that is killed, the next one prepares the lot
anew and settles it, and does not know how far the former one came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from framework.client.dialogue.lot_records import Decided
from framework.client.dialogue.lot_steps import CommitSome, Write
from framework.client.dialogue.lots import Lots
from framework.client.producer import Producer
from framework.errors import FrameworkError
from framework.model.message import Message
from framework.testing.sim.node import Node
from framework.testing.sim.streams import Stream
from tests.simulation.recorder import Recorder
from tests.simulation.ways.facts import LotDecided, LotSettled

DEALS_A_LOT, PARTS, ROWS = 8, 2, 3
"""One lot per so many transactions; each has so many parts of so many messages."""
NAME, RECORDS = "loading", "lots-of-desks"
AGAIN_S = 0.3


class Loading:
    """The lots of one cluster."""

    def __init__(
        self, recorder: Recorder, chance: Stream, topic: str, deals: int, dies: Callable[[Node], None]
    ) -> None:
        self._recorder, self._chance, self._topic, self._dies = recorder, chance, topic, dies
        self._is_doomed = False
        self.left = deals // DEALS_A_LOT
        self._lot = 0
        self._busy: Node | None = None
        self._known: dict[str, Lots] = {}
        """Process -> its lots."""

    async def make_records(self, producer: Producer) -> None:
        """Once, before anything goes wrong: of a broker that name servers leave out there seem to be none."""
        await Lots(producer, NAME, records=RECORDS).create_records()

    def may_load(self) -> bool:
        """Whether a lot is left, and no living desk is at it."""
        return bool(self.left) and (self._busy is None or not self._busy.is_alive)

    async def load(self, node: Node, producer: Producer) -> None:
        """Settle the next lot, or fail to."""
        lot, self._busy = self._lot, node
        lots = self.lots_of(node, producer)
        try:
            prepared: list[bytes] = []
            for part in range(PARTS):
                rows = [
                    Message(self._topic, f"lot-{lot}.{part * ROWS + row}", keys=f"lot-{lot}") for row in range(ROWS)
                ]
                prepared.append(await lots.prepare(rows))
                await asyncio.sleep(self._chance.between(0.0, 0.5))
            if self._chance.happens(0.1):
                await lots.drop(prepared)  # a part of it has failed; it is prepared anew
                return
            await lots.settle(lot, prepared)
        except FrameworkError as error:
            self._recorder.loop.note("lot failed", node.name, str(lot), type(error).__name__)
            await asyncio.sleep(AGAIN_S)
        else:
            self._note(LotSettled(self._recorder.loop.now, self._recorder.who, lot, PARTS * ROWS))
            self._lot += 1
            self.left -= 1
        finally:
            self._busy = None

    async def said_of(self, node: Node, key: str) -> str:
        """What this desk answers about a half message of a lot."""
        try:
            return await self._known[node.name].said_of(int(key.removeprefix("lot-")))
        except FrameworkError:
            return "unknown"

    def lots_of(self, node: Node, producer: Producer) -> Lots:
        """Those of one process, which it is asked about from its start on."""
        if node.name not in self._known:
            self._known[node.name] = _ToldLots(producer, self._decided, partial(self._fate, node))
        return self._known[node.name]

    def doom(self) -> bool:
        """Have the next process that commits a lot die amid that; False where no lot is left."""
        self._is_doomed = bool(self.left)
        return self._is_doomed

    def _fate(self, node: Node) -> Callable[[], None] | None:
        """How the process dies, if it does now."""
        is_doomed, self._is_doomed = self._is_doomed, False
        return partial(self._dies, node) if is_doomed else None

    def _decided(self, lot: int) -> None:
        self._note(LotDecided(self._recorder.loop.now, self._recorder.who, lot))

    def _note(self, fact: LotDecided | LotSettled) -> None:
        self._recorder.loop.note(type(fact).__name__, fact.who, str(fact.lot))
        self._recorder.history.facts.append(fact)


class _ToldLots(Lots):
    """Lots that say when a decision leaves for its broker, and whose process may die amid its commits."""

    def __init__(
        self, producer: Producer, decides: Callable[[int], None], fate: Callable[[], Callable[[], None] | None]
    ) -> None:
        super().__init__(producer, NAME, records=RECORDS, unconfirmed="1s", patience="6s")
        self._decides, self._fate = decides, fate

    async def _taken(self, step: object) -> Any:
        if isinstance(step, Write):
            for record in step.records:
                if isinstance(record, Decided):
                    self._decides(record.lot)
        if isinstance(step, CommitSome) and (dies := self._fate()) is not None:
            await super()._taken(CommitSome(step.halves[: -(-len(step.halves) // 2)], step.in_order))
            dies()
            await asyncio.Event().wait()
        return await super()._taken(step)
