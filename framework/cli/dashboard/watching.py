"""Watching: looks at the cluster and at the applications of this machine, again and again, on a thread of its own.

A page shows the last look: however many pages are open, brokers are asked once. What a look costs decides how often
there is one, and only so many groups are looked at; what is left out is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition, Event
from typing import Any

import structlog

from framework.admin.cluster import Admin
from framework.admin.delayed import WaitingRetries
from framework.admin.facts import LetterFacts
from framework.admin.findings import Told, tried
from framework.admin.groups import all_groups, reason_of
from framework.admin.health import GroupHealth, letters_of, work_of
from framework.admin.memory import Memory
from framework.admin.positions import Positions, positions
from framework.cli.dashboard import words
from framework.cli.dashboard.history import GroupSample, Move, Track, last
from framework.cli.dashboard.words import State
from framework.cli.live.figures import Figures, figures
from framework.cli.live.find import SECONDS
from framework.cli.shown.groups import differences, parts, pauses
from framework.client.options import ClusterOptions
from framework.errors import FrameworkError
from framework.net.control.asking import Answer, ControlFailed, Request, ask_all, workers_of

log = structlog.get_logger()

EVERY_SECONDS = 5.0
COST = 4
"""A look that took long is followed by a pause so many times as long, up to `PAUSE_MAX_S`."""
PAUSE_MAX_S = 15.0
"""Whatever a look took: most of that may be waiting for what does not answer, which is when people look."""
GROUPS_MAX = 60
APPLICATIONS_MAX = 16
STANDING_MAX = 3
"""Queues that stand still, each in a line of its own."""
NOT_READ = WaitingRetries(unknown="not read here")


@dataclass(frozen=True, slots=True)
class Application:
    """One that runs on this machine, as its control socket tells."""

    path: Path
    name: str
    workers: list[dict[str, Any]]
    figures: Figures
    name_servers: tuple[str, ...]
    is_here: bool
    """It consumes from the cluster that is looked at."""

    def rows(self, group: str) -> list[dict[str, Any]]:
        return [row for row in self.figures.rows if row["group"] == group]

    def pictures(self, group: str) -> list[dict[str, Any]]:
        """The group in each of its processes."""
        return [
            {**each, "member": worker["snapshot"]["member"]}
            for worker in self.workers
            if "snapshot" in worker
            for each in worker["snapshot"]["groups"]
            if each["own_name"] == group
        ]


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One group at one moment. What is not known is None."""

    name: str
    """As its owner calls it."""
    positions: Told[Positions]
    letters: LetterFacts
    track: Track
    rows: list[dict[str, Any]]
    """What the applications of this machine say of it, as `top` shows it."""
    pictures: list[dict[str, Any]]
    troubles: list[str]
    """How its members do not fit together."""

    @property
    def found(self) -> Positions | None:
        return None if isinstance(self.positions, FrameworkError) else self.positions

    @property
    def health(self) -> GroupHealth | None:
        """Without the retries that wait at brokers: reading those each few seconds would cost more than they tell."""
        found = self.found
        if found is None:
            return None
        return GroupHealth(found, self.letters, NOT_READ, work_of(found.members.members))

    @property
    def lag(self) -> int | None:
        return self.found.lag if self.found else None

    @property
    def behind_s(self) -> float | None:
        return self.found.lag_s if self.found else None

    @property
    def members(self) -> int | None:
        return len(self.found.members.members) if self.found else None

    @property
    def held(self) -> list[str]:
        """Why queues of it do not flow here."""
        reasons = {
            str(queue["reason"]): None
            for picture in self.pictures
            for queue in picture["queues"]
            if queue["reason"] and queue["reason"] not in {"rate", "paused"}
        }
        return list(reasons)

    @property
    def is_paused(self) -> bool:
        return bool(self.pictures) and all(each["is_paused"] for each in self.pictures)

    @property
    def state(self) -> State:
        found, health = self.found, self.health
        if found is None or health is None or (found.blank and not found.is_nobody):
            return words.UNKNOWN_STATE
        told = words.OF_HEALTH[health.state]
        if told not in (words.FLOWS, words.BEHIND, words.DEAD_LETTERS, words.RETRYING):
            return told
        if not found.members.members and not found.members.unknown:
            return words.NOBODY
        if self.held:
            return words.HELD
        if self.track.standing:
            return words.STANDING
        return words.GROWING if found.lag and self.track.growing else told

    @property
    def said(self) -> list[str]:
        """What is wrong with it, the worst first: as `groups` says it, and what only looks over time can tell."""
        if self.health is None:
            return [f"cannot be looked at: {self.positions}"]
        standing = [
            f"{queue} stands still: no progress in the last {words.age_ms(for_ms)}; {words.count(lag)} messages wait"
            for queue, (for_ms, lag) in self.track.standing.items()
        ]
        more = [f"and {len(standing) - STANDING_MAX} more queues stand still"] if len(standing) > STANDING_MAX else []
        held = [f"queues are held: {'; '.join(self.held[:3])}"] if self.held else []
        rate = last(self.track.rates(lambda each: each.lag))
        growing = [f"the lag grows by {words.rate(rate)}/s"] if self.state is words.GROWING and rate else []
        paused = [] if self.found is None or self.state is words.PAUSED else pauses(self.found)
        return [*standing[:STANDING_MAX], *more, *held, *growing, *paused, *parts(self.health)]

    @property
    def verdict(self) -> str:
        """The same in a line."""
        is_said = self.state in (words.DEAD_LETTERS, words.BEHIND, words.PAUSED, words.STANDING, words.GROWING)
        return "; ".join(self.said) if is_said else f"{self.state.word}: {'; '.join(self.said)}"


