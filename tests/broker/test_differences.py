"""The table of differences between RocketMQ and the box: each row excuses what it names, and nothing beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.interop.dialogues import EXCUSED
from tests.interop.differences import NAMES, unexplained
from tests.interop.scenarios import ODD, SEEDS, Step, generate

PAGE = Path(__file__).parents[2] / "docs" / "broker-requests.md"
Play = list[Any]


def _compare(steps: list[Step], real: Play, box: Play) -> tuple[list[str], set[str]]:
    """Two plays, of which the views of the steps alone are given."""
    theirs, ours = ([("create", {"code": 0}), *((str(step), view) for step, view in zip(steps, play, strict=True))]
                    for play in (real, box))  # fmt: skip
    return unexplained(tuple(steps), theirs, ours)


def _commit(group: str, queue: int = 9) -> Step:
    return Step("commit", "a", {"group": group, "topic": "own", "queue": queue, "at": "end"})


def _committed(group: str, queue: int = 0) -> Step:
    return Step("committed", "a", {"group": group, "topic": "own", "queue": queue, "zero": True})


def _pull(group: str, expression: tuple[str, str] | None) -> Step:
    return Step("pull", "a", {"group": group, "topic": "own", "queue": 0, "filter": expression, "commits": None})


REFUSED = {"code": 29}
OFFSET = {"code": 0, "fields": {"offset": "7"}}


def test_the_page_has_the_table_s_rows_and_no_others() -> None:
    assert rows_under("## Held against RocketMQ") == NAMES
    assert rows_under("### Dialogues") == EXCUSED.keys()


def rows_under(heading: str) -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split(heading)[1].split("##")[0]
    return set(re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)) - {"what"}


def test_an_odd_commit_excuses_itself_and_what_its_own_group_and_queue_are_told_of_it() -> None:
    steps = [_commit(ODD), _committed(ODD, 9), _committed(ODD, 1), _committed("own")]
    real = [{"code": 0}, OFFSET, OFFSET, OFFSET]
    box = [REFUSED, {"code": 22}, {"code": 0, "fields": {"offset": "6"}}, {"code": 0, "fields": {"offset": "6"}}]
    faults, met = _compare(steps, real, box)

    assert "odd commits" in met
    assert [fault.partition(": ")[0].partition(")")[2] for fault in faults] == [".fields.offset"] * 2
    assert "group='odd', topic='own', queue=1" in faults[0]
    assert "group='own', topic='own', queue=0" in faults[1]


@pytest.mark.parametrize(
    ("step", "real", "box"),
    [
        (_commit("own"), {"code": 0}, REFUSED),
        (_commit(ODD), {"code": 0}, {"code": 26}),
        (_committed("own"), OFFSET, {"code": 22}),
        (_pull("own", ("red", "TAG")), {"code": 0, "status": "FOUND", "body": ["m"]}, {"code": 1}),
        (_pull(ODD, ("weight >", "SQL92")), {"code": 0}, {"code": 1}),
        (_pull(ODD, ("weight >", "SQL92")), {"code": 24}, {"code": 23}),
        (_pull("own", None), {"code": 20, "status": "NO_MATCHED_MESSAGE"}, {"code": 20, "status": "FOUND"}),
        (Step("places", "a", {"topic": "own", "queue": 0}), {"code": 1}, {"code": 0}),
        (Step("subscription", "a", {"group": "own", "topic": "own"}), {"body": {"subscriptionData": {"a": 1}}}, {}),
        (Step("sealed", "a", {}), {"code": 0}, {"code": 17}),
        (Step("send", "a", {"topic": "own", "queue": 0}), {"code": 0}, {"code": 16}),
        (Step("heartbeat", "a", {}), {"fields": {"IS_SUB_CHANGE": "false"}}, {"fields": {"IS_SUB_CHANGE": "true"}}),
    ],
)  # fmt: skip
def test_what_looks_like_a_difference_of_the_table_and_is_none_is_a_fault(step: Step, real: Any, box: Any) -> None:
    assert _compare([step], [real], [box])[0] != []


def test_a_queue_with_messages_is_no_queue_that_nobody_wrote_to() -> None:
    send = Step("send", "a", {"topic": "own", "queue": 2})
    places = Step("places", "a", {"topic": "own", "queue": 2})
    before, met = _compare([places], [{"code": 0}], [{"code": 1}])
    after, _ = _compare([send, places], [{"code": 0}, {"code": 0}], [{"code": 0}, {"code": 1}])

    assert (before, met, len(after)) == ([], {"unwritten queues"}, 1)


def test_what_leaves_two_brokers_different_has_names_of_its_own() -> None:
    """In all scenarios: odd commits and filters that nobody understands are the odd group's, and it does nothing else
    that another step would show."""
    for seed in range(SEEDS):
        scenario, is_reset = generate(seed), False
        for step in scenario.steps:
            how = step.how
            if step.kind == "commit":
                is_odd = how["at"] == "negative" or not 0 <= how["queue"] < scenario.queues
                assert (how["group"] == ODD) == is_odd
            elif step.kind == "pull":
                assert (how["group"] == ODD) == (how["filter"] in {("weight >", "SQL92"), ("*", "NEITHER")})
                assert not (how["group"] == ODD and how["commits"])
                assert not (is_reset and how["commits"])
            is_reset |= step.kind == "reset"
