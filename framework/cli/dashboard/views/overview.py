"""The overview: what is wrong first, then figures over time, then a line for each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.cli.dashboard import history, words
from framework.cli.dashboard.desk import BrowserPage, Visit
from framework.cli.dashboard.exchanges import address
from framework.cli.dashboard.watching import GroupLook, Look

TROUBLES_MAX = 12


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that somebody should see to, and where to look."""

    tone: str
    text: str
    link: str = ""
    where: str = ""


def page(visit: Visit) -> BrowserPage:
    look = visit.look
    found = sorted(troubles(look), key=lambda each: each.tone != "bad")
    return BrowserPage(
        "overview.html",
        "Overview",
        {
            "troubles": found[:TROUBLES_MAX],
            "more": max(len(found) - TROUBLES_MAX, 0),
            "sparks": sparks(look),
            "groups": list(look.groups.values()),
            "lag_over_time": lag_over_time,
        },
        is_live=True,
    )


def troubles(look: Look) -> Iterator[Trouble]:
    """Of the cluster, of this machine's applications, then of each group."""
    if look.failure:
        yield Trouble("bad", f"the cluster cannot be looked at: {look.failure}", "/brokers", "brokers")
    for broker, why in look.unknown.items():
        yield Trouble("bad", f"broker {broker} does not answer: {why}", "/brokers", "brokers")
    for application in look.applications:
        if application.is_here:
            for text in application.figures.troubles:
                yield Trouble("bad", f"{application.name}: {text}", "/applications", "applications")
    for group in look.groups.values():
        yield from _of_group(group)


def _of_group(group: GroupLook) -> Iterator[Trouble]:
    here = address("/group", group=group.name)
    found, queues = group.found, address("/queues", group=group.name)
    if found is None:
        yield Trouble("bad", f"{group.name}: cannot be looked at: {group.positions}", here, "group")
        return
    lag, behind = words.count(group.lag), words.age(group.behind_s)
    if group.state is words.FAILING:
        yield Trouble("bad", f"{group.name}: nothing succeeds; {lag} behind", here, "group")
    elif group.state is words.GROWING:
        rate = history.last(group.track.rates(lambda each: each.lag))
        grows = f", growing {words.rate(rate)}/s" if rate else ", growing"
        yield Trouble("bad", f"{group.name}: {lag} behind, by {behind}{grows}", queues, "queue map")
    elif group.state is words.ABANDONED:
        yield Trouble("bad", f"{group.name}: {lag} messages wait, and the group has no member", here, "group")
    elif found.blank and not found.is_nobody:
        yield Trouble("bad", f"{group.name}: {found.blank}", here, "group")
    if group.is_paused:
        yield Trouble("note", f"{group.name}: paused on this machine; {lag} messages wait", here, "group")
    for text in group.troubles:
        yield Trouble("bad", f"{group.name}: {text}", queues, "queue map")
    for who, why in list(found.unknown.items())[:3]:
        yield Trouble("note", f"{group.name}: {who} is not known: {why}", queues, "queue map")
    if group.letters.lately:
        letters = address("/dead-letters", group=group.name)
        most = "at most " if group.letters.unasked else ""
        text = f"{group.name}: {most}{words.count(group.letters.lately)} dead letters in the last hour"
        yield Trouble("bad", text, letters, "dead letters")


def sparks(look: Look) -> list[words.Spark]:
    """All groups together."""
    tracks = [each.track for each in look.groups.values()]
    rounds = [_round(track.rates(lambda each: each.offsets)) for track in tracks]
    latency = [_round(track.line(lambda each: each.handle_ms)) for track in tracks]
    lags = [_round(track.line(lambda each: each.lag)) for track in tracks]
    dead = [_round(track.line(lambda each: each.dead)) for track in tracks]
    return [
        words.spark("Throughput", history.joined(rounds), unit="/s", tone="good"),
        words.spark("Handling time", history.joined(latency, max), unit=" ms", show=words.rate),
        words.spark("Lag", history.joined(lags), show=words.count, tone="note"),
        words.spark("Dead letters", history.joined(dead), show=words.count, tone="bad"),
    ]


ROUND_MS = 5_000
"""Groups are looked at one after the other: what lies so near is one moment."""


def _round(points: history.Points) -> history.Points:
    return [(at_ms // ROUND_MS * ROUND_MS, value) for at_ms, value in points]


def lag_over_time(group: GroupLook) -> words.Spark:
    return words.spark("Lag", group.track.line(lambda each: each.lag), show=words.count, tone="note")
