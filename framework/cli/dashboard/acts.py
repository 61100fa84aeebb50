"""Acts: what may be changed, each with a plan that is shown first, and an audit line when it is done.

A plan is a page that reads only. What is then sent names what the plan named, and is planned anew: nothing is done that
was true a minute ago. Without `--allow-writes` none of `ACTS` can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.admin import dead_letters, replays, resets
from framework.admin.moments import FORMS
from framework.cli.commands import dlq
from framework.cli.commands import reset as reset_command
from framework.cli.dashboard import words
from framework.cli.dashboard.desk import BrowserPage, Visit, group_of
from framework.cli.dashboard.exchanges import Fields, number, see
from framework.cli.dashboard.jobs import Job
from framework.cli.dashboard.views.letters import CHOICE, choice_of
from framework.cli.dashboard.watching import GroupLook
from framework.cli.live.changing import outlook
from framework.cli.table import Column
from framework.core.limits import CONCURRENCY_MAX
from framework.net.http.messages import HttpRefused, HttpResponse

RATE = 50
DECISIONS = {
    "extend": "Let it run on",
    "send_back": "Send it back for a retry",
    "bury": "Send it to the dead letters",
}


@dataclass(slots=True)
class ActPlan:
    """What would be done. `blocked` says why it cannot be."""

    title: str
    group: str
    action: str
    """Where the form is sent."""
    button: str
    summary: str
    effects: list[str] = field(default_factory=list)
    fields: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[Column] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    must_type: str = ""
    """The group's name, where somebody has to type it: what is done cannot be undone."""
    blocked: str = ""
    form: str = ""
    """Which choices are put above the plan."""
    choices: Mapping[str, Any] = field(default_factory=dict)


ROWS_MAX = 256
PROCESSES = (
    Column("CONCURRENCY", "concurrency", is_number=True),
    Column("RUNNING", "running", is_number=True),
    Column("PAUSED", "paused"),
    Column("LAG", "lag", is_number=True),
)
LETTERS = (Column("TO TOPIC", "topic"), Column("DEAD LETTERS", "count", is_number=True))


def shown(plan: ActPlan) -> BrowserPage:
    plan.left_out = max(len(plan.rows) - ROWS_MAX, 0)
    plan.rows = plan.rows[:ROWS_MAX]
    return BrowserPage("plan.html", plan.title, {"plan": plan, "forms": FORMS, "decisions": DECISIONS})


# Pause, resume, resize: the processes of this machine


def _here(group: GroupLook) -> tuple[str, str]:
    """How much of the group the change reaches, and why nothing of it where that is so."""
    here, members = len(group.pictures), group.members
    if not here:
        return "", "no process of this machine has the group: its control socket is asked, and no broker can do it"
    told = f"{here} process{'es' * (here != 1)} of this machine"
    elsewhere = max((members or here) - here, 0)
    more = f"; {elsewhere} more members run elsewhere and go on as they are" if elsewhere else ""
    return f"{told}{more}", ""


def live_plan(visit: Visit, what: str) -> ActPlan:
    group = group_of(visit)
    reach, blocked = _here(group)
    rows = [{"paused": "yes" if each["is_paused"] else "no", **each} for each in group.pictures]
    to = visit.text("to")
    now = sorted({int(each["concurrency"]) for each in group.pictures})
    plan = ActPlan(
        f"{what.capitalize()} {group.name}", group.name, f"/act/{what}", what.capitalize(), reach,
        columns=PROCESSES, rows=rows, fields={"group": group.name}, blocked=blocked,
    )  # fmt: skip
    match what:
        case "pause":
            plan.effects = [
                "No handler starts until somebody resumes the group; handlers that run finish.",
                "Members keep their queues, so nobody else handles these messages; the lag grows.",
                "It ends with the process: a restart does what the settings say.",
                outlook(group.pictures),
            ]
            if not blocked and group.is_paused:
                plan.blocked = "it is paused already"
        case "resume":
            plan.effects = ["Handlers start again with what waits.", outlook(group.pictures)]
            if not blocked and not any(each["is_paused"] for each in group.pictures):
                plan.blocked = "it is not paused"
        case _:
            plan.form, plan.choices = "resize", {"to": to or (str(now[0]) if now else ""), "most": CONCURRENCY_MAX}
            if to:
                size = _size(to)
                plan.fields = {"group": group.name, "to": str(size)}
                plan.effects = [
                    f"From {' or '.join(map(str, now)) or '-'} to {size} handlers at once in each process.",
                    "Handlers that run finish, and count.",
                    "It lasts until the next resize, or until the process ends.",
                ]
            elif not blocked:
                plan.blocked = "say first how many handlers may run at once"
    return plan


