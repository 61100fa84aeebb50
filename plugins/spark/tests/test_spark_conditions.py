"""Conditions that the source obeys: what is understood, what is left to Spark, and that the rows are the right ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from framework_spark.conditions import EVERYWHERE, Condition, Where, parts_of
from framework_spark.counting import Sums
from framework_spark.datasource import RocketMQ
from framework_spark.offsets import Range
from framework_spark.options import source_options
from framework_spark.schema import SCHEMA
from framework_spark.source import Piece, StreamReader
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import LongType, StructField, StructType

from framework import Message
from framework.errors import ConfigurationError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, thread_box

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("queueId = 3", Where(queues=(Condition("queueid", "=", (3,)),))),
        ("3 < QUEUEID", Where(queues=(Condition("queueid", ">", (3,)),))),
        ("(`broker` in ('a', 'b'))", Where(queues=(Condition("broker", "in", ("a", "b")),))),
        ("offset between 5 and 20", Where(begin=5, end=21)),
        ("offset > 4 AND offset <= 20 and 10 != queueid", Where((Condition("queueid", "!=", (10,)),), 5, 21)),
        ("offset >= -7", EVERYWHERE),
        ("tag = 'red'", Where(tags=frozenset({"red"}))),
        ("tag in ('red', 'blue') and tag == 'blue'", Where(tags=frozenset({"blue"}))),
        ("storeTime >= '2026-01-31T12:00:00Z'", Where(since_ms=AT_MS)),
        ("storeTime < timestamp'2026-01-31 13:00:00.0004+01:00'", Where(until_ms=AT_MS + 1)),
        ("storeTime > '2026-01-31 12:00:00'", Where(since_ms=AT_MS + 1)),
        ("storeTime <= '2026-01-31'", Where(until_ms=AT_MS - 12 * 3_600_000 + 1)),
        ("storeTime = '2026-01-31 12:00:00.0005'", Where(since_ms=AT_MS + 1, until_ms=AT_MS + 1)),
    ],
)
def test_what_is_understood(text: str, where: Where) -> None:
    parts = parts_of(text, ZoneInfo("UTC"))

    assert ([], where) == (parts.rest, parts.where)
    assert where == parts_of(" AND ".join(parts.obeyed)).where, "as an option, where no session's zone is known"


@pytest.mark.parametrize(
    "text",
    [
        "queueId = 3 or offset = 5", "not offset = 5", "offset not between 1 and 2", "offset = queueId",
        "offset + 1 > 5",
        "queueId = '3'", "queueId = 3.0", "queueId = 3L", "offset in (1, null)", "offset in (1, 2)", "offset <> 3",
        "topic = 'it''s'", "topic = 'a\\'b'", 'topic = "orders"', "topic = x'00'", "topic like 'a%'", "topic <=> 'a'",
        "tag <> 'red'", "tag = 'a||b'", "tag = ' red'", "tag = ''", "storeTime > '2026-1-5'", "storeTime > 'yesterday'",
        "storeTime > current_timestamp()", "date(storeTime) = '2026-01-31'", "properties['a'] = 'b'", "length(key) > 3",
        "case when true and false then true else false end", "t.offset = 3", "offset = (select max(offset) from t)",
        "offset is null", "offset = 3 -- and so on", "queueId = 1 /* and */ and offset = 2", "offset =", "= 5",
        "offset in ()",
        "offset in (1,)", "(offset = 3) = (queueId = 1)",
        "tag = timestamp'2026-01-31 12:00:00'", "topic in (timestamp'2026-01-31')", "offset = \u0663",
        "offset < 9999999999999999999", f"offset < {'9' * 5000}", "tag = '${x}'", "offset > 5 and ${x}",
        "and offset = 1", "offset = 1 and", "offset = 1 and and queueId = 2", "offset = 1 and queueId = 2)",
        "queueId = 1 ; and offset = 3", "offset > 5and queueId", "queueId = 1\u00a0", "tag = '\x01red'",
        "storeTime > '2026-01-31 24:00:00'", "storeTime > '2026-01-31 12:00:00+19:00'", "storeTime > '0000-01-01'",
        "storeTime > '9999-12-31 23:59:59-17:00'", "storeTime > timestamp'0001-01-01 00:00:00+17:00'",
    ],
)  # fmt: skip
def test_whatever_is_not_understood_for_sure_is_spark_s_and_whole(text: str) -> None:
    parts = parts_of(text, ZoneInfo("UTC"))

    assert (EVERYWHERE, []) == (parts.where, parts.obeyed)
    assert [text] == parts.rest


def test_it_is_split_at_the_outermost_ands_alone() -> None:
    parts = parts_of(
        "offset between 1 and 9 and (tag = 'a' or tag = 'b' and key = 'c') AND body not between x'00' and x'11'"
        " and exists(array(1), x -> x = 1 and true) and topic = 'a and b'"
    )

    assert Where((Condition("topic", "=", ("a and b",)),), 1, 10) == parts.where
    assert [
        "(tag = 'a' or tag = 'b' and key = 'c')",
        "body not between x'00' and x'11'",
        "exists(array(1), x -> x = 1 and true)",
    ] == parts.rest
    assert {"tag", "key", "body"} <= parts.rest_names


@pytest.mark.parametrize(
    ("rest", "may_name_all"),
    [
        ("hash(*) > 0", True), ("hash(key, *) > 0", True), ("size(array(t.*)) = 1", True), ("${x}", True),
        ("identifier('key') = 'a'", True), ('"key" = 1', True), ("offset * 2 = 4", False), ("key = 'a*'", False),
    ],
)  # fmt: skip
def test_a_rest_may_mean_columns_that_it_does_not_name(rest: str, may_name_all: bool) -> None:
    assert may_name_all == parts_of(f"{rest} and 1 = 1").rest_may_name_all


def test_a_name_in_quotes_is_what_stands_in_them() -> None:
    assert {"a`b", "a b", "x"} == parts_of("`a``b` = 'x' and `A b` = 'y' and x = 'z' or true").rest_names - {
        "or",
        "and",
        "true",
    }
    assert EVERYWHERE == parts_of("```offset` = 1").where


def test_a_time_without_a_zone_is_the_session_s_and_spark_s_where_it_is_twice() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    assert Where(since_ms=AT_MS) == parts_of("storeTime >= '2026-01-31 13:00:00'", berlin).where
    assert EVERYWHERE == parts_of("storeTime >= '2026-01-31 13:00:00'", None).where
    assert EVERYWHERE == parts_of("storeTime >= '2026-10-25 02:30:00'", berlin).where, "when clocks are set back"


def test_a_stream_obeys_what_chooses_queues_and_tags() -> None:
    parts = parts_of("queueId = 1 and tag = 'a' and offset > 5", streaming=True)

    assert (Where((Condition("queueid", "=", (1,)),), tags=frozenset("a")), ["offset > 5"]) == (parts.where, parts.rest)


def test_tags_are_spark_s_where_something_else_filters_by_tag() -> None:
    assert ["tag = 'a'"] == parts_of("tag = 'a' and offset = 1", tags=False).rest


NEEDED = {"nameServers": "a:1", "topic": "orders"}


@pytest.mark.parametrize(
    ("options", "streaming", "said"),
    [
        ({"where": "offset > 5 and key = 'a'"}, False, "option where: the source cannot obey \"key = 'a'\""),
        ({"where": "offset > 5"}, True, "option where: the source cannot obey 'offset > 5'"),
        ({"where": "storeTime > '2026-01-31 12:00:00'"}, False, "times with their zone"),
        ({"where": "tag = 'a'", "tags": "b"}, False, "option where: it names tags, and so does tags or sql"),
        ({"pushdown": "true"}, False, "option pushdown=true: Spark 4.3 gives wrong rows"),
        ({"propertyColumns": "a, A"}, False, "a name is there twice"),
    ],
)
def test_what_cannot_work_as_an_option_is_refused(options: dict[str, str], streaming: bool, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        source_options({**NEEDED, **options}, streaming=streaming)

    assert said in str(refused.value)


# Against a broker

COUNT = 40


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[ThreadBox, list[dict[str, Any]]]]:
    """Forty messages in several queues of two brokers, of three tags and none; to brokers, two tags are one."""
    with thread_box(brokers=2) as box:
        for at in range(COUNT):
            tags = ("red", "BB", "Aa", None)[at % 4]
            message = Message("told", f"m{at}", tags=tags or "", properties={"color": str(at % 3)})
            box.send("told", [message], queue=at % 3, broker=("broker-a", "broker-b")[at % 2])
        yield box, rows_of(box, SCHEMA)


def rows_of(box: ThreadBox, schema: StructType | None, **options: str) -> list[dict[str, Any]]:
    source = RocketMQ(CaseInsensitiveDict({"nameservers": box.address, "topic": "told", **options}))
    reader = source.reader(schema or source.schema())
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["broker"], row["queueId"], row["offset"])


_NUMBERS = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])
_CHECKS: dict[str, Any] = {
    "=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@st.composite
def _conditions(draw: st.DrawFn) -> tuple[str, Any]:
    """A text, and the same as Python over a row; store times are said as steps between the first and the last."""
    kind = draw(st.sampled_from(["queue", "in", "broker", "topic", "offset", "between", "tag", "time", "times"]))
    number, other, sign = draw(st.integers(-1, 9)), draw(st.integers(-1, 9)), draw(_NUMBERS)
    if kind == "queue":
        return f"queueId {sign} {number}", lambda row, _: _CHECKS[sign](row["queueId"], number)
    if kind == "in":
        numbers = draw(st.lists(st.integers(-1, 3), min_size=1, max_size=3))
        return f"queueId in ({', '.join(map(str, numbers))})", lambda row, _: row["queueId"] in numbers
    if kind == "topic":
        topic = draw(st.sampled_from(["told", "other"]))
        return f"'{topic}' {sign} topic", lambda row, _: _CHECKS[sign](topic, row["topic"])
    if kind == "times":
        first, last = draw(st.integers(-1, COUNT)), draw(st.integers(-1, COUNT))
        return f"storeTime between 'STEP{first}' and 'STEP{last}'", (
            lambda row, times: times(first) <= row["storeTime"] <= times(last)
        )
    if kind == "broker":
        name = draw(st.sampled_from(["broker-a", "broker-b", "broker-c"]))
        return f"broker {sign} '{name}'", lambda row, _: _CHECKS[sign](row["broker"], name)
    if kind == "offset":
        sign = draw(st.sampled_from(["=", "<", "<=", ">", ">="]))
        return f"{number} {sign} offset", lambda row, _: _CHECKS[sign](number, row["offset"])
    if kind == "between":
        return f"offset between {number} and {other}", lambda row, _: number <= row["offset"] <= other
    if kind == "tag":
        tags = draw(st.lists(st.sampled_from(["red", "BB", "white"]), min_size=1, max_size=3))
        listed = ", ".join(f"'{tag}'" for tag in tags)
        return f"tag in ({listed})", lambda row, _: row["tag"] in tags
    sign, step = draw(st.sampled_from(["=", "<", "<=", ">", ">="])), draw(st.integers(-1, COUNT))
    return f"storeTime {sign} 'STEP{step}'", lambda row, times: _CHECKS[sign](row["storeTime"], times(step))


@given(drawn=st.lists(_conditions(), min_size=1, max_size=4), columns=st.sampled_from(["all", "offset"]))
def test_rows_are_those_without_it_that_hold(
    told: tuple[ThreadBox, list[dict[str, Any]]], drawn: list[tuple[str, Any]], columns: str
) -> None:
    box, everything = told
    stored = sorted(row["storeTime"] for row in everything)

    def times(step: int) -> datetime:
        at: datetime = stored[min(max(step, 0), COUNT - 1)]
        return at + timedelta(milliseconds=(step >= COUNT) - (step < 0))

    text = " AND ".join(part for part, _ in drawn)
    for step in range(-1, COUNT + 1):
        text = text.replace(f"'STEP{step}'", f"'{times(step).isoformat()}'")
    wanted = [row for row in everything if all(check(row, times) for _, check in drawn)]
    schema = SCHEMA if columns == "all" else StructType([StructField("offset", LongType())])

    found = rows_of(box, schema, where=text)

    if columns == "all":
        assert sorted(wanted, key=_key) == sorted(found, key=_key), text
    else:
        assert sorted(row["offset"] for row in wanted) == sorted(row["offset"] for row in found), text


def test_only_the_messages_that_are_wanted_are_pulled(box: ThreadBox, topic: str) -> None:
    """Sixteen of a hundred, in one piece of one queue, by one pull; no more come from the broker."""
    for queue in range(4):
        box.send(topic, [Message(topic, f"m{at:02}") for at in range(100)], queue=queue, broker="broker-a")
    with Reader(ReaderSettings((box.address,))) as reader:
        first = next(iter(reader.read(MessageQueue(topic, "broker-a", 3), 0, 1))).stored_ms[0]
    since = datetime.fromtimestamp(first / 1000, UTC).isoformat()
    options = {"nameservers": box.address, "topic": topic}
    options["where"] = f"queueId = 3 and offset between 5 and 20 and storeTime >= '{since}' and broker = 'broker-a'"
    counted: dict[str, dict[str, int]] = {}

    class Total:
        def add(self, more: dict[str, dict[str, int]]) -> None:
            Sums().addInPlace(counted, more)

    source = RocketMQ(CaseInsensitiveDict(options))
    source.totals = Total()
    reader_ = source.reader(SCHEMA)

    (piece,) = reader_.partitions()

    assert (3, 5, 21) == (piece.piece.queue.number, piece.piece.begin, piece.piece.end)  # type: ignore[attr-defined]  # ours
    assert list(range(5, 21)) == [
        row["offset"] for batch in reader_.read(piece) for row in batch.to_pylist()
    ]  # fmt: skip
    wanted = counted[""]
    whole = Range(piece.piece.queue, 0, 100)  # type: ignore[attr-defined]  # ours
    assert 100 == sum(len(batch) for batch in reader_.read(Piece(whole)))
    assert (1, 0) == (wanted["pulls"], wanted["empty_pulls"])
    assert 16 * (counted[""]["bytes"] - wanted["bytes"]) == 100 * wanted["bytes"]


def test_properties_may_be_columns_of_their_own(told: tuple[ThreadBox, list[dict[str, Any]]]) -> None:
    box, everything = told

    found = rows_of(box, None, properties="false", propertyColumns="color, nothing", where="queueId = 1")

    wanted = [row for row in everything if row["queueId"] == 1]
    assert [dict(row["properties"])["color"] for row in wanted] == [row["color"] for row in found]
    assert {None} == {row["nothing"] for row in found}
    assert all("properties" not in row for row in found)


def test_a_property_cannot_be_named_as_a_column_is(box: ThreadBox) -> None:
    with pytest.raises(ConfigurationError, match="option propertyColumns: 'Body' is a column already"):
        RocketMQ(CaseInsensitiveDict({"topic": "t", "propertyColumns": "Body"})).schema()


def test_a_queue_that_is_left_out_now_stays_where_its_checkpoint_is(
    box: ThreadBox, topic: str, stream: Callable[..., StreamReader]
) -> None:
    box.send(topic, [Message(topic, b"x")], queue=0, broker="broker-a")
    box.send(topic, [Message(topic, b"x")], queue=1, broker="broker-a")
    reader = stream(topic=topic, where="queueId = 1")

    begin = reader.initialOffset()
    assert {"1"} == set(begin[topic]["broker-a"])
    begin[topic]["broker-a"]["0"] = 0  # an earlier run of the query read it
    end = reader.latestOffset(begin, reader.getDefaultReadLimit())
    assert {"0": 0, "1": 1} == end[topic]["broker-a"]
    assert 1 == len(reader.partitions(begin, end))
