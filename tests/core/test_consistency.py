from __future__ import annotations

import pytest

from framework.core.consistency import (
    OTHER_MODEL,
    OTHER_ORDER,
    OTHER_TOPICS,
    SHARED_ID,
    Profile,
    asked,
    differences,
    repeated_ids,
)

OWN = Profile(orderly=False, model="CLUSTERING", subscriptions={"orders": "paid || new"})


@pytest.mark.parametrize(
    ("other", "problems"),
    [
        (OWN, []),
        (Profile(orderly=None, model=None, subscriptions={"orders": "new||paid", "%RETRY%billing": "*"}), []),
        (Profile(orderly=True, model="CLUSTERING", subscriptions=OWN.subscriptions), [OTHER_ORDER]),
        (Profile(orderly=False, model="BROADCASTING", subscriptions=OWN.subscriptions), [OTHER_MODEL]),
        (Profile(orderly=False, model="CLUSTERING", subscriptions={"orders": "new"}), [OTHER_TOPICS]),
        (
            Profile(orderly=False, model="CLUSTERING", subscriptions={"orders": "paid || new", "stock": "*"}),
            [OTHER_TOPICS],
        ),
        (Profile(orderly=True, model="BROADCASTING", subscriptions={}), [OTHER_ORDER, OTHER_MODEL, OTHER_TOPICS]),
    ],
)
def test_what_a_member_says_of_itself_is_compared(other: Profile, problems: list[str]) -> None:
    assert dict.fromkeys(problems, ("b",)) == differences(OWN, {"a": OWN, "b": other}, [])


def test_a_shared_id_is_named() -> None:
    assert {SHARED_ID: ("a", "b")} == differences(OWN, {}, ["b", "a"])
    assert ["a"] == repeated_ids(["a", "b", "a", "c", "a"])


def test_all_others_are_asked_or_the_next_ones() -> None:
    assert ["c", "a"] == asked("b", ["c", "b", "a", "a"], 16)
    members = [f"{number:03}" for number in range(100)]
    assert ["099", "000", "001"] == asked("098", members, 3)
    assert {each for own in members for each in asked(own, members, 1)} == set(members), "nobody is left out"
    assert ["a"] == asked("b", ["a"], 16), "also where the broker does not list us"
