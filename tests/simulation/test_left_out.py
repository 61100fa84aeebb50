"""Each safeguard that can be left out is there again afterwards, and is left out wherever its function was imported."""

from __future__ import annotations

from contextlib import suppress

import pytest

from framework.core.ranges import Finished, Mark, why_not
from tests.simulation.change import Change
from tests.simulation.left_out import left_out, replacements
from tests.simulation.safeguards import SAFEGUARDS


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_it_is_left_out_for_a_while(name: str) -> None:
    changed = [each for change in SAFEGUARDS[name] for each in replacements(change)]
    before = [function.__code__ for function, _ in changed]

    with suppress(KeyError), left_out(name):
        assert [code for _, code in changed] == [function.__code__ for function, _ in changed]
        raise KeyError
    assert before == [function.__code__ for function, _ in changed]
    assert changed


def test_who_has_imported_the_function_runs_it_too() -> None:
    here = Mark(7, 1, 100)
    found = Finished(here, ((8, 9),), here)

    assert why_not(found, 7, Mark(7, 2, 200), here) is not None
    with left_out("messages are compared before they are passed over"):
        assert why_not(found, 7, Mark(7, 2, 200), here) is None
    with left_out(None):
        assert why_not(found, 7, Mark(7, 2, 200), here) is not None


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("no such line", "", "does not read so any more"),
        ("return", "", "does not read so any more"),
        ("from __future__ import annotations\n", "X = 1\n", "changes nothing"),
        ("def grace_of(", "def no_grace_of(", "not inside of functions"),
    ],
)
def test_a_change_that_does_not_fit_is_named(right: str, wrong: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        replacements(Change("framework.core.group_members", right, wrong))
