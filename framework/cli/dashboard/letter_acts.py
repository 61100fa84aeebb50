"""What may be done with dead letters: sent once more, or passed over; all, those that are meant, or one."""

from __future__ import annotations

from collections.abc import Callable

from framework.admin import dead_letters, replays
from framework.admin.dead_letters import LetterChoice
from framework.admin.replays import ReplayPlan
from framework.cli.commands import dlq
from framework.cli.dashboard.desk import Visit, group_of
from framework.cli.dashboard.exchanges import Fields, number, see
from framework.cli.dashboard.jobs import Job
from framework.cli.dashboard.plans import ActPlan, check_typed
from framework.cli.dashboard.views.letters import CHOICE, choice_of
from framework.cli.table import Column, some
from framework.net.http.messages import HttpResponse

RATE, RATE_MAX = 50, 10_000
TARGETS = (Column("TO TOPIC", "topic"), Column("DEAD LETTERS", "count", is_number=True))


def _limit(fields: Fields) -> int | None:
    return number(fields.get("limit", "").strip()) or None


def _rate(fields: Fields) -> int:
    return min(number(fields.get("rate", "").strip()) or RATE, RATE_MAX)


def _letters(count: int, one: str, many: str) -> str:
    return f"{some(count, 'dead letter')} {one if count == 1 else many}"


def _chosen(visit: Visit) -> dict[str, str]:
    """What a form of the plan begins with, and what its button sends."""
    return {**{name: visit.text(name) for name in CHOICE}, "limit": str(_limit(visit.request.query) or "")}


# Replay


def replay_plan(visit: Visit) -> ActPlan:
    group, query = group_of(visit), visit.request.query
    to_retry, rate = bool(visit.text("to_retry")), _rate(query)
    choice, limit = choice_of(query, visit.desk.now_ms()), _limit(query)
    with visit.desk.admin() as admin:
        planned = replays.plan(admin, admin.wrapped(group.name), choice, limit=limit, to_retry=to_retry)
        rows = [
            {"topic": "not said: these stay" if topic is None else admin.unwrapped(topic), "count": count}
            for topic, count in planned.counts.items()
        ]
        others = ", ".join(sorted(map(admin.unwrapped, planned.others)))
    where = f"to {group.name} alone" if to_retry else "to the topics that they came from"
    fields = {"group": group.name, "to_retry": "yes" if to_retry else "", "rate": str(rate), **_chosen(visit)}
    return ActPlan(
        f"Replay dead letters of {group.name}", group.name, "/act/replay", "Replay",
        f"{_letters(planned.count, 'goes', 'go')} {where}, {rate} per second at most.",
        effects=[
            *([f"Other groups get them, too: {others}."] if others else []),
            "Each is sent as it is stored, once, also where a replay is stopped and begun again.",
            "Nothing is deleted; what was replayed is not listed any more.",
        ],
        fields=fields, columns=TARGETS, rows=rows, must_type=group.name,
        blocked="" if planned.count else "no dead letter is meant", form="replay", choices=fields,
    )  # fmt: skip


def replay(visit: Visit, fields: Fields) -> HttpResponse:
    name = fields.get("group", "")
    check_typed(fields, name)
    choice, to_retry = choice_of(fields, visit.desk.now_ms()), bool(fields.get("to_retry"))
    with visit.desk.admin() as admin:
        planned = replays.plan(admin, admin.wrapped(name), choice, limit=_limit(fields), to_retry=to_retry)
    return _begin(visit, name, "replay", planned, dlq.pacer(float(_rate(fields))))


def _begin(visit: Visit, name: str, what: str, planned: ReplayPlan, pace: Callable[[], None]) -> HttpResponse:
    """Carry out the plan as a job, and go to its page."""
    desk = visit.desk

    def work(job: Job) -> None:
        visit.audit(f"dlq {what} began", job=job.id, group=name, count=planned.count, to_retry=planned.to_retry)
        try:
            with desk.admin() as admin:
                for outcome in replays.run(admin, planned, pace):
                    letter = outcome.letter.message.message_id
                    job.count(outcome.what, f"{letter}: {outcome.why}" if outcome.why else "")
                    if job.is_stopping:
                        break
        finally:
            visit.audit(f"dlq {what}", job=job.id, group=name, to_retry=planned.to_retry, **job.tally)
            desk.watching.again()

    title = f"{'Replay of' if what == 'replay' else 'Pass over'} {some(planned.count, 'dead letter')}"
    return see("/job", id=desk.jobs.start(title, name, what, planned.count, work).id)


# Pass over


def drop_plan(visit: Visit) -> ActPlan:
    """All of them, or the oldest, by an offset; from among others, by a mark for each."""
    group, query = group_of(visit), visit.request.query
    choice, limit = choice_of(query, visit.desk.now_ms()), _limit(query)
    fields = {"group": group.name, **_chosen(visit)}
    with visit.desk.admin() as admin:
        if choice == LetterChoice():
            moves = replays.fronts(admin, dead_letters.queues(admin, admin.wrapped(group.name)), limit)
            count, rows = replays.passed_over(moves), dlq.rows_of(moves)
        else:
            count, rows = replays.plan(admin, admin.wrapped(group.name), choice, limit=limit, is_drop=True).count, []
    return ActPlan(
        f"Pass over dead letters of {group.name}", group.name, "/act/drop", "Pass over",
        f"{_letters(count, 'is', 'are')} passed over; brokers keep them as long as any message.",
        effects=["No replay sends them and no list shows them, unless somebody asks for those that are dealt with."],
        fields=fields, columns=dlq.MOVES, rows=rows, must_type=group.name,
        blocked="" if count else "no dead letter is meant", form="drop", choices=fields,
    )  # fmt: skip


def drop(visit: Visit, fields: Fields) -> HttpResponse:
    name = fields.get("group", "")
    check_typed(fields, name)
    choice, limit = choice_of(fields, visit.desk.now_ms()), _limit(fields)
    with visit.desk.admin() as admin:
        group = admin.wrapped(name)
        if choice != LetterChoice():
            planned = replays.plan(admin, group, choice, limit=limit, is_drop=True)
            return _begin(visit, name, "drop", planned, dlq.pacer(None))
        moves = replays.fronts(admin, dead_letters.queues(admin, group), limit)
        replays.drop(admin, group, moves)
    visit.audit("dlq drop", group=name, passed_over=replays.passed_over(moves))
    visit.desk.watching.again()
    return see("/dead-letters", group=name, done="drop")
