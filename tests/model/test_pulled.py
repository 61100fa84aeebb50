"""What a pull can answer: values that one `match` takes apart."""

from __future__ import annotations

import pytest

from framework.model.message import Message
from framework.model.pulled import Damaged, Failed, Found, NothingNew, OffsetIllegal, Popped, PullResult


def named(result: PullResult) -> tuple[str, int | None]:
    match result:
        case Found():
            return "found", result.next_offset
        case Popped(rest=rest):
            return "popped", rest
        case NothingNew(next_offset=offset):
            return "nothing new", offset
        case OffsetIllegal(next_offset=offset):
            return "illegal", offset
        case Failed(code=code):
            return "failed", code
        case Damaged(until=offset):
            return "damaged", offset


@pytest.mark.parametrize(
    ("expected", "result"),
    [
        (("found", 8), Found([Message("orders")], 10, 8, 0, 9)),
        (("popped", 3), Popped([Message("orders")], 10, 3)),
        (("nothing new", 7), NothingNew(7, 0, 9)),
        (("illegal", 5), OffsetIllegal(5, 0, 9)),
        (("failed", None), Failed("connection lost")),
        (("damaged", 8), Damaged("its checksum is 0", 9, 8, 9)),
        (("failed", 24), Failed("no subscription", 24)),
    ],
)
def test_each_answer_has_a_class_of_its_own(expected: tuple[str, int | None], result: PullResult) -> None:
    assert expected == named(result)