@dataclass(frozen=True, slots=True)
class Look:
    """The whole at one moment."""

    at_ms: int
    took_ms: int = 0
    groups: Mapping[str, GroupLook] = field(default_factory=dict)
    left_out: int = 0
    """Groups that were not looked at, since there are too many."""
    applications: tuple[Application, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    """Control sockets of this machine that gave no answer to be used, and why."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Brokers that did not answer, and why."""
    failure: str = ""
    """Why the cluster as a whole could not be looked at."""


class Watching:
    """One a dashboard; `run` on a thread, until `close`."""

    def __init__(
        self,
        options: ClusterOptions,
        sockets: Callable[[], list[Path]],
        now_ms: Callable[[], int],
        *,
        follows: bool = False,
    ) -> None:
        self.options, self._sockets, self._now_ms = options, sockets, now_ms
        self._follows = follows
        """Whether the cluster is that of the application at the first socket, which may come to know it later."""
        self.memory = Memory()
        self._tracks: dict[str, Track] = {}
        self._before: dict[Path, list[dict[str, Any]]] = {}
        self._latest: Look | None = None
        self._looked, self._closed = Condition(), Event()
        self._soon = Event()

    def run(self) -> None:
        """Look until closed."""
        while not self._closed.is_set():
            found = self._looked_at()
            with self._looked:
                self._latest = found
                self._looked.notify_all()
            self._soon.wait(min(max(EVERY_SECONDS, COST * found.took_ms / 1000), PAUSE_MAX_S))
            self._soon.clear()

    def _looked_at(self) -> Look:
        try:
            return self.look()
        except Exception as error:  # border: without the next look, pages would show the last one for ever
            log.exception("dashboard look failed")
            return Look(
                self._now_ms(), failure=f"a mistake in the dashboard ({type(error).__name__}); its log says more"
            )

    def close(self) -> None:
        self._closed.set()
        self._soon.set()

    def again(self) -> Look:
        """A look that begins after this moment: something was changed, and its page shows what came of it."""
        since_ms = self._now_ms()
        self._soon.set()
        return self.latest(since_ms=since_ms)

    def latest(self, *, since_ms: int = 0, seconds: float = 10.0) -> Look:
        """The last look, or the next that begins since then; the first one is waited for."""

        def is_it() -> bool:
            return self._latest is not None and self._latest.at_ms - self._latest.took_ms >= since_ms

        with self._looked:
            self._looked.wait_for(is_it, seconds)
            return self._latest or Look(self._now_ms(), failure="the first look at the cluster is not over yet")

    # One look

    def look(self) -> Look:
        began_ms = self._now_ms()
        applications, silent = self._applications()
        groups: dict[str, GroupLook] = {}
        left_out, unknown, failure = 0, dict[str, str](), ""
        try:
            with Admin(self.options, memory=self.memory) as admin:
                names, unknown = self._names(admin, applications)
                left_out = max(len(names) - GROUPS_MAX, 0)
                for name in names[:GROUPS_MAX]:
                    found = self._group(admin, name, applications)
                    groups[found.name] = found
        except FrameworkError as error:
            failure = reason_of(error)
            own = [row["group"] for each in applications if each.is_here for row in each.figures.rows]
            for name in dict.fromkeys((*own, *self._tracks)):
                if name not in groups:
                    groups[name] = self._seen(name, error, LetterFacts(), [], applications)
        ended_ms = self._now_ms()
        return Look(ended_ms, ended_ms - began_ms, groups, left_out, tuple(applications), silent, unknown, failure)

    def _names(self, admin: Admin, applications: list[Application]) -> tuple[list[str], dict[str, str]]:
        """Those of this machine's applications first, then the others as they are sorted."""
        names, unknown = all_groups(admin)
        own = {row["group"] for each in applications if each.is_here for row in each.figures.rows}
        first = [name for name in names if admin.unwrapped(name) in own]
        return [*first, *(name for name in names if name not in first)], unknown

    def _group(self, admin: Admin, name: str, applications: list[Application]) -> GroupLook:
        found = tried(lambda: positions(admin, name))
        letters = letters_of(admin, name, self._now_ms())
        told = [] if isinstance(found, FrameworkError) else differences(admin, found)
        return self._seen(admin.unwrapped(name), found, letters, told, applications)

    def _seen(
        self,
        name: str,
        found: Told[Positions],
        letters: LetterFacts,
        told: list[str],
        applications: list[Application],
    ) -> GroupLook:
        """The group with its history. Where no broker tells of it, what its processes of this machine say is left."""
        here = [each for each in applications if each.is_here]
        rows = [row for each in here for row in each.rows(name)]
        pictures = [picture for each in here for picture in each.pictures(name)]
        track, now_ms = self._tracks.setdefault(name, Track()), self._now_ms()
        look = GroupLook(name, found, letters, track, rows, pictures, told)
        track.add(_sample(now_ms, look))
        if not isinstance(found, FrameworkError) and not found.members.unknown:
            members = frozenset(each.client_id for each in found.members.members)
            track.compare(now_ms, {row.queue: row.owner for row in found.rows}, members)
            moving = () if look.is_paused else found.rows
            track.watch(now_ms, {row.queue: (row.offset, row.lag) for row in moving if row.owner and row.lag})
        return look

    def _applications(self) -> tuple[list[Application], dict[str, str]]:
        """Those that answer, and why the others do not."""
        paths = self._sockets()[:APPLICATIONS_MAX]
        answers = ask_all(dict(enumerate(paths)), {"ask": "snapshot"}, SECONDS)
        if self._follows:
            self._follow(answers.get(0))
        found: list[Application] = []
        silent: dict[str, str] = {}
        for number, answer in answers.items():
            path = paths[number]
            if isinstance(answer, ControlFailed):
                silent[path.stem] = str(answer)
                continue
            try:
                found.append(self._application(path, workers_of(answer)))
            except Exception as error:  # noqa: BLE001 - border: another version of the framework may say it otherwise
                silent[path.stem] = f"its answer cannot be read ({type(error).__name__}: {error}): another version?"
        return found, silent

    def _application(self, path: Path, workers: list[dict[str, Any]]) -> Application:
        pictures = [each["snapshot"] for each in workers if "snapshot" in each]
        servers = tuple(dict.fromkeys(server for picture in pictures for server in picture["name_servers"]))
        name = str(pictures[0]["name"]) if pictures else path.stem
        rows = figures(self._before.get(path, []), workers)
        self._before[path] = workers
        return Application(path, name, workers, rows, servers, bool({*servers} & {*self.options.name_servers}))

    def _follow(self, answer: Answer | Exception | None) -> None:
        pictures = [] if answer is None or isinstance(answer, Exception) else workers_of(answer)
        servers = next((each["snapshot"]["name_servers"] for each in pictures if "snapshot" in each), ())
        if servers and tuple(servers) != self.options.name_servers:
            self.options = replace(self.options, name_servers=tuple(servers))

    def ask(self, group: str, request: Request) -> list[dict[str, Any]]:
        """What each process of this machine that has the group answers, with its application's socket."""
        paths = [each.path for each in self.latest().applications if each.is_here and each.pictures(group)]
        answers = ask_all(dict(enumerate(paths)), request, SECONDS)
        told: list[dict[str, Any]] = []
        for number, answer in answers.items():
            if isinstance(answer, ControlFailed):
                told.append({"error": str(answer), "socket": str(paths[number])})
            else:
                told += [{**each, "socket": str(paths[number])} for each in workers_of(answer)]
        return told

    def moves(self, group: str) -> list[Move]:
        """The newest first."""
        track = self._tracks.get(group)
        return list(track.moves)[::-1] if track else []


def _sample(at_ms: int, look: GroupLook) -> GroupSample:
    found = look.found
    if found is None:
        return GroupSample(at_ms, dead=look.letters.waiting)
    ends = [row.end for row in found.rows]
    offsets = [row.offset if row.end else 0 for row in found.rows]
    statuses = [
        status
        for member in found.members.members
        if member.info is not None
        for status in member.info.statuses.values()
        if status.consume_ok_tps or status.consume_failed_tps
    ]
    weight = sum(each.consume_ok_tps + each.consume_failed_tps for each in statuses)
    taken = sum(each.consume_rt * (each.consume_ok_tps + each.consume_failed_tps) for each in statuses)
    return GroupSample(
        at_ms,
        _sum(ends),
        _sum(offsets),
        len(found.rows),
        found.lag,
        found.lag_s,
        taken / weight if weight else None,
        sum(each.consume_failed_tps for each in statuses) if statuses else None,
        look.letters.waiting,
    )


def _sum(values: list[int | None]) -> int | None:
    return None if None in values or not values else sum(value for value in values if value is not None)
