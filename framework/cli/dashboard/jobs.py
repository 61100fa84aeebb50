"""Jobs: what takes longer than a page: it runs on a thread, its page shows how far it is, and a button stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock

from framework.errors import FrameworkError

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


class TooManyJobs(FrameworkError):
    """One more would be too much."""


class Jobs:
    """All of a dashboard. `attend` runs a function on a thread."""

    def __init__(self, attend: Callable[[Callable[[], None], str], None], now_ms: Callable[[], int]) -> None:
        self._attend, self._now_ms = attend, now_ms
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._lock = Lock()

    def start(self, title: str, group: str, total: int, work: Work) -> Job:
        with self._lock:
            if sum(each.state == "running" for each in self._jobs.values()) >= JOBS_MAX:
                raise TooManyJobs(f"{JOBS_MAX} jobs run already: wait for one to end, or stop one")
            self._count += 1
            job = Job(f"r-{self._count}", title, group, total, self._now_ms())
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