def _size(text: str) -> int:
    found = number(text)
    if found is None or not 1 <= found <= CONCURRENCY_MAX:
        raise HttpRefused(400, f"{text!r} is no number of handlers: write 1 to {CONCURRENCY_MAX}")
    return found


def change(visit: Visit, fields: Fields, what: str) -> HttpResponse:
    name = fields.get("group", "")
    more: dict[str, Any] = {"to": _size(fields.get("to", ""))} if what == "resize" else {}
    answers = visit.desk.watching.ask(name, {"ask": what, "group": name, **more})
    failed = [str(each["error"]) for each in answers if "error" in each]
    visit.audit(what, group=name, **more, processes=len(answers) - len(failed), failed=len(failed))
    if not answers:
        raise HttpRefused(409, f"no process of this machine has the group {name!r} any more")
    if failed:
        raise HttpRefused(409, f"{what} {name}: {'; '.join(failed)}")
    visit.desk.watching.again()
    return see("/group", group=name, done=what)


# Reset


def reset_plan(visit: Visit) -> ActPlan:
    group = group_of(visit)
    to, topic = visit.text("to"), visit.text("topic")
    found = group.found
    topics = sorted({row.queue.topic for row in found.rows if not row.queue.topic.startswith("%")}) if found else []
    plan = ActPlan(
        f"Reset {group.name}", group.name, "/act/reset", "Reset", "Choose where the group goes on.",
        fields={"group": group.name, "to": to, "topic": topic}, form="reset", must_type=group.name,
        choices={"to": to, "topic": topic, "topics": topics}, columns=reset_command.COLUMNS,
    )  # fmt: skip
    if not to:
        plan.blocked = "say first where the group goes on"
        return plan
    with visit.desk.admin() as admin:
        planned = resets.plan(admin, admin.wrapped(group.name), admin.wrapped(topic), visit.moment(to))
        plan.summary = reset_command.summary_of(group.name, planned)
        plan.rows = [reset_command.row_of(admin, each) for each in planned]
    plan.effects = [
        "What comes again is handled once more, by whichever member has the queue.",
        "What is passed over is never handled by this group, unless somebody resets it back.",
    ]
    if all(each.before == each.after for each in planned):
        plan.blocked = "the group stands there already"
    return plan


def reset(visit: Visit, fields: Fields) -> HttpResponse:
    name, topic, to = fields.get("group", ""), fields.get("topic", ""), fields.get("to", "")
    _typed(fields, name)
    with visit.desk.admin() as admin:
        group = admin.wrapped(name)
        planned = resets.plan(admin, group, admin.wrapped(topic), visit.moment(to))
        failed = resets.apply(admin, group, planned)
    done = len(planned) - len(failed)
    visit.audit("reset", group=name, topic=topic or "all", to=to, queues=done, failed=len(failed))
    if failed:
        raise HttpRefused(502, "; ".join(f"not reset: {each.queue}: {why}" for each, why in failed[:5]))
    visit.desk.watching.again()
    return see("/queues", group=name, topic=topic, done="reset")


def _typed(fields: Fields, name: str) -> None:
    if not name or fields.get("typed", "").strip() != name:
        raise HttpRefused(400, f"nothing was changed: type the group's name, {name!r}, to say that it is meant")


# Dead letters


