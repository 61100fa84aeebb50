"""Each operator on small sources, and what is no behaviour and left alone."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutation import operators
from tests.mutation.drawing import ROOMS, files_of
from tests.mutation.operators import OPERATORS, Mutant, compiles, mutants_of

FILE = "framework/core/sample.py"


def mutants(source: str, operator: str, file: str = FILE) -> list[str]:
    """The changed lines of one operator's mutants, each as `before -> after`."""
    text = dedent(source).encode()
    found = [each for each in mutants_of(file, text) if each.operator == operator]
    assert all(compiles(each.put_into(text)) for each in found)
    return [f"{each.before} -> {each.after}" for each in found]


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        (operators.LEFT_OUT, "self.count += 1", ["self.count += 1 -> pass"]),
        (operators.LEFT_OUT, "self.told = True", ["self.told = True -> pass"]),
        (operators.LEFT_OUT, "self.tell(a)", ["self.tell(a) -> pass"]),
        (operators.LEFT_OUT, "raise KeyError(a)", ["raise KeyError(a) -> pass"]),
        (operators.LEFT_OUT, "c = 1", []),  # an unbound name is no small mistake
        (operators.LEFT_OUT, "a = 1", ["a = 1 -> pass"]),
        (operators.FLUSH, "self.file.flush()", ["self.file.flush() -> pass"]),
        (operators.GIVEN_BACK, "self.count -= 1", ["self.count -= 1 -> pass"]),
        (operators.GIVEN_BACK, "self.lock.release()", ["self.lock.release() -> pass"]),
        (operators.GIVEN_BACK, "del self.rows[a]", ["del self.rows[a] -> pass"]),
        (operators.NEGATED, "if a: return b", ["if a: return b -> if not (a): return b"]),
        (operators.NEGATED, "if not a: return b", ["if not a: return b -> if a: return b"]),
        (operators.NEGATED, "return b if a else None", ["return b if a else None -> return b if not (a) else None"]),
        (operators.NEGATED, "return a == b", ["return a == b -> return a != b"]),
        (operators.NEGATED, "return a not in b", ["return a not in b -> return a in b"]),
        (
            operators.NEGATED,
            "while a or b: c()",
            [
                "while a or b: c() -> while not (a or b): c()",
                "while a or b: c() -> while not (a) or b: c()",
                "while a or b: c() -> while a or not (b): c()",
            ],
        ),
        (operators.BOUNDARY, "return a < b", ["return a < b -> return a <= b"]),
        (operators.BOUNDARY, "return a >= b", ["return a >= b -> return a > b"]),
        (operators.AND_OR, "return a and b", ["return a and b -> return a or b"]),
        (operators.AWAIT, "await self.save()", ["await self.save() -> self.save()"]),
        (operators.AWAITS, "await a.one()\n    await b.two()", ["await a.one() -> await b.two()"]),
        (operators.AWAITS, "c = await a.one()\n    await b.two(c)", []),  # the second needs the first
        (operators.STEPS, "await a.one()\n    self.done = True", ["await a.one() -> self.done = True"]),
        (operators.STEPS, "a.one()\n    self.done = True", []),
        (operators.NEIGHBOUR, "return c(a, b)", ["return c(a, b) -> return c(b, a)"]),
        (operators.NEIGHBOUR, "return c(x=a, y=b)", ["return c(x=a, y=b) -> return c(x=b, y=a)"]),
        (operators.NEIGHBOUR, "return isinstance(a, b)", []),
        (operators.EARLY, "a()\n    b()", ["b() -> return"]),
        (operators.CONSTANT, "return a + 1", ["return a + 1 -> return a + 2"]),
        (operators.CONSTANT, "return a + 30000", []),  # a limit
        (operators.FLAG, "self.told = True", ["self.told = True -> self.told = False"]),
        (operators.FLAG, "return False", ["return False -> return True"]),
        (operators.MIN_MAX, "return min(a, b)", ["return min(a, b) -> return max(a, b)"]),
        (operators.PLUS_MINUS, "return a - b", ["return a - b -> return a + b"]),
        (operators.PLUS_MINUS, "return a + b", []),  # it may join texts or lists, where a minus breaks at once
        (operators.PLUS_MINUS, "return a + 1", ["return a + 1 -> return a - 1"]),
        (operators.LOOP, "while a:\n        break", ["break -> continue"]),
        (operators.LOOP, "while a:\n        continue", ["continue -> break"]),
    ],
)
def test_mistakes(operator: str, body: str, expected: list[str]) -> None:
    assert expected == mutants(f"async def work(self, a, b) -> None:\n    {body}\n", operator)


