"""Tap: counts the requests that pass between members and brokers, by broker, request code, second and member.

It fits `SimNetwork.tap`. A broker is its port. The first broker's port is the name server's as well; questions for
routes are therefore counted apart, since a cluster's name server is another process.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable

from framework.testing.sim.transport import SimTransport
from framework.wire import frame
from framework.wire.codes import RequestCode

ANSWER = 1
_CODE = re.compile(rb'"code":(-?\d+)').search
_FLAG = re.compile(rb'"flag":(\d+)').search

NAME_SERVER = frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC})
ONCE = frozenset(
    {
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.UNREGISTER_CLIENT,
    }
)
"""What a process asks of a broker once as it starts, or as it ends; the second one each 30 s, too."""
QUEUE_WORK = frozenset(
    {
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.PULL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
    }
)
"""What an owned queue costs, whoever owns it: as many requests as queues, however many members there are."""
WINDOW_S = 1.0


class Tap:
    """One a run; `begin` starts a phase of it."""

    def __init__(self, broker_host: str) -> None:
        self._host = broker_host
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.by_second: dict[tuple[int, int], Counter[int]] = {}
        """(broker's port, second) -> request code -> how often."""
        self.sent: Counter[int] = Counter()
        """What brokers sent on their own: code -> how often."""
        self.route_questions = 0
        self.peak_all = Peak()
        """Of one member at one broker within any second: everything."""
        self.peak_group = Peak()
        """The same of what a member asks because there are other members."""

    def __call__(self, transport: SimTransport, data: bytes) -> bytes:
        is_request = transport.there == self._host
        if not is_request and transport.here != self._host:
            return data
        at, end = 0, len(data)
        while at + frame.PREFIX_BYTES <= end:
            length = int.from_bytes(data[at : at + 4])
            header = data[at + 8 : at + 8 + (int.from_bytes(data[at + 4 : at + 8]) & 0xFFFFFF)]
            at += 4 + length
            code, flag = _CODE(header), _FLAG(header)
            if code is not None and flag is not None and not int(flag[1]) & ANSWER:
                self._count(transport, int(code[1]), is_request=is_request)
        return data

    def _count(self, transport: SimTransport, code: int, *, is_request: bool) -> None:
        if not is_request:
            self.sent[code] += 1
            return
        if code in NAME_SERVER:
            self.route_questions += 1
            return
        now, port = transport.loop.now, transport.get_extra_info("peername")[1]
        counts = self.by_second.get((port, int(now)))
        if counts is None:
            counts = self.by_second[port, int(now)] = Counter()
        counts[code] += 1
        key = transport.node.name, port
        self.peak_all.count(key, now, code)
        if code not in ONCE and code not in QUEUE_WORK:
            self.peak_group.count(key, now, code)

    def requests(self) -> Counter[int]:
        return sum(self.by_second.values(), Counter())

    def of_brokers(self) -> Iterable[int]:
        """Requests of each broker and second in which there were any."""
        return (counts.total() for counts in self.by_second.values())


class Peak:
    """The most requests of one member to one broker within any second."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, int], deque[tuple[float, int]]] = {}
        self.highest = 0
        self.what: list[tuple[float, int]] = []
        """Of the highest: when and which."""
        self.who = ""
        self.above: Counter[int] = Counter()

    def count(self, key: tuple[str, int], now: float, code: int) -> None:
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = deque()
        recent.append((now, code))
        while recent[0][0] <= now - WINDOW_S:
            recent.popleft()
        if len(recent) > self.highest:
            self.highest, self.what, self.who = len(recent), list(recent), key[0]
