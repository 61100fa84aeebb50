"""What is refused, where the mistake is said to be, and what to write instead."""

from __future__ import annotations

import pytest

from framework.errors import ConfigurationError, Sql92Error
from framework.model.sql92 import parse

REFUSED_BY_ROCKETMQ = [
    ("a = NULL", 5, "nothing is equal to NULL; write IS NULL or IS NOT NULL"),
    ("NULL <> a", 1, "nothing is equal to NULL"),
    ("a > '5'", 5, "the text '5' cannot be greater or less than anything; only numbers and properties"),
    ("a > TRUE", 5, "a condition cannot be greater or less than anything"),
    ("a > NULL", 5, "a condition cannot be greater"),
    ("a > 0.0", 5, "'0.0' is no number above 0; write 0 without a decimal point"),
    ("a > 1e400", 5, "'1e400' is larger than any double"),
    ("a BETWEEN 5 AND 1", 11, "nothing is between 5 and 1; write the lower one first"),
    ("a BETWEEN 'a' AND 'c'", 11, "the text 'a' cannot be greater"),
    ("a BETWEEN 1 AND NULL", 17, "a condition cannot be greater"),
    ("a BETWEEN 1 OR 5", 13, "expected AND, found 'OR'; write BETWEEN 1 AND 5"),
    ("TRUE NOT BETWEEN 1 AND 5", 1, "a condition cannot be greater"),
    ("a IN (1,2)", 7, "expected a text, found '1'; a text in single quotes stands behind IN ("),
    ("a IN 'x'", 6, "expected (, found 'x'; write IN ('a', 'b')"),
    ("a IN ('x'", 10, "expected ), found the end; close the list of IN"),
    ("'x' IN ('x')", 1, "only a property can be IN a list"),
    ("a != 1", 3, "'!' has no meaning here; write <> for 'not equal'"),
    ("a == 1", 4, "expected a property, a number or a text, found '='; write = once"),
    ("x.y = 1", 2, "'.' has no meaning here; a property's name has letters, digits, _ and $ only"),
    ("a > 1 > 2", 1, "a condition cannot be greater"),
    ("a=1 and", 8, "expected a property, a number or a text, found the end"),
    ("", 1, "there is no expression; write a condition such as a > 5"),
    ("-- only a comment\n", 19, "there is no expression"),
    ("a = 9223372036854775808", 5, "'9223372036854775808' is larger than 9223372036854775807"),
    ('a = "x"', 5, "'\"' has no meaning here; texts stand in single quotes"),
    ("a = 'x", 5, "a text begins here and never ends; close it with a single quote"),
    ("a IS 5", 6, "expected NULL, found '5'; write IS NULL or IS NOT NULL"),
    ("a NOT 5", 7, "expected one of BETWEEN, IN, CONTAINS, STARTSWITH, ENDSWITH behind NOT; elsewhere NOT stands"),
    ("5", 1, "'5' is a literal, where a condition is needed; compare it with something"),
    ("a AND 'x'", 7, "'x' is a literal, where a condition is needed"),
    ("NOT 5", 5, "'5' is a literal"),
    ("-a", 1, "'-' is a negated value, where a condition is needed"),
    ("TRUE = 'x'", 1, "TRUE is never equal to 'x'"),
    ("(a = 1", 7, "expected ), found the end; close the one at character 1"),
    ("a CONTAINS b", 12, "expected a text, found 'b'; a text in single quotes stands behind CONTAINS"),
    ("a = 1 && b = 2", 7, "'&' has no meaning here; write AND"),
]  # fmt: skip

REFUSED_BY_US = [
    ("a LIKE 'x%'", 3, "'LIKE' does not belong to the expression before it; there is no pattern matching"),
    ("a+1 = 2", 2, "'+' does not belong to the expression before it; there is no arithmetic in a filter"),
    ("a = 007", 6, "'0' does not belong to the expression before it; a whole number has no leading zero"),
    ("a = 1 b", 7, "'b' does not belong to the expression before it; names and texts are joined by operators"),
    ("a = 1)", 6, "')' does not belong to the expression before it"),
    ("a = 1 -- no end of line", 7, "'-' does not belong to the expression before it; there is no arithmetic"),
    ("(" * 33 + "a", 33, "nested deeper than the limit of 32; use AND, OR and IN side by side"),
    ("a" + " = a" * 40, 127, "nested deeper than the limit of 32"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "character", "reason"), REFUSED_BY_ROCKETMQ + REFUSED_BY_US)
def test_a_refusal_says_where_and_what_to_write(text: str, character: int, reason: str) -> None:
    with pytest.raises(Sql92Error) as caught:
        parse(text)

    assert str(caught.value).startswith(f"SQL92 filter, character {character}: {reason}")
    assert character - 1 == caught.value.at
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize(("text", "character", "reason"), REFUSED_BY_ROCKETMQ)
def test_what_rocketmq_refuses_is_refused_in_its_dialect_too(text: str, character: int, reason: str) -> None:
    with pytest.raises(Sql92Error):
        parse(text, is_strict=False)


@pytest.mark.parametrize(
    ("text", "properties", "expected"),
    [
        ("a LIKE 'x%'", {"a": "xy"}, False),
        ("a+1 = 2", {"a": "1"}, False),
        ("a = 007", {"a": "0"}, True),
        ("a = 1 b !", {"a": "1"}, True),
        ("a = 1) OR TRUE", {"a": "2"}, False),
        ("a = 'x' 'y", {"a": "x"}, None),
    ],
)
def test_what_stands_behind_is_ignored_in_rocketmqs_dialect(
    text: str, properties: dict[str, str], expected: bool | None
) -> None:
    """Only the next token is read, so a character without meaning is an error only there."""
    if expected is None:
        with pytest.raises(Sql92Error):
            parse(text, is_strict=False)
    else:
        assert expected is parse(text, is_strict=False).evaluate(properties)
