"""Tokens: the longest that fits, one at a time."""

from __future__ import annotations

import pytest

from framework.errors import Sql92Error
from framework.model.sql92.lexer import Lexer, Token


def kinds(text: str) -> list[tuple[str, str]]:
    lexer = Lexer(text)
    found: list[tuple[str, str]] = []
    while (token := lexer.next()).kind != "end":
        found.append((token.kind, token.text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<>b<=c>=d<e>f=g", ["a", "<>", "b", "<=", "c", ">=", "d", "<", "e", ">", "f", "=", "g"]),
        ("5 5L 5l 0 10", ["5", "5L", "5l", "0", "10"]),
        ("007 0L 0x1", ["0", "0", "7", "0", "L", "0", "x1"]),
        ("5.5 5. .5 5e3 5.e-3 .5E+3 5e 5e+", ["5.5", "5.", ".5", "5e3", "5.e-3", ".5E+3", "5", "e", "5", "e", "+"]),
        ("1.5.5", ["1.5", ".5"]),
        ("12L5", ["12L", "5"]),
        ("notes _ $ a1_$", ["notes", "_", "$", "a1_$"]),
        ("a /* x */ b /**/ c /***/ d /* * / */ e", ["a", "b", "c", "d", "e"]),
        ("a -- x\nb -- y\r\nc --\rd", ["a", "b", "c", "d"]),
        ("- -5", ["-", "-", "5"]),
        ("a--b", ["a", "-", "-", "b"]),
        (" \t\n\r\f", []),
        ("'a''b' '' ''''", ["a'b", "", "'"]),
    ],
)
def test_text_is_cut_as_rocketmq_cuts_it(text: str, expected: list[str]) -> None:
    assert expected == [word for _, word in kinds(text)]


def test_kinds_are_told_apart() -> None:
    assert [("NOT", "nOt"), ("name", "nota"), ("text", "not"), ("whole", "1"), ("decimal", "1."), ("(", "(")] == kinds(
        "nOt nota 'not' 1 1. ("
    )


def test_the_end_is_a_token_and_stays() -> None:
    lexer = Lexer(" a ")

    assert Token("name", "a", 1) == lexer.next()
    assert Token("end", "", 3) == lexer.next()
    assert Token("end", "", 3) == lexer.next()


@pytest.mark.parametrize(
    ("text", "at"), [("!", 0), ("a ~", 2), ("\v", 0), ("ä", 0), ("/* x", 0), ("/*/", 0), ("'x", 0), ("'", 0)]
)
def test_what_is_no_token_is_refused_where_it_stands(text: str, at: int) -> None:
    with pytest.raises(Sql92Error) as caught:
        kinds(text)

    assert at == caught.value.at


def test_a_text_without_its_last_quote_ends_at_the_one_before() -> None:
    """The longest that fits: the quote that is left over is an error only when it is reached."""
    lexer = Lexer("'x'' y")

    assert Token("text", "x", 0) == lexer.next()
    with pytest.raises(Sql92Error) as caught:
        lexer.next()
    assert 3 == caught.value.at
