"""README says no figure that is not a row of docs/performance.md, and that page is drawn from its files of results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.bars import CLAIMS
from benchmarks.performance import page, pictures
from benchmarks.results import read_all
from benchmarks.suite import RESULTS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIGURE = re.compile(
    r"\b(twice|half|thirds?|quarters?|fifths?|sixths?|sevenths?|eighths?|tenths?)\b"
    r"|\b\d+([.,]\d+)*\s?(x|s|ms|us|MB|GB|times)\b|\bfaster\b|\bslower\b"
)


def unproven(readme: str, claims: list[str]) -> list[str]:
    """Lines of prose that compare or measure, less what is a row."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", readme, flags=re.DOTALL)
    prose = re.sub(r"\s+", " ", prose.replace("\n", " "))
    for claim in claims:
        prose = prose.replace(claim, "")
    return [prose[max(found.start() - 30, 0) : found.end() + 10] for found in FIGURE.finditer(prose)]


def test_readme_says_no_figure_that_is_not_a_row() -> None:
    assert [] == unproven(README, [claim.readme for claim in CLAIMS])


def test_every_claim_is_said_in_readme() -> None:
    prose = re.sub(r"\s+", " ", README)

    assert [] == [claim.readme for claim in CLAIMS if claim.readme not in prose]


@pytest.mark.parametrize("said", ["is 3x Java's", "half of its memory", "ready in 2.5 s", "much faster"])
def test_a_figure_without_a_row_is_seen(said: str) -> None:
    assert 1 == len(unproven(f"It {said}.", ["more than twice its rate"]))
    assert [] == unproven("It has `3x` and more than twice its rate, in Python 3.11.", ["more than twice its rate"])


def test_what_was_measured_on_a_quiet_machine_holds_what_readme_says() -> None:
    found = read_all(RESULTS)
    settled = [claim for claim in CLAIMS if claim.name in found and found[claim.name].is_settled]

    assert [] == [claim.readme for claim in settled if not claim.holds(claim.value(found) or 0)]


def test_the_page_and_its_plots_are_drawn_from_the_results() -> None:
    """`make bench-report` writes them."""
    found = read_all(RESULTS)

    assert page(found) == (ROOT / "docs" / "performance.md").read_text()
    drawn = {path.name: path.read_text() for path in (ROOT / "docs" / "images").glob("performance-*.svg")}
    assert pictures(found) == drawn


def test_results_name_no_path_of_a_machine() -> None:
    assert [] == [
        path.name for path in RESULTS.glob("*.json") if re.search(r"/(tmp|home|root|work)/", path.read_text())
    ]
