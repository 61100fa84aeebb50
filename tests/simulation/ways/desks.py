"""Desks: processes that begin transactions, settle lots and ask requests, for the ways `transactions` and `requests`.

All desks share a database, the ledger: it tells for good how each local transaction ended, and outlives every process.
Whoever is asked about one that has no end after a while writes down that it is rolled back, as users' checks do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from framework.broker.server import Broker
from framework.broker.store import halves
from framework.client.producer import Producer
from framework.declare.transactions import TransactionCheck, transaction_check
from framework.errors import FrameworkError, RequestTimedOut
from framework.model.message import Message
from framework.testing.sim.machine import Machine
from framework.testing.sim.node import Node
from framework.testing.sim.world import sim_world
from tests.simulation.recorder import Recorder
from tests.simulation.ways.facts import Answered, Decided, Gone, LateReplies, Promised, TookReply
from tests.simulation.ways.loading import Loading

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

DESKS, GROUP = 2, "desks"
PAUSES_S = (0.002, 0.02, 0.3, 2.0)
"""How long a local transaction takes, and what a desk does between two."""
UNDECIDED_S = 4.0
"""An end that is not known after so long is a rollback."""
LATE_S = 1.0
"""A local transaction whose block said `unknown` may still end so much later."""
TIMEOUTS = (0.5, 3.0, 8.0)
SWITCHES = {"transactionTimeOut": "2000", "transactionCheckInterval": "1500", "transactionCheckMax": "1000"}
"""Of the brokers: asked soon and again, and given up never; a minute is short."""
COMMIT, ROLLBACK, UNKNOWN = "commit", "rollback", "unknown"


class CheckFailed(Exception):
    """A simulated check function's own failure."""


class LocalFailed(Exception):
    """A local transaction that raises."""


