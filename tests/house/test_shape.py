"""The shape of the house: how large files, rooms and classes may be, that names are used once, and which modules of a
room are its doors. Each rule is shown to fail on a small tree that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES_MAX = 450
FILES_MAX = 20
METHODS_MAX = 25
LARGE_ROOMS = ("core", "broker", "broker/store")
"""One idea a file, and as many files as RocketMQ has requests or a law has parts."""
ROOMS_WITH_DOORS = (
    "services/queue", "services/pool", "services/call", "services/outcome", "services/orderly", "services/offsets",
    "runtime/group", "runtime/logs", "runtime/plans", "runtime/report",
)  # fmt: skip


def sources(root: Path) -> dict[str, str]:
    """Name below `framework` -> text."""
    folder = root / "framework"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}


def laboratory(root: Path) -> dict[str, str]:
    """The random simulation without its tests; the same."""
    folder = root / "tests" / "simulation"
    paths = (path for path in sorted(folder.rglob("*.py")) if not path.name.startswith("test_"))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def long_files(texts: dict[str, str]) -> list[str]:
    return [name for name, text in texts.items() if len(text.splitlines()) > LINES_MAX]


def full_rooms(names: Iterable[str]) -> list[str]:
    files: defaultdict[str, int] = defaultdict(int)
    for name in names:
        files[name.rpartition("/")[0]] += 1
    return [room for room, count in files.items() if count > FILES_MAX and room not in LARGE_ROOMS]


def classes(texts: dict[str, str]) -> Iterator[tuple[str, ast.ClassDef]]:
    """Those of modules outside `testing`, each with the file that it stands in."""
    for name, text in texts.items():
        if not name.startswith("testing/"):
            yield from ((name, node) for node in ast.parse(text).body if isinstance(node, ast.ClassDef))


def large_classes(texts: dict[str, str]) -> list[str]:
    return [
        node.name
        for _, node in classes(texts)
        if sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body) > METHODS_MAX
    ]


def names_of_two(texts: dict[str, str]) -> dict[str, list[str]]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, node in classes(texts):
        if not node.name.startswith("_"):
            places[node.name].append(file)
    return {name: files for name, files in places.items() if len(files) > 1}


@cache
def imported(text: str) -> frozenset[str]:
    """Every module that a text imports, and everything that it imports from one: either may be a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{each.name}" for each in node.names)))
    return frozenset(found)


def doors(texts: dict[str, str], room: str) -> list[str]:
    """The modules of a room that its docstring opens to others."""
    said = ast.get_docstring(ast.parse(texts[f"{room}/__init__.py"])) or ""
    return re.findall(r"`(\w+)`", said.partition("Open to other rooms: ")[2])


def through_walls(texts: dict[str, str], room: str) -> list[str]:
    """Imports from outside of a module that is no door, and doors that are no module."""
    opened = doors(texts, room)
    modules = {name.removeprefix(f"{room}/")[:-3] for name in texts if name.startswith(f"{room}/")}
    closed = {f"framework.{room}.{name}".replace("/", "."): name for name in modules - {*opened, "__init__"}}
    found = [f"{room}: there is no {name}" for name in opened if name not in modules]
    for name, text in texts.items():
        if not name.startswith(f"{room}/"):
            found += [f"{name}: {room}/{closed[each]}" for each in sorted(imported(text) & closed.keys())]
    return found


def test_files_are_small() -> None:
    assert [] == long_files(sources(ROOT))
    assert [] == long_files(laboratory(ROOT))
    assert ["core/long.py"] == long_files({"core/long.py": "\n" * 451, "core/short.py": "\n" * 450})


def test_rooms_are_small() -> None:
    assert [] == full_rooms(sources(ROOT))
    rooms = ("client", "client/deeper", "core")
    assert ["client"] == full_rooms(f"{room}/{i}.py" for room in rooms for i in range(20 + (room != "client/deeper")))


def test_classes_are_small() -> None:
    assert [] == large_classes(sources(ROOT))
    large = "class Large:\n" + "".join(f"    def do_{i}(self): ...\n" for i in range(26))
    small = large.replace("Large", "Small").replace("    def do_25(self): ...\n", "")
    assert ["Large"] == large_classes({"net/a.py": large + small, "testing/b.py": large})


def test_no_two_public_classes_have_one_name() -> None:
    assert {} == names_of_two(sources(ROOT))
    kept = "class Kept: ...\nclass _Row: ...\n"
    assert {"Kept": ["core/a.py", "net/b.py"]} == names_of_two(dict.fromkeys(("core/a.py", "net/b.py"), kept))
    assert {} == names_of_two({"core/a.py": kept, "testing/b.py": kept})


def test_a_room_is_entered_by_its_doors() -> None:
    texts = sources(ROOT)
    for room in ROOMS_WITH_DOORS:
        assert doors(texts, room), f"{room}/__init__.py: Open to other rooms: `...`"
        assert [] == through_walls(texts, room)


def test_what_comes_through_a_wall_is_seen() -> None:
    tree = {
        "services/queue/__init__.py": '"""One queue.\n\nOpen to other rooms: `pull`, `pacing`.\n"""',
        "services/queue/pull.py": "from framework.services.queue.leaving import leave",
        "services/queue/leaving.py": "",
        "services/direct.py": "from framework.services.queue.pull import PullLoop",
    }
    assert ["services/queue: there is no pacing"] == through_walls(tree, "services/queue")
    for line in ("from framework.services.queue import leaving", "import framework.services.queue.leaving as gone"):
        other = tree | {"services/queue/pacing.py": "", "services/direct.py": line}
        assert ["services/direct.py: services/queue/leaving"] == through_walls(other, "services/queue")
