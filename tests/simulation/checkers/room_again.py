"""What no client can see: a broker kept nothing of what was sent back, and had room again before it could be asked.

No client of a stock broker can tell that such a message is gone. Checkers demand everything else.
"""

from __future__ import annotations

from tests.simulation.facts import Copied, Fact, Fault, Finished, RoomAgain, Swallowed

READ_S = 3.0
"""How long the question behind a broker's yes may take: a request's patience."""
READ_AGAIN_S = 11.0
"""The same where answers may be lost or late: it is asked three times, with pauses."""
LOSES_ANSWERS = frozenset(
    {
        "block", "broker-crash", "broker-power-cut", "broker-stop", "crash", "cut", "cut-one-way", "late-jobs",
        "lose-reply", "one-broker-restart", "outage", "power-cut", "refuse", "slow", "stall", "stop", "swizzle-clog",
    }
)  # fmt: skip


class Rooms:
    """Told all facts in their order."""

    def __init__(self) -> None:
        self.dropped: dict[tuple[str, str], Swallowed] = {}
        """(group, message) that a broker kept nothing of, and of which no copy was had since."""
        self.unseen: set[tuple[str, str]] = set()
        """Those of them where the room was there again too soon."""
        self._read_s = READ_S

    def hear(self, fact: Fact) -> None:
        match fact:
            case Fault() if fact.kind in LOSES_ANSWERS:
                self._read_s = READ_AGAIN_S
            case Swallowed():
                self.dropped[fact.group, fact.message_id] = fact
            case RoomAgain():
                for key, each in self.dropped.items():
                    if key[0] == fact.group and fact.at < each.at + self._read_s:
                        self.unseen.add(key)
            case Finished() if not fact.is_ok:
                pass
            case Copied() | Finished():
                self.dropped.pop((fact.group, fact.message_id), None)
                self.unseen.discard((fact.group, fact.message_id))
            case _:
                pass