def replay_plan(visit: Visit) -> ActPlan:
    group = group_of(visit)
    query = visit.request.query
    chosen = {name: visit.text(name) for name in CHOICE}
    to_retry = bool(visit.text("to_retry"))
    limit, rate = visit.number("limit", 0, 10**9), visit.number("rate", RATE, 10_000)
    choice = choice_of(query, visit.desk.now_ms())
    with visit.desk.admin() as admin:
        planned = replays.plan(admin, admin.wrapped(group.name), choice, limit=limit or None, to_retry=to_retry)
        rows = [
            {"topic": "not said: these stay" if topic is None else admin.unwrapped(topic), "count": count}
            for topic, count in planned.counts.items()
        ]
        others = ", ".join(sorted(map(admin.unwrapped, planned.others)))
    where = f"to {group.name} alone" if to_retry else "to the topics that they came from"
    where += f"; other groups get them, too: {others}" if others else ""
    return ActPlan(
        f"Replay dead letters of {group.name}", group.name, "/act/replay", "Replay",
        f"{words.count(planned.count)} dead letters go {where}, {rate}/s at most.",
        effects=["Each is sent as it is stored, once, also where a replay is stopped and begun again.",
                 "Nothing is deleted; what was replayed is not listed any more."],
        fields={"group": group.name, "to_retry": "yes" if to_retry else "", "limit": str(limit or ""),
                "rate": str(rate), **chosen},
        columns=LETTERS, rows=rows,
        must_type=group.name, blocked="" if planned.count else "no dead letter is meant",
        form="replay", choices={"to_retry": to_retry, "limit": limit or "", "rate": rate, **chosen},
    )  # fmt: skip


def replay(visit: Visit, fields: Fields) -> HttpResponse:
    name = fields.get("group", "")
    _typed(fields, name)
    choice = choice_of(fields, visit.desk.now_ms())
    to_retry = bool(fields.get("to_retry"))
    limit, rate = number(fields.get("limit", "")) or None, number(fields.get("rate", "")) or RATE
    desk = visit.desk
    with desk.admin() as admin:
        planned = replays.plan(admin, admin.wrapped(name), choice, limit=limit, to_retry=to_retry)

    def work(job: Job) -> None:
        try:
            with desk.admin() as admin:
                for outcome in replays.run(admin, planned, dlq.pacer(float(rate))):
                    letter = outcome.letter.message.message_id
                    job.count(outcome.what, f"{letter}: {outcome.why}" if outcome.why else "")
                    if job.is_stopping:
                        break
        finally:
            visit.audit("dlq replay", job=job.id, group=name, to_retry=to_retry, **job.tally)
            desk.watching.again()

    job = desk.jobs.start(f"Replay of {words.count(planned.count)} dead letters", name, planned.count, work)
    visit.audit("dlq replay began", job=job.id, group=name, count=planned.count, to_retry=to_retry)
    return see("/job", id=job.id)


def drop_plan(visit: Visit) -> ActPlan:
    group = group_of(visit)
    limit = visit.number("limit", 0, 10**9)
    with visit.desk.admin() as admin:
        moves = replays.fronts(admin, dead_letters.queues(admin, admin.wrapped(group.name)), limit or None)
    count = replays.passed_over(moves)
    return ActPlan(
        f"Pass over dead letters of {group.name}", group.name, "/act/drop", "Pass over",
        f"{words.count(count)} dead letters are passed over; brokers keep them as long as any message.",
        effects=["No replay sends them and no list shows them, unless somebody asks for those that are dealt with."],
        fields={"group": group.name, "limit": str(limit or "")}, form="drop", choices={"limit": limit or ""},
        columns=dlq.MOVES, rows=dlq.rows_of(moves),
        must_type=group.name, blocked="" if count else "no dead letter waits",
    )  # fmt: skip


def drop(visit: Visit, fields: Fields) -> HttpResponse:
    name = fields.get("group", "")
    _typed(fields, name)
    with visit.desk.admin() as admin:
        group = admin.wrapped(name)
        moves = replays.fronts(admin, dead_letters.queues(admin, group), number(fields.get("limit", "")) or None)
        replays.drop(admin, group, moves)
    visit.audit("dlq drop", group=name, passed_over=replays.passed_over(moves))
    visit.desk.watching.again()
    return see("/dead-letters", group=name, done="drop")