class Ledger:
    """The database of all desks."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ends: dict[str, str] = {}
        self._begun: dict[str, float] = {}

    def begin(self, deal: str) -> None:
        self._begun[deal] = self._recorder.loop.now

    def is_old(self, deal: str) -> bool:
        return self._recorder.loop.now - self._begun[deal] > UNDECIDED_S

    def decide(self, deal: str, state: str) -> str:
        """How it ended: so, unless it had ended before."""
        if deal not in self._ends:
            self._ends[deal] = state
            loop = self._recorder.loop
            loop.note("decided", self._recorder.who, deal, state)
            self._recorder.history.facts.append(Decided(loop.now, self._recorder.who, deal, state))
        return self._ends[deal]

    def end_of(self, deal: str) -> str | None:
        return self._ends.get(deal)


class Desks:
    """Those of one cluster; none where no way needs them."""

    def __init__(self, cluster: Cluster) -> None:
        workload = cluster.workload
        self._cluster = cluster
        self._count = DESKS if workload.deals or workload.asks else 0
        self.machines = [Machine(f"desk-{number}", f"10.0.0.{200 + number}") for number in range(1, self._count + 1)]
        self.ledger = Ledger(cluster.recorder)
        self._chance = cluster.loop.streams.named("desks")
        self._open = [*["deal"] * workload.deals, *["ask"] * workload.asks]
        self._chance.shuffle(self._open)
        self._loading = Loading(cluster.recorder, self._chance, workload.topic, workload.deals, self._dies)
        self._back_after_s = 0.0
        self._numbers = 0
        self._busy: dict[Node, str] = {}
        """What each process is at."""
        self._producers: dict[str, Producer] = {}
        """Process -> its producer."""
        cluster.wiretap.on_reply_taken = self._took

    def ready(self, broker: Broker) -> None:
        """Have a broker that has just started ask soon."""
        if self._cluster.workload.deals:
            for node in broker.nodes:
                for name, value in SWITCHES.items():
                    node.switches.put(name, value)

    async def prepare(self) -> None:
        """Do what an operator does before the first desk starts."""
        node, producer = self._cluster.producer.node, self._cluster.producing
        if self._loading.left and node is not None and producer is not None:
            await self._cluster.loop.spawn(node, self._loading.make_records(producer), name="make records of lots")

    def start(self) -> None:
        for machine in self.machines:
            if not machine.is_alive:
                self.start_desk(machine)

    def start_desk(self, machine: Machine) -> None:
        cluster = self._cluster
        node = machine.next_life()
        node.on_log = cluster.recorder.said
        cluster.network.power_on(machine.host)
        cluster.recorder.life(node.name, "started")
        machine.task = cluster.loop.spawn(node, self._live(machine, node), name=f"{node.name} run")

    def doom(self, after_s: float) -> bool:
        """Kill the desk that next commits a lot, amid its commits, and start it later; False where no lot is left."""
        self._back_after_s = after_s
        return self._loading.doom()

    def _dies(self, node: Node) -> None:
        machine = next(each for each in self.machines if each.node is node)
        self._cluster.later(0.0, lambda: self._cluster.crash(machine))
        self._cluster.later(self._back_after_s, self.start)

    def left(self) -> list[str]:
        """What is not over yet, a line each."""
        broker = self._cluster.broker.broker
        busy = [what for node, what in self._busy.items() if node.is_alive]
        lines = [f"desks have {len(self._open) + len(busy)} things to do"] if self._open or busy else []
        lines += [f"{self._loading.left} lots are not settled"] if self._loading.left else []
        if (
            self._count
            and broker is not None
            and halves.next_due_ms(broker.nodes[0].store.database.writing) is not None
        ):
            lines.append("a transaction is open")
        return lines

    def look_back(self) -> None:
        """Write down how many late replies each desk counts that lives."""
        for machine in self.machines:
            producer = self._producers.get(machine.node.name) if machine.is_alive and machine.node else None
            if producer is not None and machine.node is not None:
                self._note(LateReplies(self._cluster.loop.now, machine.node.name, producer.cluster.requests.late))

    async def _live(self, machine: Machine, node: Node) -> None:
        cluster, chance = self._cluster, self._chance
        producer = Producer(
            name_servers=cluster.name_servers,
            group=GROUP,
            check=self._check(node, is_async=machine is self.machines[0]),
            timeout="5s",
            world=sim_world(cluster.network, node, machine.disk),
        )
        await producer.start()
        self._producers[node.name] = producer
        self._loading.lots_of(node, producer)
        pause_s = cluster.workload.period_s * self._count / max(1, cluster.workload.deals + cluster.workload.asks)
        try:
            while self._open or self._loading.left:
                await asyncio.sleep(0.0 if cluster.is_healed else chance.between(0.0, 1.8 * pause_s))
                if self._loading.may_load() and (not self._open or chance.happens(0.2)):
                    await self._loading.load(node, producer)
                    continue
                if not self._open:
                    await asyncio.sleep(PAUSES_S[2])  # another desk is at the lots
                    continue
                what = self._open.pop()
                self._numbers += 1
                name = f"{what}-{self._numbers}"
                self._busy[node] = name
                try:
                    await (self._deal(producer, name) if what == "deal" else self._request(producer, name))
                finally:
                    del self._busy[node]
        except Exception as error:  # noqa: BLE001  # border: the process's
            cluster.recorder.unexpected(node.name, f"ended by {error!r}")

    # -- transactions

    async def _deal(self, producer: Producer, deal: str) -> None:
        chance, ledger = self._chance, self.ledger
        wish = chance.pick((COMMIT, COMMIT, COMMIT, ROLLBACK, UNKNOWN))
        is_raised, is_late, is_committed = chance.happens(0.5), chance.happens(0.5), chance.happens(0.5)
        takes_s = chance.pick(PAUSES_S[:2] if self._cluster.is_healed else PAUSES_S)
        ledger.begin(deal)
        in_the_end = COMMIT if is_committed else ROLLBACK
        try:
            async with producer.transaction(Message(self._cluster.workload.topic, deal, keys=deal)) as transaction:
                await asyncio.sleep(takes_s)
                if wish == UNKNOWN:
                    transaction.unknown()
                    if not is_late:
                        ledger.decide(deal, in_the_end)
                elif ledger.decide(deal, wish) == ROLLBACK:
                    if is_raised:
                        raise LocalFailed(deal)
                    transaction.rollback()
        except LocalFailed:
            pass
        except FrameworkError:
            await asyncio.sleep(min(PAUSES_S[2], takes_s))
        else:
            if wish == UNKNOWN and is_late:
                await asyncio.sleep(LATE_S)
                ledger.decide(deal, in_the_end)

    def _check(self, node: Node, *, is_async: bool) -> TransactionCheck:
        chance, ledger = self._chance, self.ledger

        def said(message: Message) -> str:
            deal = message.keys[0]
            if deal.startswith("lot-"):
                return UNKNOWN
            if chance.happens(0.1) and not self._cluster.is_healed:
                raise CheckFailed(deal)
            end = ledger.end_of(deal)
            if end is None and ledger.is_old(deal):
                end = ledger.decide(deal, ROLLBACK)
            return end or UNKNOWN

        async def said_later(message: Message) -> str:
            await asyncio.sleep(chance.pick(PAUSES_S[:3]))
            key = message.keys[0]
            return await self._loading.said_of(node, key) if key.startswith("lot-") else said(message)

        return transaction_check(GROUP)(said_later if is_async else said)

    # -- requests

    async def _request(self, producer: Producer, ask: str) -> None:
        timeout_s, loop = self._chance.pick(TIMEOUTS), self._cluster.loop
        who = self._cluster.recorder.who
        self._note(Promised(loop.now, who, ask, loop.now + timeout_s))
        try:
            reply = await producer.request(self._cluster.workload.topic, ask, keys=ask, timeout=timeout_s)
        except RequestTimedOut:
            self._note(Gone(loop.now, who, ask))
        except FrameworkError:
            self._note(Gone(loop.now, who, ask))
            await asyncio.sleep(PAUSES_S[2])
        else:
            self._note(Answered(loop.now, who, ask, reply.body.decode()))

    def _took(self, who: str) -> None:
        self._note(TookReply(self._cluster.loop.now, who))

    def _note(self, fact: Promised | Gone | Answered | TookReply | LateReplies) -> None:
        loop = self._cluster.loop
        loop.note(type(fact).__name__, fact.who)
        self._cluster.history.facts.append(fact)
