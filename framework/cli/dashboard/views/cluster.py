"""Topics, brokers, the applications of this machine, and what the doctor finds."""

from __future__ import annotations

from typing import Any

from framework.admin import doctor, facts
from framework.admin.findings import tried
from framework.admin.topics import TopicView, readers, stored_a_second
from framework.admin.topics import topics as all_topics
from framework.cli.commands.doctor import unknown_lines, verdict
from framework.cli.dashboard.desk import BrowserPage, Visit
from framework.errors import FrameworkError
from framework.net.http.messages import HttpRefused
from framework.wire import exchanges

TOPICS_MAX = 300
QUEUES_MAX = 512
OUTCOMES = {
    "replay": {"sent": "sent", "skipped": "sent before", "failed": "failed"},
    "drop": {"sent": "passed over", "skipped": "dealt with before", "failed": "failed"},
}
"""What a job calls what became of its letters."""
DOCTOR_SECONDS = 1.0
"""Between two looks at a queue that may be stuck: short, since somebody waits for the page."""


def topics(visit: Visit) -> BrowserPage:
    with_system = bool(visit.text("system"))
    wanted = visit.text("q").lower()
    with visit.desk.admin() as admin:
        found = [each for each in all_topics(admin, with_system=with_system) if wanted in each.name.lower()]
        rows = [{"topic": each, "name": admin.unwrapped(each.name)} for each in found[:TOPICS_MAX]]
    return BrowserPage(
        "topics.html",
        "Topics",
        {"rows": rows, "left_out": max(len(found) - TOPICS_MAX, 0), "system": with_system, "q": visit.text("q")},
    )


def topic(visit: Visit) -> BrowserPage:
    """Its queues, and who reads it."""
    name = visit.text("topic")
    with visit.desk.admin() as admin:
        wrapped = admin.wrapped(name)
        route = admin.route(wrapped)
        if route is None:
            raise HttpRefused(404, f"no name server knows a topic {name!r}")
        rows: list[dict[str, Any]] = []
        for queue in route.readable[:QUEUES_MAX]:
            low = tried(lambda queue=queue: admin.ask_master(queue, exchanges.min_offset(queue)))  # type: ignore[misc]
            end = tried(lambda queue=queue: admin.ask_master(queue, exchanges.max_offset(queue)))  # type: ignore[misc]
            told = [low, end]
            bad = next((str(each) for each in told if isinstance(each, FrameworkError)), None)
            rows.append(
                {
                    "queue": queue,
                    "low": low if isinstance(low, int) else None,
                    "end": end if isinstance(end, int) else None,
                    "kept": end - low if isinstance(end, int) and isinstance(low, int) else None,
                    "trouble": bad,
                }
            )
        unknown: dict[str, str] = {}
        view = TopicView(wrapped, len(route.readable), tuple({queue.broker: None for queue in route.readable}))
        in_s = stored_a_second(admin, view, unknown)
        groups = sorted(set().union(*readers(admin, wrapped).found.values()))
        named = [admin.unwrapped(each) for each in groups]
    known = [each["kept"] for each in rows]
    return BrowserPage(
        "topic.html",
        name,
        {
            "topic": name,
            "rows": rows,
            "left_out": max(len(route.readable) - QUEUES_MAX, 0),
            "groups": named,
            "in_s": in_s,
            "kept": None if None in known else sum(known),
            "looked": visit.look.groups,
        },
    )


def brokers(visit: Visit) -> BrowserPage:
    with visit.desk.admin() as admin:
        found = tried(lambda: facts.cluster(admin, visit.desk.now_ms))
    if isinstance(found, FrameworkError):
        return BrowserPage("brokers.html", "Brokers", {"failure": str(found), "servers": {}, "brokers": []})
    shown = {"failure": "", "servers": found.name_servers, "brokers": found.brokers}
    return BrowserPage("brokers.html", "Brokers", shown)


def applications(visit: Visit) -> BrowserPage:
    shown = {"applications": visit.look.applications, "silent": visit.look.silent}
    return BrowserPage("applications.html", "Applications", shown, is_live=True)


def findings(visit: Visit) -> BrowserPage:
    """What `doctor` says of the cluster and one group, or of all that are looked at."""
    name = visit.text("group")
    with visit.desk.admin() as admin:
        group = admin.wrapped(name) if name else None
        found = doctor.diagnose(admin, visit.desk.now_ms, group=group, stuck_s=DOCTOR_SECONDS)
    return BrowserPage(
        "doctor.html",
        f"Doctor: {name}" if name else "Doctor",
        {"found": found, "verdict": verdict(found), "unknown": unknown_lines(found), "name": name},
    )


def jobs(visit: Visit) -> BrowserPage:
    return BrowserPage("jobs.html", "Jobs", {"jobs": visit.desk.jobs.all}, is_live=True)


def job(visit: Visit) -> BrowserPage:
    found = visit.desk.jobs.of(visit.text("id"))
    if found is None:
        raise HttpRefused(404, "there is no such job: only the last fifty are kept, and none past the dashboard's end")
    said = OUTCOMES[found.what]
    shown = {"job": found, "tally": {said[what]: number for what, number in list(found.tally.items())}}
    return BrowserPage("job.html", f"Job {found.id}", shown, is_live=found.state == "running")
