"""An audit: three groups of three members under load while one thing after another fails; then the books are balanced.

What was acknowledged must have been handled, in order where that is promised. What was handled twice is laid to the
fault that went before.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.interop.application import Application
from tests.interop.audited_app import fails
from tests.interop.cluster import Cluster
from tests.interop.flow import Flow
from tests.interop.processes import Nursery
from tests.patience import wait_until

HANDLERS = Path(__file__).with_name("audited_app.py")
GROUPS = ("parallel", "orderly", "retrying")
MEMBERS = 3
HANDLED_IN_S = 0.005


@dataclass(frozen=True, slots=True)
class Seen:
    """A handler began."""

    at: float
    member: str
    group: str
    queue: str
    offset: int
    number: int
    attempt: int

    @property
    def is_failing(self) -> bool:
        return self.group == "retrying" and fails(self.number, self.attempt)

    @property
    def key(self) -> tuple[str, ...]:
        """Who has the same was given the same: what its producer sent twice is two messages, a copy is another one."""
        if self.attempt == 1:
            return self.group, self.queue, str(self.offset)
        return self.group, str(self.number), f"attempt {self.attempt}"


class Audit:
    """The members, the flow, and what was done to them."""

    def __init__(self, cluster: Cluster, nursery: Nursery, folder: Path, topic: str, *, a_second: float = 150) -> None:
        self.cluster, self.members = cluster, list[Application]()
        self.flow = Flow(cluster.name_server, topic, a_second)
        self.faults: list[tuple[float, str]] = []
        """When each began."""
        self._nursery, self._folder, self._topic = nursery, folder, topic
        self._folders: list[Path] = []

    def join(self) -> Application:
        folder = self._folder / f"m-{len(self._folders)}"
        folder.mkdir()
        self._folders.append(folder)
        groups = [f"{group}-{self._topic}" for group in GROUPS]
        options = [word for group in groups for word in ("--set", f"consumers.{group}.start=first")]
        member = Application(
            self._nursery, folder, self.cluster.name_server, topic=self._topic, group=groups[0], handlers=HANDLERS,
            pause_s=HANDLED_IN_S, options=options,
        )  # fmt: skip
        self.members.append(member)
        return member

    @contextmanager
    def running(self) -> Iterator[None]:
        """Members that share the queues, and messages for them."""
        for _ in range(MEMBERS):
            self.join()
        wait_until(lambda: all(self._is_shared(member) for member in self.members), "a share of each group's queues")
        self.flow.start()
        try:
            yield
        finally:
            self.flow.end()

    def _is_shared(self, member: Application) -> bool:
        said = re.findall(rf"group=(\S+) .* members={MEMBERS} .* topic={self._topic}$", member.said(), re.MULTILINE)
        return set(said) == {f"{group}-{self._topic}" for group in GROUPS}

    def strike(self, fault: str, act: Callable[[], None], quiet_s: float) -> None:
        """Do it, and leave everybody alone for a while."""
        self.faults.append((time.monotonic(), fault))
        act()
        time.sleep(quiet_s)

    # The books

    def seen(self) -> list[Seen]:
        """What handlers were given, in the order of time."""
        found: list[Seen] = []
        for folder in self._folders:
            record = folder / "record.jsonl"
            for line in record.read_text().splitlines(keepends=True) if record.exists() else ():
                if line.endswith("\n"):
                    at, group, queue, offset, number, attempt = line.split()
                    found.append(Seen(float(at), folder.name, group, queue, int(offset), int(number), int(attempt)))
        return sorted(found, key=lambda each: each.at)

    def lost(self) -> list[tuple[str, int]]:
        """Group and number of each acknowledged message that no handler of the group was given, or was not again."""
        had = {(each.group, each.number) for each in self.seen() if not each.is_failing}
        return [(group, number) for group in GROUPS for number in self.flow.acknowledged if (group, number) not in had]

    def out_of_order(self) -> list[tuple[Seen, Seen]]:
        """Neighbours in a queue of the orderly group of which the second one leaves something out. Going back is a
        repeat; from there it must go on one by one.
        """
        queues: dict[str, list[Seen]] = {}
        for each in self.seen():
            if each.group == "orderly":
                queues.setdefault(each.queue, []).append(each)
        return [(one, two) for seen in queues.values() for one, two in pairwise(seen) if two.offset > one.offset + 1]

    def repeats(self) -> list[tuple[str, Seen, Seen]]:
        """The fault that went before, who was given the message before, and who again.

        A copy for a retry that lies elsewhere the second time was made twice: by its broker, which saves each ten
        seconds which delays are over, or by two, since the first one did not answer.
        """
        before: dict[tuple[str, ...], Seen] = {}
        found: list[tuple[str, Seen, Seen]] = []
        for each in self.seen():
            if each.key in before:
                found.append((self._fault_before(each.at), before[each.key], each))
            before[each.key] = each
        return found

    def _fault_before(self, at: float) -> str:
        return next((fault for began, fault in reversed(self.faults) if began <= at), "nothing")

    def table(self) -> str:
        """Faults, and the repeats that each group had after them."""
        repeats, made_twice = Counter[tuple[str, str]](), Counter[str]()
        for fault, before, again in self.repeats():
            if (before.queue, before.offset) == (again.queue, again.offset):
                repeats[fault, again.group] += 1
            else:
                made_twice[fault] += 1
        times = Counter(fault for _, fault in self.faults)
        rows = [
            f"| fault | times | {' | '.join(GROUPS)} | copies made twice |",
            "|---|--:|--:|--:|--:|--:|",
        ]
        for fault in ("nothing", *times):
            counts = (times[fault], *(repeats[fault, group] for group in GROUPS), made_twice[fault])
            rows.append(f"| {fault} | {' | '.join(map(str, counts))} |")
        return "\n".join(rows)
