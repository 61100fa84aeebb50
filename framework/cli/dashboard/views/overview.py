"""The overview: what is wrong first, then figures over time, then a line for each group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from framework.cli.dashboard import history, words
from framework.cli.dashboard.desk import BrowserPage, Visit
from framework.cli.dashboard.exchanges import address
from framework.cli.dashboard.watching import GroupLook, Look

TROUBLES_MAX = 12
PLACES = {
    words.DEAD_LETTERS: ("dead letters", "/dead-letters"),
    words.GROWING: ("queue map", "/queues"),
    words.HELD: ("queue map", "/queues"),
}
"""Where somebody looks next, beside a group's own page."""


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
    told = tuple(f" held: {reason}" for group in look.groups.values() for reason in group.held)
    for application in look.applications:
        for text in application.figures.troubles if application.is_here else ():
            if look.failure or not text.endswith(told):  # else its group's line says it
                yield Trouble("bad", f"{application.name}: {text}", "/applications", "applications")
    for socket, why in look.silent.items():
        yield Trouble(
            "bad", f"application {socket} of this machine does not answer: {why}", "/applications", "applications"
        )
    for group in () if look.failure else look.groups.values():
        yield from _of_group(group)


def _of_group(group: GroupLook) -> Iterator[Trouble]:
    where, path = PLACES.get(group.state, ("group", "/group"))
    if group.state.tone == "bad" or group.state in (words.UNKNOWN_STATE, words.PAUSED):
        yield Trouble(group.state.tone, f"{group.name}: {group.verdict}", address(path, group=group.name), where)
    queues = address("/queues", group=group.name)
    for text in group.troubles:
        yield Trouble("bad", f"{group.name}: {text}", queues, "queue map")
    for who, why in list(group.found.unknown.items())[:3] if group.found else ():
        yield Trouble("note", f"{group.name}: {who} is not known: {why}", queues, "queue map")


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
