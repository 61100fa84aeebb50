"""Acts: what may be changed, each with a plan that is shown first, and an audit line when it is done.

A plan is a page that reads only. What is then sent names what the plan named, and is planned anew: nothing is done that
was true a minute ago. Without `--allow-writes` none of `ACTS` can be reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from framework.admin import resets
from framework.cli import options
from framework.cli.commands import reset as reset_command
from framework.cli.dashboard import letter_acts
from framework.cli.dashboard.desk import Visit, group_of
from framework.cli.dashboard.exchanges import Fields, number, see
from framework.cli.dashboard.plans import ActPlan, check_typed
from framework.cli.dashboard.watching import GroupLook
from framework.cli.live.changing import outlook
from framework.cli.table import Column
from framework.core.limits import CONCURRENCY_MAX
from framework.net.http.messages import HttpRefused, HttpResponse

DECISIONS = {
    "extend": "Let it run on",
    "send_back": "Send it back for a retry",
    "bury": "Send it to the dead letters",
}


PROCESSES = (
    Column("MEMBER", "member"),
    Column("CONCURRENCY", "concurrency", is_number=True),
    Column("RUNNING", "running", is_number=True),
    Column("PAUSED", "paused"),
    Column("LAG", "lag", is_number=True),
)


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
    now_here = outlook(group.pictures).replace("handlers", "Handlers", 1)
    now = sorted({int(each["concurrency"]) for each in group.pictures})
    plan = ActPlan(
        f"{what.capitalize()} {group.name}", group.name, f"/act/{what}", what.capitalize(), reach,
        columns=PROCESSES, rows=rows, fields={"group": group.name}, blocked=blocked,
    )  # fmt: skip
    match what:
        case "pause":
            length = _length(visit.text("length"))
            plan.form, plan.choices = "pause", {"length": length, "reason": visit.text("reason")}
            plan.fields = {"group": group.name, **plan.choices}
            until = f"for {length}, or until" if length else "until"
            plan.effects = [
                f"No handler starts {until} somebody resumes the group; handlers that run finish.",
                "Members keep their queues, so nobody else handles these messages; the lag grows.",
                "It ends with the process: a restart does what the settings say.",
                now_here,
            ]
            if not blocked and group.is_paused:
                plan.blocked = "it is paused already"
        case "resume":
            plan.effects = ["Handlers start again with what waits.", now_here]
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


def _length(text: str) -> str:
    try:
        return options.length(text) if text else ""
    except argparse.ArgumentTypeError as error:
        raise HttpRefused(400, str(error)) from None


def _size(text: str) -> int:
    found = number(text)
    if found is None or not 1 <= found <= CONCURRENCY_MAX:
        raise HttpRefused(400, f"{text!r} is no number of handlers: write 1 to {CONCURRENCY_MAX}")
    return found


def change(visit: Visit, fields: Fields, what: str) -> HttpResponse:
    name = fields.get("group", "")
    more: dict[str, Any] = {"to": _size(fields.get("to", ""))} if what == "resize" else {}
    if what == "pause":
        told = (("length", _length(fields.get("length", "").strip())), ("reason", fields.get("reason", "").strip()))
        more = {key: text for key, text in told if text}
    by = f"dashboard session {visit.session.short}"
    answers = visit.desk.watching.ask(name, {"ask": what, "group": name, "by": by, **more})
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
    check_typed(fields, name)
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
        check_typed(fields, name)
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
    "/plan/replay": letter_acts.replay_plan,
    "/plan/drop": letter_acts.drop_plan,
    "/plan/decide": decide_plan,
}
ACTS: Mapping[str, Callable[[Visit, Fields], HttpResponse]] = {
    "/act/pause": lambda visit, fields: change(visit, fields, "pause"),
    "/act/resume": lambda visit, fields: change(visit, fields, "resume"),
    "/act/resize": lambda visit, fields: change(visit, fields, "resize"),
    "/act/reset": reset,
    "/act/replay": letter_acts.replay,
    "/act/drop": letter_acts.drop,
    "/act/decide": decide,
    "/act/stop-job": stop_job,
}
