"""Jobs: what takes longer than a page: it runs on a thread, its page shows how far it is, and a button stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock

from framework.net.http.messages import HttpRefused

JOBS_MAX = 4
"""That run at once."""
KEPT_MAX = 50
TOLD_MAX = 20
"""Lines about what failed, that a job keeps."""


@dataclass(slots=True)
class Job:
    """One. Written by its thread, read by pages."""

    id: str
    title: str
    group: str
    what: str
    total: int
    began_ms: int
    tally: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    state: str = "running"
    """running, done, stopped, failed."""
    why: str = ""
    ended_ms: int = 0
    _stop: Event = field(default_factory=Event)

    @property
    def done(self) -> int:
        return self.tally.total()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """After what it is at."""
        self._stop.set()

    def count(self, what: str, why: str = "") -> None:
        self.tally[what] += 1
        if why and len(self.told) < TOLD_MAX:
            self.told.append(why)


Work = Callable[[Job], None]


class Jobs:
    """All of a dashboard. `attend` runs a function on a thread."""

    def __init__(self, attend: Callable[[Callable[[], None], str], None], now_ms: Callable[[], int]) -> None:
        self._attend, self._now_ms = attend, now_ms
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._lock = Lock()

    def start(self, title: str, group: str, what: str, total: int, work: Work) -> Job:
        """One of a group at a time: two replays would send a letter twice. Of a button that was pressed twice the job
        that runs is answered. HttpRefused where another one runs, or too many.
        """
        with self._lock:
            running = [each for each in self._jobs.values() if each.state == "running"]
            if (other := next((each for each in running if each.group == group), None)) is not None:
                if other.what == what:
                    return other
                raise HttpRefused(409, f"a job of {group} runs: {other.title}. Wait for its end, or stop it (Jobs)")
            if len(running) >= JOBS_MAX:
                raise HttpRefused(409, f"{JOBS_MAX} jobs run already: wait for one to end, or stop one (Jobs)")
            self._count += 1
            job = Job(f"r-{self._count}", title, group, what, total, self._now_ms())
            self._jobs[job.id] = job
            while len(self._jobs) > KEPT_MAX:
                oldest = next((key for key, each in self._jobs.items() if each.state != "running"), None)
                if oldest is None:
                    break
                del self._jobs[oldest]
        self._attend(lambda: self._run(job, work), f"dashboard job {job.id}")
        return job

    def _run(self, job: Job, work: Work) -> None:
        try:
            work(job)
            job.state = "stopped" if job.is_stopping else "done"
        except Exception as error:  # noqa: BLE001 - border: its page says it
            job.state, job.why = "failed", f"{type(error).__name__}: {error}"
        job.ended_ms = self._now_ms()

    def of(self, name: str) -> Job | None:
        return self._jobs.get(name)

    @property
    def all(self) -> list[Job]:
        """The newest first."""
        return list(self._jobs.values())[::-1]

    def stop(self) -> None:
        for job in self._jobs.values():
            job.stop()
