"""What no client can see: a broker kept nothing of what was sent back, and had room again before it could be asked.

No client of a stock broker can tell that such a message is gone. Checkers demand everything else.
"""

from __future__ import annotations

from framework.testing.swarm.history import Copied, Fact, Finished, RoomAgain, Swallowed

READ_S = 3.0
"""How long the question behind a broker's yes may take: a request's patience."""


class Rooms:
    """Told all facts in their order."""

    def __init__(self) -> None:
        self.dropped: dict[tuple[str, str], Swallowed] = {}
        """(group, message) that a broker kept nothing of, and of which no copy was had since."""
        self.unseen: set[tuple[str, str]] = set()
        """Those of them where the room was there again too soon."""

    def hear(self, fact: Fact) -> None:
        match fact:
            case Swallowed():
                self.dropped[fact.group, fact.message_id] = fact
            case RoomAgain():
                for key, each in self.dropped.items():
                    if key[0] == fact.group and fact.at < each.at + READ_S:
                        self.unseen.add(key)
            case Finished() if not fact.is_ok:
                pass
            case Copied() | Finished():
                self.dropped.pop((fact.group, fact.message_id), None)
                self.unseen.discard((fact.group, fact.message_id))
            case _:
                pass
