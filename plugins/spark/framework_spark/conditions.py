"""Conditions: a text as Spark's `where` takes it, split at its ANDs into what a reading obeys by itself and the rest.

Obeyed are comparisons of one of our columns with literals: queues that cannot match are not read, offsets and store
times become ranges, brokers filter tags. Whatever is not understood for certain is the rest, which Spark filters. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from framework.model.queue import MessageQueue
from framework.model.subscription import BLANKS
from framework_spark.offsets import Assigned

Token: TypeAlias = tuple[str, str]
"""Its kind (name, number, text, sign) and itself."""

_TOKENS = re.compile(
    r"""
    [ \t\n\r\f\v]+
    | (?P<comment>--|/\*)
    | (?P<text>'[^'\\]*'(?!'))
    | (?P<strange>['"\\;])
    | (?P<number>[0-9]{1,18}(?![\w.]))
    | (?P<name>[^\W\d]\w*|`(?:[^`]|``)+`)
    | (?P<odd>\w+)
    | (?P<sign><=>|<>|!=|<=|>=|==|[=<>(),\-]|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
_VARIABLE = "${"
"""Spark puts a setting's value in its place, before it reads the text."""
_TURNED_ROUND = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?( ?(Z|UTC|[+-](0[0-9]|1[0-7]):[0-5][0-9]))?)?"
)
_TEXTS, _NUMBERS = frozenset({"topic", "broker", "tag"}), frozenset({"queueid", "offset"})
_INSTANT = "storetime"
_KNOWN = _TEXTS | _NUMBERS | {_INSTANT}
FOREVER = 1 << 62


class Stamp(NamedTuple):
    """A literal as `timestamp'...'`, which is no text."""

    text: str


Literal: TypeAlias = int | str | Stamp


class Condition(NamedTuple):
    """One comparison: a column in lower case, a sign of `_SIGNS` or "in", and the literals."""

    column: str
    sign: str
    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        if self.sign == "in":
            return value in self.values
        return _SIGNS[self.sign](value, self.values[0])


@dataclass(frozen=True, slots=True)
class Where:
    """What a reading obeys. Picklable."""

    queues: tuple[Condition, ...] = ()
    """Of topic, broker and queue number: exact."""
    begin: int = 0
    end: int = FOREVER
    """Offsets of each queue, the end not among them."""
    since_ms: int | None = None
    until_ms: int | None = None
    """Store times, the end not among them."""
    tags: frozenset[str] | None = None
    """A message has one of these; None where nothing is said."""
    assigned: Assigned = frozenset()
    """The queues that are read; empty: all."""

    def admits(self, queue: MessageQueue) -> bool:
        """Whether any of the queue's messages can be wanted."""
        values = {"topic": queue.topic, "broker": queue.broker, "queueid": queue.number}
        if self.assigned and not {(queue.topic, broker, queue.number) for broker in (queue.broker, "")} & self.assigned:
            return False
        return self.tags != frozenset() and all(each.holds(values[each.column]) for each in self.queues)

    @property
    def is_timed(self) -> bool:
        return self.since_ms is not None or self.until_ms is not None


EVERYWHERE = Where()


@dataclass(slots=True)
class Parts:
    """A condition in parts; together they are the whole of it."""

    where: Where = EVERYWHERE
    obeyed: list[str] = field(default_factory=list)
    """Their texts, store times with the zone that they were meant in."""
    rest: list[str] = field(default_factory=list)
    """Texts for Spark."""
    rest_names: set[str] = field(default_factory=set)
    """Every name in the rest, in lower case: some of them are columns."""
    rest_may_name_all: bool = False
    """Whether the rest may mean columns that it does not name, as `hash(*)` does."""


def parts_of(text: str, zone: tzinfo | None = None, *, streaming: bool = False, tags: bool = True) -> Parts:
    """Split a condition. Times without a zone are meant in `zone`; without one they are for Spark. A stream obeys what
    chooses queues and tags. `tags=False`: something else filters by tag already.
    """
    found = Parts()
    for part, tokens in _conjuncts(text):
        condition = _condition(tokens, zone)
        is_ours = condition is not None and _is_obeyed(condition, streaming=streaming, tags=tags)
        where = _narrowed(found.where, condition) if condition is not None and is_ours else None
        if where is None or condition is None:
            found.rest.append(part)
            found.rest_names.update(_name(value) for kind, value in tokens if kind == "name")
            found.rest_may_name_all |= _may_name_all(part, tokens)
        else:
            found.where = where
            found.obeyed.append(_text_of(condition))
    return found


# Splitting


def _conjuncts(text: str) -> Iterator[tuple[str, list[Token]]]:
    """The parts between the outermost ANDs, with their tokens; the whole where that is not sure."""
    tokens = [(match.lastgroup or "", match.group(), match.start(), match.end()) for match in _TOKENS.finditer(text)]
    tokens = [each for each in tokens if each[0]]  # white space has no kind
    plain = [(kind, value) for kind, value, _, _ in tokens]
    words = [value.upper() if kind == "name" else value for kind, value in plain]
    cuts = [] if _VARIABLE in text or any(kind in {"comment", "strange"} for kind, _ in plain) else _cuts(words)
    bounds = [-1, *cuts, len(tokens)]
    if any(after - before < 2 for before, after in pairwise(bounds)):
        bounds = [-1, len(tokens)]  # an AND with nothing beside it, which is a mistake
    for before, after in pairwise(bounds):
        part = tokens[before + 1 : after]
        if part:
            yield text[part[0][2] : part[-1][3]], plain[before + 1 : after]


def _cuts(words: Sequence[str]) -> list[int]:
    """Where the outermost ANDs are; none where that is not sure."""
    cuts: list[int] = []
    depth = betweens = 0
    for at, word in enumerate(words):
        depth += (word in {"(", "["}) - (word in {")", "]"})
        if depth < 0:
            return []
        if depth:
            continue
        if word in {"OR", "CASE"}:  # an AND binds tighter than the one, and may stand in the other
            return []
        if word == "BETWEEN":
            betweens += 1
        elif word == "AND" and betweens:
            betweens -= 1
        elif word == "AND":
            cuts.append(at)
    return [] if depth else cuts


def _may_name_all(part: str, tokens: Sequence[Token]) -> bool:
    """Whether it may mean columns by something else than a name: a star that multiplies nothing, a name in quotes."""
    stars = (at for at, token in enumerate(tokens) if token == ("sign", "*"))
    return (
        _VARIABLE in part
        or any(kind == "strange" or (kind == "name" and value.upper() == "IDENTIFIER") for kind, value in tokens)
        or any(not at or tokens[at - 1][1] in {"(", ",", "."} for at in stars)
    )


# Understanding


def _condition(tokens: Sequence[Token], zone: tzinfo | None) -> Condition | None:
    """None for whatever is not surely one of the few shapes that are understood."""
    if any(_VARIABLE in value for _, value in tokens):
        return None
    while len(tokens) > 2 and tokens[0][1] == "(" and tokens[-1][1] == ")" and _is_one_pair(tokens):
        tokens = tokens[1:-1]
    words = [value.upper() if kind == "name" else value for kind, value in tokens]
    column = _column(tokens[0]) if tokens else None
    if column is None:
        literal, rest = _literal(tokens)
        column = _column(rest[1]) if len(rest) == 2 else None
        if column is None or literal is None or rest[0][1] not in _SIGNS:
            return None
        sign = rest[0][1]
        return _checked(column, _TURNED_ROUND.get(sign, sign), [literal], zone)
    if words[1:2] == ["BETWEEN"] and "AND" in words:
        middle = words.index("AND")
        low, high = _only_literal(tokens[2:middle]), _only_literal(tokens[middle + 1 :])
        return None if low is None or high is None else _checked(column, "between", [low, high], zone)
    if words[1:3] == ["IN", "("] and words[-1] == ")":
        return _checked(column, "in", _list(tokens[3:-1]), zone)
    if len(tokens) > 2 and tokens[1][1] in _SIGNS:
        return _checked(column, tokens[1][1], [_only_literal(tokens[2:])], zone)
    return None


def _is_one_pair(tokens: Sequence[Token]) -> bool:
    depth = 0
    for at, (_, value) in enumerate(tokens):
        depth += (value == "(") - (value == ")")
        if not depth:
            return at == len(tokens) - 1
    return False


def _name(value: str) -> str:
    """In lower case, and without its quotes, in which one is written as two."""
    return (value[1:-1].replace("``", "`") if value.startswith("`") else value).lower()


def _column(token: Token) -> str | None:
    name = _name(token[1])
    return name if token[0] == "name" and name in _KNOWN else None


def _literal(tokens: Sequence[Token]) -> tuple[Literal | None, Sequence[Token]]:
    """The literal that they begin with, and what is behind it."""
    match tokens:
        case [("number", digits), *_]:
            return int(digits), tokens[1:]
        case [("sign", "-"), ("number", digits), *_]:
            return -int(digits), tokens[2:]
        case [("text", quoted), *_]:
            return quoted[1:-1], tokens[1:]
        case [("name", name), ("text", quoted), *_] if name.upper() == "TIMESTAMP":
            return Stamp(quoted[1:-1]), tokens[2:]
    return None, tokens


def _only_literal(tokens: Sequence[Token]) -> Literal | None:
    literal, rest = _literal(tokens)
    return None if rest else literal


def _list(tokens: Sequence[Token]) -> list[Literal | None]:
    values: list[Literal | None] = []
    rest = tokens
    while rest:
        literal, rest = _literal(rest)
        values.append(literal)
        if rest and rest[0][1] != ",":
            return [None]
        if rest and not (rest := rest[1:]):
            return [None]  # a comma is last
    return values


def _checked(column: str, sign: str, literals: Sequence[Literal | None], zone: tzinfo | None) -> Condition | None:
    """With values of the column's kind; Spark would cast others, by rules of its own."""
    values: list[Any] = []
    for literal in literals:
        if (column in _NUMBERS and isinstance(literal, int)) or (column in _TEXTS and isinstance(literal, str)):
            values.append(literal)
        elif column == _INSTANT and isinstance(literal, str | Stamp) and (when := _instant(literal, zone)) is not None:
            values.append(when)
        else:
            return None
    return Condition(column, sign, tuple(values)) if values else None


def _instant(literal: str | Stamp, zone: tzinfo | None) -> datetime | None:
    text = literal.text if isinstance(literal, Stamp) else literal
    if not _TIME.fullmatch(text):
        return None
    try:
        when = datetime.fromisoformat(re.sub(r" ?(Z|UTC)$", "+00:00", text).replace(" +", "+").replace(" -", "-"))
        if when.tzinfo is None:
            if zone is None:
                return None
            when = when.replace(tzinfo=zone)
            # Where clocks are set an hour is twice there or never, and Spark decides what is meant.
            if when.utcoffset() != when.replace(fold=1).utcoffset():
                return None
        return when.astimezone(UTC)
    except (ValueError, OverflowError):  # no such day; before the first year or after the last
        return None


# Obeying


def _is_obeyed(condition: Condition, *, streaming: bool, tags: bool) -> bool:
    column, sign, values = condition
    if column == "tag":
        return tags and sign in {"=", "==", "in"} and all(map(_may_be_asked_for, values))
    if column in {"offset", _INSTANT}:
        return not streaming and sign not in {"!=", "<>", "in"}
    return True


def _narrowed(where: Where, condition: Condition) -> Where:
    """What holds where the condition does, too."""
    column, sign, values = condition
    if column == "tag":
        wanted = frozenset(values)
        return replace(where, tags=wanted if where.tags is None else where.tags & wanted)
    if column not in {"offset", _INSTANT}:
        queues = [Condition(column, ">=", values[:1]), Condition(column, "<=", values[1:])]
        return replace(where, queues=(*where.queues, *(queues if sign == "between" else [condition])))
    if column == "offset":
        least, behind = _range(sign, values, values)
        return replace(where, begin=max(where.begin, least), end=min(where.end, behind))
    # Brokers store whole milliseconds.
    least, behind = _range(sign, [_ms(each, up=True) for each in values], [_ms(each, up=False) for each in values])
    since = None if least == 0 and where.since_ms is None else max(least, where.since_ms or 0)
    until = min(behind, FOREVER if where.until_ms is None else where.until_ms)
    return replace(where, since_ms=since, until_ms=None if until == FOREVER else until)


def _may_be_asked_for(tag: str) -> bool:
    """Whether a broker understands it as one tag."""
    return tag not in {"", "*"} and tag.strip(BLANKS) == tag and "|" not in tag


def _range(sign: str, up: Sequence[int], down: Sequence[int]) -> tuple[int, int]:
    """The first number that is meant, and the one behind the last. `up` and `down` are the literals made whole."""
    match sign:
        case "=" | "==":
            return up[0], down[0] + 1
        case "<":
            return 0, up[0]
        case "<=":
            return 0, down[0] + 1
        case ">":
            return down[0] + 1, FOREVER
        case ">=":
            return up[0], FOREVER
    return up[0], down[1] + 1  # between


def _ms(when: datetime, *, up: bool) -> int:
    whole, rest = divmod(when - datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1))
    return whole + (up and bool(rest))


def _text_of(condition: Condition) -> str:
    """As the source's option may have it: without anything that a session decides."""
    column, sign, values = condition
    texts = [_quoted(each) if isinstance(each, str | datetime) else str(each) for each in values]
    if sign == "between":
        return f"{column} between {texts[0]} and {texts[1]}"
    return f"{column} in ({', '.join(texts)})" if sign == "in" else f"{column} {sign} {texts[0]}"


def _quoted(value: str | datetime) -> str:
    return f"'{value.isoformat() if isinstance(value, datetime) else value}'"
