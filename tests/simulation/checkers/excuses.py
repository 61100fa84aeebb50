"""Excuses: what a truth does not hold against a run, counted, so that a blunt exception shows.

A checker that lets something pass says so at the place: `excuse(history, NAME, "why")`, only for what would have broken
the truth otherwise, or for what it could not ask. The swarm counts in how many runs each reason was used. One that is
used in more than a tenth of them is a complaint of 300 seeds, unless `MUST` says why it has to be so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.simulation.history import History

SHARE_MAX = 0.1
"""Of all runs: what is excused more often is not asked."""
_FORMER_LIFE = "one run in seven makes a topic anew, and an offset carries no mark of the life that it belongs to"
MUST: dict[tuple[str, str], str] = {
    ("a commit never passes a gap", "an offset of its topic's former life"): _FORMER_LIFE,
    ("fences hold", "an epoch of its topic's former life"): _FORMER_LIFE,
    ("offsets go forward", "what was on its way belongs to the topic's former life"): _FORMER_LIFE,
    ("nothing lost", "its topic was made anew while it was on its way"): _FORMER_LIFE,
    ("calm runs do not repeat", "two members had the queue for a moment"): (
        "a fifth of the runs is calm, members join in each of them, and none asks the others before it begins"
    ),
}
"""(truth, reason) -> why it excuses more often than that, and nothing can be done about it."""


def excuse(history: History, truth: str, reason: str) -> None:
    """Note that a truth let something pass."""
    history.excuses[truth, reason] += 1


def too_often(excused: Mapping[tuple[str, str], int], runs: int) -> Iterator[str]:
    """The excuses that were used in too many of so many runs, a line each."""
    for (truth, reason), count in sorted(excused.items()):
        if count > runs * SHARE_MAX and (truth, reason) not in MUST:
            yield f"truth {truth!r} excused something in {count} of {runs} runs: {reason}"