def stop_job(visit: Visit, fields: Fields) -> HttpResponse:
    job = visit.desk.jobs.of(fields.get("id", ""))
    if job is None:
        raise HttpRefused(404, "there is no such job")
    job.stop()
    visit.audit("job stopped", job=job.id, group=job.group)
    return see("/job", id=job.id)


# A handler that runs


RUN = ("worker", "topic", "broker", "queue", "offset")


def decide_plan(visit: Visit) -> ActPlan:
    group, what = group_of(visit), visit.text("what")
    if what not in DECISIONS:
        raise HttpRefused(404, f"there is no such decision; there are: {', '.join(DECISIONS)}")
    fields = {"group": group.name, "what": what, **{name: visit.text(name) for name in RUN}}
    by = visit.text("by") or "5m"
    if what == "extend":
        fields["by"] = by
    place = f"{fields['topic']} {fields['broker']}:{fields['queue']}:{fields['offset']}"
    given_up = (
        "The handler is given up: an async one is cancelled, a thread runs on, and what it answers changes nothing. "
        "What it did until now has happened."
    )
    effects = {
        "extend": [f"The group's time limit does not end it for another {by}; then its policy decides again."],
        "send_back": [given_up, "The message comes again after RocketMQ's next delay, and counts as one more attempt."],
        "bury": [given_up, "The message goes to the group's dead letters now, whatever retries are left."],
    }[what]
    if group.pictures and any(each["is_orderly"] for each in group.pictures):
        blocked = "the group works in order: what is behind this message would overtake it"
    else:
        blocked = _here(group)[1]
    return ActPlan(
        f"{DECISIONS[what]}: {place}", group.name, "/act/decide", DECISIONS[what].split(":")[0],
        f"The handler of {group.name} that runs with {place}.", effects=effects, fields=fields,
        must_type=group.name if what == "bury" else "", blocked=blocked,
        form="decide" if what == "extend" else "", choices={"by": by, **fields},
    )  # fmt: skip


def decide(visit: Visit, fields: Fields) -> HttpResponse:
    name, what = fields.get("group", ""), fields.get("what", "")
    if what == "bury":
        _typed(fields, name)
    told = {key: fields.get(key, "") for key in RUN}
    if what not in DECISIONS or any(number(told[key]) is None for key in ("worker", "queue", "offset")):
        raise HttpRefused(400, "which handler is meant cannot be read: go back to the group's page")
    request = {
        "ask": "decide", "group": name, "what": what, "topic": told["topic"], "broker": told["broker"],
        "queue": int(told["queue"]), "offset": int(told["offset"]), "by": fields.get("by", ""),
    }  # fmt: skip
    answers = visit.desk.watching.ask(name, request)
    done = [each for each in answers if each.get("decided")]
    visit.audit(what, group=name, **told, done=len(done))
    if not done:
        why = (
            "; ".join(sorted({str(each.get("error")) for each in answers}))
            or "no process of this machine has the group"
        )
        raise HttpRefused(409, f"nothing was changed: {why}")
    return see("/group", group=name, done=what)


PLANS: Mapping[str, Callable[[Visit], ActPlan]] = {
    "/plan/pause": lambda visit: live_plan(visit, "pause"),
    "/plan/resume": lambda visit: live_plan(visit, "resume"),
    "/plan/resize": lambda visit: live_plan(visit, "resize"),
    "/plan/reset": reset_plan,
    "/plan/replay": replay_plan,
    "/plan/drop": drop_plan,
    "/plan/decide": decide_plan,
}
ACTS: Mapping[str, Callable[[Visit, Fields], HttpResponse]] = {
    "/act/pause": lambda visit, fields: change(visit, fields, "pause"),
    "/act/resume": lambda visit, fields: change(visit, fields, "resume"),
    "/act/resize": lambda visit, fields: change(visit, fields, "resize"),
    "/act/reset": reset,
    "/act/replay": replay,
    "/act/drop": drop,
    "/act/decide": decide,
    "/act/stop-job": stop_job,
}
