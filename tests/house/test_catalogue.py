"""Each error and each warning that a user can meet has an id, each id has one page, and no id is ever used again."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import pytest

from framework.catalogue.pages import RETIRED, Page, content, pages
from tests.house.log_events import ROOT, sources

ID = re.compile(r"FA-[A-Z]\d{3}")
FIRST_OF_EVENTS = 101
OF_COMMANDS = ROOT / "framework" / "cli" / "shown" / "explained.py"
"""Its constants are ids of what is raised by others than us: the operating system, argparse, a library."""


def ids_of_classes() -> Iterator[tuple[str, str]]:
    """Id and class, of each class in the sources that says which page explains it."""
    for path in sources():
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if '"FA-' in text else ():
            for each in node.body if isinstance(node, ast.ClassDef) else ():
                for number in _ids(each):
                    yield number, f"{path.relative_to(ROOT)}: {node.name}"  # type: ignore[attr-defined]  # a ClassDef


def _ids(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
        value = node.value.value
        if isinstance(value, str) and ID.fullmatch(value):
            yield value


def complaints(listed: Iterable[str], used: Iterable[str], retired: Iterable[str]) -> Iterator[str]:
    """What is wrong with ids: of pages, of the sources, and those that are gone."""
    listed, used, retired = list(listed), set(used), set(retired)
    yield from (f"{number}: two pages" for number, count in Counter(listed).items() if count > 1)
    yield from (f"{number}: no page in catalogue/errors.md" for number in sorted(used - set(listed)))
    yield from (f"{number}: nothing has this id; move it to RETIRED" for number in sorted(set(listed) - used))
    yield from (f"{number}: retired, and used again; take a new number" for number in sorted(retired & set(listed)))
    by_area: defaultdict[tuple[str, bool], set[int]] = defaultdict(set)
    for each in {*listed, *retired}:
        by_area[each[:4], int(each[4:]) >= FIRST_OF_EVENTS].add(int(each[4:]))
    for (area, of_events), numbers in by_area.items():
        first = FIRST_OF_EVENTS if of_events else 1
        missing = sorted(set(range(first, max(numbers) + 1)) - numbers)
        yield from (f"{area}{number:03}: neither a page nor in RETIRED" for number in missing)


def test_each_id_has_a_page_and_each_page_something_that_has_its_id() -> None:
    of_errors = re.findall(r"^## (\S+)", content("errors.md"), re.MULTILINE)
    of_events = {number for number, page in pages().items() if page.kind == "log event"}
    constants = {number for node in ast.parse(OF_COMMANDS.read_text()).body for number in _ids(node)}
    classes = {number for number, _ in ids_of_classes()}

    assert [] == list(complaints([*of_errors, *of_events], classes | constants | of_events, RETIRED))


@pytest.mark.parametrize(
    ("listed", "used", "retired", "complaint"),
    [
        (["FA-S001", "FA-S001"], ["FA-S001"], [], "FA-S001: two pages"),
        (["FA-S001"], ["FA-S001", "FA-S002"], [], "FA-S002: no page"),
        (["FA-S001", "FA-S002"], ["FA-S001"], [], "FA-S002: nothing has this id"),
        (["FA-S001"], ["FA-S001"], ["FA-S001"], "FA-S001: retired, and used again"),
        (["FA-S001", "FA-S003"], ["FA-S001", "FA-S003"], [], "FA-S002: neither a page nor in RETIRED"),
        (["FA-A102"], ["FA-A102"], [], "FA-A101: neither a page nor in RETIRED"),
    ],
)
def test_an_id_that_is_wrong_is_seen(listed: list[str], used: list[str], retired: list[str], complaint: str) -> None:
    assert any(each.startswith(complaint) for each in complaints(listed, used, retired))
    assert [] == list(complaints(["FA-S001", "FA-S003"], ["FA-S001", "FA-S003"], ["FA-S002"]))


def test_each_id_that_docs_or_sources_name_has_a_page() -> None:
    """A sentence that sends its reader to an id that was never there, or is gone, helps nobody."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.*"), *sources()]
    named = {path.relative_to(ROOT): set(ID.findall(path.read_text())) for path in texts if path.is_file()}

    assert {} == {str(path): ids - pages().keys() for path, ids in named.items() if ids - pages().keys() - RETIRED}
    assert len(set.union(*named.values())) >= len(pages()), "docs/errors.md and docs/logs.md name each"


def test_no_two_kinds_of_errors_have_one_id() -> None:
    by_id: defaultdict[str, list[str]] = defaultdict(list)
    for number, name in ids_of_classes():
        by_id[number].append(name)

    assert {} == {number: names for number, names in by_id.items() if len(names) > 1}


def bare(text: str) -> list[int]:
    """The lines that make a ConfigurationError of no kind."""
    if "ConfigurationError(" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [each.lineno for each in calls if ast.unparse(each.func) == "ConfigurationError"]


def test_whoever_raises_says_which_kind_of_mistake_it_is() -> None:
    """`ConfigurationError` itself is for plugins and users: its page knows nothing of what is wrong."""
    found = {str(path.relative_to(ROOT)): bare(path.read_text()) for path in sources() if path.name != "errors.py"}

    assert {} == {name: lines for name, lines in found.items() if lines}, "raise a kind of framework/mistakes.py"
    assert [2] == bare("raise UnknownKey('x')\nraise ConfigurationError('x')")


_SAID = re.compile(r"[\"'](?:error|warning): ")
"""How a line begins that a user takes for one of ours."""


def without_id(text: str) -> list[int]:
    """The lines that say an error or a warning, and not which page explains it."""
    lines = enumerate(text.splitlines(), 1)
    return [at for at, line in lines if _SAID.search(line) and not re.search(r"with_id\(|\[\{\S+\}\]", line)]


def test_what_is_said_as_an_error_or_a_warning_says_its_id() -> None:
    """Beside what is raised and what is logged: a command may write a line by itself."""
    found = {str(path.relative_to(ROOT)): without_id(path.read_text()) for path in sources()}

    assert {} == {name: lines for name, lines in found.items() if lines}
    assert [1] == without_id('say("error: no file")\nsay(f"warning: {text} [{SETTING_UNSAFE}]")')


@pytest.mark.parametrize("page", pages().values(), ids=lambda page: page.id)
def test_a_page_says_what_it_means_how_it_shows_and_what_to_do(page: Page) -> None:
    meant, shows, remedy = page.text.partition("\n\nShows: ")[0], "\n\nShows: `", "\n\n- "

    assert meant
    assert page.text.count(shows) >= 1
    assert page.text.count(remedy) >= 1
    assert page.kind == "log event" or "`" in page.text.partition(remedy)[2], "name a command, an option or a setting"
