"""RouteTable: topic -> queues -> addresses, kept fresh.

The only owner of routes. A route is kept when the name server cannot be asked, and also when it says that it knows no
such topic any more: a name server that was just started knows nothing until its brokers have registered. Nor is a
broker given up at once that it leaves out (`net/route.py`). Listeners are told a topic whose readable queues or broker
addresses really changed, or which of its brokers are away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from framework import marks
from framework.client.name_server import NameServer
from framework.errors import AWAY, BrokerUnreachable, FrameworkError, is_said
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC
from framework.net.route import Contact, Doubt, Route, checked
from framework.net.task_tree import TaskTree
from framework.net.wakeup import Wakeup
from framework.ports import Chance
from framework.wire.bodies.route import MASTER

log = structlog.get_logger()

FORGOTTEN = "the name server knows no such topic any more; the last route is kept"
REFRESH_SECONDS = 30.0  # pollNameServerInterval of the Java client
REFRESH_SECONDS_MIN = 5.0  # between wishes: a broker that is down must not make everybody ask all the time


class RouteTable:
    """Asked by everybody, refreshed by its own loop `run()`."""

    def __init__(self, names: NameServer, chance: Chance, contact: Callable[[str], Contact | None]) -> None:
        self._names, self._chance, self._contact = names, chance, contact
        self._routes: dict[str, Route | None] = {}
        """Every topic that was ever asked for; None where no name server knows it."""
        self._brokers: dict[str, dict[int, str]] = {}
        self._doubts: dict[str, Doubt] = {}
        """Topic -> which of its brokers the name server leaves out."""
        self._under_way: dict[str, asyncio.Task[Route | None]] = {}
        self._tree = TaskTree(on_error=lambda *_: None)  # whoever asked gets the error
        self._listeners: list[Callable[[str], None]] = []
        self._complaints: dict[str, str] = {}
        """Topic -> why its route could not be refreshed; logged on entering and leaving."""
        self._bell = Wakeup()

    # Questions

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be read, sorted; empty where no name server knows the topic."""
        route = await self.route(topic)
        return list(route.readable) if route is not None else []

    async def writable_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that can be sent to: of brokers with a master, where the topic may be written."""
        route = await self.route(topic)
        return list(route.writable) if route is not None else []

    def known(self, topic: str) -> Route | None:
        """What is known of it without asking anybody."""
        return self._routes.get(topic)

    async def route(self, topic: str) -> Route | None:
        """All of it in one answer: between two questions it may have changed. None where no name server knows it."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def knows(self, topic: str) -> bool:
        """Whether a name server knows the topic by now. One that it does not know is not kept in mind, as one is that
        its queues were asked of: nobody asks for it each 30 s from then on.
        """
        if self._routes.get(topic) is not None:
            return True
        answer = await self._names.route(topic)
        if answer is None:
            return False
        self._put(topic, self._routes.get(topic), checked(topic, answer))
        return True

    async def makes_topics(self) -> bool:
        """Whether brokers make a topic by themselves when something is sent to it."""
        return await self._names.route(AUTO_CREATE_TOPIC) is not None

    def address_of(self, broker: str) -> str:
        """The master's address. BrokerUnreachable where no route has one."""
        address = self.find(broker, MASTER)
        if address is None:
            known = ", ".join(sorted(self._brokers)) or "none"
            raise BrokerUnreachable(f"broker {broker}: no master in any known route (brokers known: {known})")
        return address

    async def master_of(self, queue: MessageQueue) -> str:
        """The address of the queue's master; for a broker that no route has, the topic's route is refreshed once."""
        address = self.find(queue.broker, MASTER)
        if address is None:
            await self.refresh(queue.topic)
            address = self.address_of(queue.broker)
        return address

    def find(self, broker: str, broker_id: int) -> str | None:
        """The address of one of a broker's replicas, where a route has it."""
        replicas = self._brokers.get(broker)
        return replicas.get(broker_id) if replicas is not None else None

    def replicas_of(self, broker: str) -> Mapping[int, str]:
        """Where each replica of a broker is, the master included; empty where no route names it."""
        return self._brokers.get(broker, {})

    def brokers_of(self, topic: str) -> list[str]:
        """The names of the topic's brokers, sorted; from what is known now."""
        route = self._routes.get(topic)
        return sorted(route.addresses) if route is not None else []

    def away(self, topic: str) -> Mapping[str, float]:
        """The topic's brokers that nobody reaches and that are expected back -> since when (seconds of the loop)."""
        route = self._routes.get(topic)
        return route.away if route is not None else {}

    def masters(self) -> list[str]:
        """The addresses of all known masters, each once, in the order of their brokers' names."""
        return list(dict.fromkeys(ids[MASTER] for _, ids in sorted(self._brokers.items()) if MASTER in ids))

    def all_addresses(self) -> list[str]:
        """The addresses of all known brokers and their replicas, each once."""
        brokers = sorted(self._brokers.items())
        return list(dict.fromkeys(address for _, ids in brokers for _, address in sorted(ids.items())))

    # Refreshing

    async def refresh(self, topic: str) -> Route | None:
        """Ask the name server now; callers at the same time share one question. Raises what asking raises."""
        task = self._under_way.get(topic)
        if task is None:
            task = self._under_way[topic] = self._tree.start(self._ask(topic), name=f"route {topic}")
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not task.cancelled() or (caller is not None and caller.cancelling()):
                raise
            # The question was cancelled with this table, and not its caller, who may be anybody's code.
            raise BrokerUnreachable(f"route of {topic}: the connections of this process were closed") from None

    async def _ask(self, topic: str) -> Route | None:
        self._routes.setdefault(topic, None)
        try:
            answer = await self._names.route(topic)
            await marks.stretched("a route is answered")
            route = checked(topic, answer) if answer is not None else None
        except FrameworkError as error:
            self._complain(topic, AWAY if is_said(error) else str(error))
            raise
        finally:
            self._under_way.pop(topic, None)
        before = self._routes[topic]
        if route is None:
            if before is not None:
                self._complain(topic, FORGOTTEN if self._is_served(before) else AWAY)
            return before
        doubt = self._doubts.setdefault(topic, Doubt())
        route = doubt.resolve(before, route, self._contact, asyncio.get_running_loop().time())
        missing = ", ".join(sorted(doubt.missing.keys() - route.away.keys()))
        if missing:
            marks.sometimes("a broker was kept that a name server left out")
        self._complain(topic, f"the name server leaves out {missing}, which we are connected to" if missing else None)
        self._put(topic, before, route)
        return route

    def _put(self, topic: str, before: Route | None, route: Route) -> None:
        self._routes[topic] = route
        # Addresses of the route that was read last win; brokers that no route names any more go.
        self._brokers.update(route.addresses)
        named = {name for known in self._routes.values() if known is not None for name in known.addresses}
        for gone in [name for name in self._brokers if name not in named]:
            del self._brokers[gone]
        is_new = before is None or (before.readable, before.addresses) != (route.readable, route.addresses)
        if is_new:
            log.info("route changed", topic=topic, queues=len(route.readable), brokers=sorted(route.addresses))
        if is_new or before is None or before.away.keys() != route.away.keys():
            for listener in self._listeners:
                listener(topic)

    def _is_served(self, route: Route) -> bool:
        """Whether a broker of it is there. Else the name server has forgotten them, as each topic would tell."""
        contacts = (self._contact(address) for ids in route.addresses.values() for address in ids.values())
        return any(contact is not None and contact.is_open for contact in contacts)

    def _complain(self, topic: str, complaint: str | None) -> None:
        before = self._complaints.pop(topic, None)
        is_known = complaint in self._complaints.values()  # what keeps all routes from being read is said of the first
        if complaint is not None:
            self._complaints[topic] = complaint
        if complaint is not None and before is None:
            told = log.debug if complaint == AWAY or is_known else log.warning
            told("route not refreshed", topic=topic, reason=complaint)
        elif complaint is None and before is not None:
            (log.debug if before == AWAY else log.info)("route refreshed again", topic=topic)

    def refresh_soon(self) -> None:
        """Something was not where a route says: refresh all before their time, but not all the time."""
        self._bell.ring()

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Have a listener told each topic whose route changes; the first route of a topic is a change too."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Refresh every topic each 30 s (jittered), or soon where somebody wishes so; until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            is_doubted = any(doubt.is_open for doubt in self._doubts.values())
            pause = REFRESH_SECONDS_MIN if is_doubted else REFRESH_SECONDS
            if not await self._bell.wait(began + pause * (0.9 + 0.2 * self._chance.random())):
                marks.sometimes("routes were refreshed in time")
            elif (early := began + REFRESH_SECONDS_MIN - loop.time()) > 0:
                await asyncio.sleep(early)
            for topic in list(self._routes):
                try:
                    await self.refresh(topic)
                except FrameworkError:
                    continue  # named by `_complain`

    async def close(self) -> None:
        await self._tree.close()

    def __repr__(self) -> str:
        return f"<RouteTable topics={len(self._routes)} brokers={sorted(self._brokers)}>"