def test_every_operator_is_tried_above() -> None:
    (marks,) = test_mistakes.pytestmark  # type: ignore[attr-defined]

    assert set(OPERATORS) == {operator for operator, _, expected in marks.args[1] if expected}


@pytest.mark.parametrize(
    "source",
    [
        '"""Of 1 < 2."""',
        "def work(a: list[int] = None) -> dict[str, 1]: ...",
        "def __repr__(self):\n    return self.name if self.name else 1",
        "if TYPE_CHECKING:\n    LIMIT = 1",
        "def work(a):\n    log.info('a', count=a + 1)",
        "def work(a):\n    self._log.info('a', count=a + 1)",
        "def work(a):\n    assert a < 1, a + 1",
        "def work(a):\n    marks.sometimes('it was')",
        "def work(a):\n    return a, marks.rarely('it is lost')",
        "__slots__ = ('a',)",
        "def work(a):\n    return f'{a + 1}'",
    ],
)
def test_what_is_no_behaviour_is_left_alone(source: str) -> None:
    assert [] == mutants_of(FILE, source.encode())


def test_the_text_of_an_error_is_left_alone() -> None:
    (only,) = mutants_of(FILE, b"def work(a):\n    raise KeyError(a + 1, b, c)\n")

    assert operators.LEFT_OUT == only.operator


def test_a_mark_of_the_simulation_is_not_turned() -> None:
    source = "def work(a):\n    if a and marks.rarely('x'):\n        return a\n"

    assert ["if a and marks.rarely('x'): -> if not (a) and marks.rarely('x'):"] == mutants(source, operators.NEGATED)
    assert [] == mutants(source, operators.AND_OR)


def test_a_code_on_the_wire_is_any_number() -> None:
    assert [] == mutants("PULL = 11_000\n", operators.CONSTANT)
    assert ["PULL = 11_000 -> PULL = 11001"] == mutants(
        "PULL = 11_000\n", operators.CONSTANT, "framework/wire/codes.py"
    )


def test_a_mutant_keeps_its_name_when_lines_move() -> None:
    source = b"class Window:\n    def admit(self, a):\n        self.count += a\n"
    (before,) = mutants_of(FILE, source)
    (after,) = mutants_of(FILE, b"# A word.\n\n" + source)

    assert f"{FILE}::Window.admit: statement left out: self.count += a -> pass" == before.key == after.key
    assert (3, 5) == (before.line, after.line)


def test_two_that_read_alike_are_numbered() -> None:
    first, second = mutants_of(FILE, b"def work():\n    tell()\n    tell()\n")

    assert first.key + " #2" == second.key


def test_no_other_line_moves() -> None:
    source = b"def work():\n    tell(\n        1000,\n    )\n    return\n"
    (only,) = (each for each in mutants_of(FILE, source) if each.operator == operators.LEFT_OUT)

    assert b"def work():\n    pass\n\n\n    return\n" == only.put_into(source)
    assert (2, 4) == only.lines


def test_a_mistake_in_a_default_matters_from_the_import_on() -> None:
    (only,) = mutants_of(FILE, b"def work(a=1): ...\n")

    assert ((0, 0), "") == (only.lines, only.function)


def test_every_room_offers_mistakes_and_nearly_all_compile() -> None:
    root = Path(__file__).parents[2]
    for room in ROOMS:
        found: list[tuple[Mutant, bytes]] = []
        for file in files_of(room)[:6]:
            source = (root / file).read_bytes()
            found += [(mutant, source) for mutant in mutants_of(file, source)]
        chosen = found[:: max(1, len(found) // 10)]

        assert chosen, room.name
        assert 0.9 * len(chosen) <= sum(compiles(mutant.put_into(source)) for mutant, source in chosen), room.name
