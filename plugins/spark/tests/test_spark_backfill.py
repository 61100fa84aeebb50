"""`framework-app spark backfill`: its pieces, where it writes, what it refuses, and a run that ends and goes on.

The lock of two runs is in `test_spark_backfill_runs.py`.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from framework_spark import command
from framework_spark.backfill import Plan
from framework_spark.sessions import SessionsOfThisProcess

from framework.errors import ConfigurationError, FrameworkError, StoreError
from framework.net.real_clock import RealClock
from framework.settings.schema import ClusterSettings
from tests.reading.backfilling import Command, options
from tests.reading.threads import ThreadBox, texts, thread_box

PLAN = "_backfill.json"


def given(*words: str) -> dict[str, str]:
    return command.given(options("--topic", "orders", "--into", "x", *words), ClusterSettings())


@pytest.fixture
def backfill(spark: Any, box: ThreadBox, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(spark, box.address, monkeypatch)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 50])
def test_pieces_are_everything_once(pieces: int) -> None:
    begins = {"t": {"a": {"0": 5, "1": 0}, "b": {"0": 7}}}
    plan = Plan({}, begins, {"t": {"a": {"0": 25, "1": 3}, "b": {"0": 7}}}, pieces)
    for broker, number in (("a", "0"), ("a", "1"), ("b", "0")):
        bounds = [tuple(each["t"][broker][number] for each in plan.bounds(piece)) for piece in range(pieces)]
        assert bounds[0][0] == begins["t"][broker][number]
        assert bounds[-1][1] == plan.ends["t"][broker][number]
        assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert 23 == plan.rows
    plan.done = list(range(pieces))
    assert 23 == plan.rows_done


def test_words_become_options_of_the_source() -> None:
    assert {
        "nameServers": "127.0.0.1:9876", "topic": "orders", "startingTimestamp": "2026-01-01T00:00:00Z",
        "endingOffsets": "latest", "tags": "a || b",
    } == given("--from", "2026-01-01T00:00:00Z", "--option", "tags=a || b")  # fmt: skip
    with pytest.raises(ConfigurationError, match="--from latest: there is nothing to read"):
        given("--from", "latest")
    with pytest.raises(ConfigurationError, match="--option tags: write NAME=VALUE"):
        given("--option", "tags")


@pytest.mark.timeout(600)
def test_a_url_is_where_the_data_and_the_plan_lie(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard of a full target was passed from another folder, and another topic took the place of 10 rows."""
    box.send(topic, texts(topic, 10), queue=0)
    box.send(f"{topic}-other", texts(f"{topic}-other", 5), queue=0)
    target, one, two = tmp_path / "lake" / "orders", tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()

    monkeypatch.chdir(one)
    assert 0 == backfill(topic, f"file://{target}", "--option", "requestTimeout=20s")
    monkeypatch.chdir(two)
    for spelled in (
        f"file://{target}",
        f"file:{target}/",
        str(target),
        "../lake/x/..//orders/",
        f"file://{target}///",
    ):
        with pytest.raises(
            ConfigurationError, match=rf"file:{target} holds a backfill of topic '{topic}', with another "
        ):
            backfill(f"{topic}-other", spelled)
        assert 0 == backfill(topic, spelled)

    assert ([], []) == ([*one.iterdir()], [*two.iterdir()]), "nothing was written where the command was typed"
    given = json.loads((target / PLAN).read_text())["given"]
    assert topic == given["topic"]
    assert "requestTimeout" not in given, "which messages, and not how they are read"
    assert {(f"m{n}", n) for n in range(10)} == backfill.rows(target)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", [(), ("--by", "day")])
def test_a_file_system_that_is_none_of_this_machine(
    spark: Any,
    backfill: Command,
    box: ThreadBox,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: tuple[str, ...],
) -> None:
    """viewfs, which Hadoop has: its place is known to Spark alone. Two runs at once, two topics, an interruption."""
    box.send(topic, texts(topic, 6), queue=0)
    (tmp_path / "typed").mkdir()
    (tmp_path / "lake").mkdir()
    monkeypatch.chdir(tmp_path / "typed")
    spark.conf.set(f"fs.viewfs.mounttable.{topic}.link./lake", f"file://{tmp_path}/lake")
    target, errors = f"viewfs://{topic}/lake/orders", []

    def another(done: int, total: int) -> None:
        if done:
            with pytest.raises(StoreError) as caught:
                backfill(topic, target, *by)
            errors.append(str(caught.value))
            raise KeyboardInterrupt

    backfill.progress = another
    with pytest.raises(KeyboardInterrupt):
        backfill(topic, target, "--piece", "2", *by)
    backfill.progress = lambda done, total: None
    with pytest.raises(ConfigurationError, match=f"{target} holds a backfill of topic '{topic}', with another "):
        backfill("other", f"{target}/", *by)
    with pytest.raises(ConfigurationError, match=f"{target}/in is inside {target}, which holds another backfill"):
        backfill(topic, f"{target}/in")
    assert 0 == backfill(topic, target, *by)

    assert [f"{target}: another backfill is at work there: run 1 ("] == [text[: text.index("(") + 1] for text in errors]
    assert {(f"m{n}", n) for n in range(6)} == backfill.rows(target)
    assert [] == [*(tmp_path / "typed").iterdir()]
    assert (tmp_path / "lake" / "orders" / PLAN).exists()


@pytest.mark.timeout(600)
def test_a_relative_path_begins_where_the_command_is_typed(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM's own folder may be another one, as that of the fixture is."""
    box.send(topic, texts(topic, 3), queue=0)
    monkeypatch.chdir(tmp_path)

    assert 0 == backfill(topic, "./orders/")
    assert {("m0", 0), ("m1", 1), ("m2", 2)} == backfill.rows(tmp_path / "orders")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--to", "2026-01-01T00:00:00Z"), r"with another --to \('latest', and now '2026-01-01T00:00:00Z'\); repeat"),
        (("--option", "tags=a"), r"with another tags \(None, and now 'a'\); repeat that command"),
        (("--option", "damaged=column"), r"with another damaged \(None, and now 'column'\)"),
        (("--by", "day"), r"with another --by \(None, and now 'day'\)"),
        (("--option", "nameServers=127.0.0.1:9"), r"with another nameservers \("),
    ],
)
def test_another_command_s_backfill_is_refused(
    backfill: Command, tmp_path: Path, change: tuple[str, ...], said: str
) -> None:
    (tmp_path / PLAN).write_text(json.dumps(plan_of(backfill.given("orders"))))

    with pytest.raises(ConfigurationError, match=said):
        backfill("orders", str(tmp_path), *change)
    assert [PLAN] == [path.name for path in tmp_path.iterdir()], "nothing was changed there"


def test_how_messages_are_read_may_change(backfill: Command, tmp_path: Path) -> None:
    """After an outage one waits longer, and after a loss one goes on without."""
    (tmp_path / PLAN).write_text(json.dumps(plan_of(backfill.given("orders"), done=[0])))

    assert 0 == backfill("orders", str(tmp_path), "--option", "brokerWait=10m", "--option", "failOnDataLoss=false")
    assert 0 == backfill("orders", str(tmp_path), "--option", "damaged=skip", "--option", "FETCHRETRIES=9")


def plan_of(given: dict[str, str], **other: Any) -> dict[str, Any]:
    offsets = {"orders": {"a": {"0": 0}}}
    return {"given": given, "begins": offsets, "ends": {"orders": {"a": {"0": 5}}}, "pieces": 1, "done": [], **other}


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"given": {}}', '{"given": {}, "begins": {}, "ends": {}, "pieces": 0}', "PAR1\x00"],
)
def test_a_plan_that_is_none_is_refused(backfill: Command, tmp_path: Path, text: str) -> None:
    (tmp_path / PLAN).write_text(text)
    with pytest.raises(ConfigurationError, match=f"file:{tmp_path}: {PLAN} is no plan that this version can read"):
        backfill("orders", str(tmp_path))
    assert text == (tmp_path / PLAN).read_text()


@pytest.mark.parametrize(
    "other",
    [
        {"given": 7}, {"pieces": "7"}, {"done": [4]}, {"done": ["0"]}, {"done": 3},
        {"begins": {"orders": {"a": {"0": 9}}}}, {"ends": {}}, {"ends": {"orders": {"a": {"x": 3}}}},
        {"begins": {"orders": {"a": {"0": "5"}}}}, {"more": 1},
    ],
)  # fmt: skip
def test_a_plan_that_contradicts_itself_is_refused(backfill: Command, tmp_path: Path, other: dict[str, Any]) -> None:
    (tmp_path / PLAN).write_text(json.dumps({**plan_of(backfill.given("orders")), **other}))
    with pytest.raises(ConfigurationError, match=f"{PLAN} is no plan that this version can read"):
        backfill("orders", str(tmp_path))


@pytest.mark.parametrize(
    "name", ["part-00000.parquet", "_delta_log", "_temporary", ".hidden", "piece=00000", "_backfill/done-00000.0"]
)
def test_data_without_a_plan_are_left_alone(backfill: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        ConfigurationError, match=f"file:{tmp_path} holds '{name}', and no backfill; write into a new fo"
    ):
        backfill("orders", f"file://{tmp_path}")
    assert [name] == [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]


def test_data_that_were_put_beside_a_backfill_are_named(backfill: Command, tmp_path: Path) -> None:
    (tmp_path / PLAN).write_text(json.dumps(plan_of(backfill.given("orders"), done=[0])))
    (tmp_path / "_SUCCESS").write_text("")
    assert 0 == backfill("orders", str(tmp_path))

    (tmp_path / "more.parquet").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"holds 'more.parquet' beside its backfill.*; move that away"):
        backfill("orders", str(tmp_path))


def test_a_folder_inside_a_backfill_s_is_refused(backfill: Command, tmp_path: Path) -> None:
    """Also by way of a link, and where the outer one has only just begun."""
    outer = tmp_path / "outer"
    outer.mkdir()
    (outer / PLAN).write_text(json.dumps(plan_of({})))
    (tmp_path / "link").symlink_to(outer)
    (tmp_path / "begun" / "_backfill").mkdir(parents=True)
    for inner, above in (("outer/a/b", "outer"), ("link/a", "outer"), ("begun/piece=00000", "begun")):
        with pytest.raises(
            ConfigurationError, match=f"is inside file:{tmp_path}/{above}, which holds another backfill"
        ):
            backfill("orders", str(tmp_path / inner))
        assert not (tmp_path / inner).exists()


def test_a_target_that_is_a_file_or_cannot_be_made_is_named(backfill: Command, box: ThreadBox, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigurationError, match=f"file:{tmp_path}/file is a file; name a folder"):
        backfill("orders", f"file:{tmp_path}/file")
    with pytest.raises(StoreError, match=rf"file:{tmp_path}/file/in: _backfill/run-00001 cannot be written: "):
        backfill("orders", f"file:{tmp_path}/file/in")
    assert "mine" == (tmp_path / "file").read_text()
    (tmp_path / "odd" / PLAN).mkdir(parents=True)
    with pytest.raises(StoreError, match=rf"file:{tmp_path}/odd: {PLAN} cannot be read: "):
        backfill("orders", f"file:{tmp_path}/odd")


@pytest.mark.parametrize(
    ("into", "said"),
    [
        ("nosuch://lake/orders", r'No FileSystem for scheme "nosuch".*spark.jars.packages'),
        ("s3a://lake/orders", "S3AFileSystem not found.*hadoop-aws"),
        ("file://host/orders", "Wrong FS: file://host/orders"),
        ("", "Can not create a Path from an empty string"),
    ],
)
def test_a_url_that_spark_has_no_file_system_for_is_refused(
    backfill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, into: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=f"--into '{into}': Spark has no file system for it: .*{said}"):
        backfill("orders", into)
    assert [] == [*tmp_path.iterdir()]


def test_a_full_disk_is_said_and_leaves_no_half_plan(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    box.send(topic, texts(topic, 3), queue=0)
    (tmp_path / f"{PLAN}.new").symlink_to("/dev/full")

    with pytest.raises(
        StoreError, match=f"file:{tmp_path}: {PLAN} cannot be written: .*No space left on device; what is"
    ):
        backfill(topic, str(tmp_path))
    (tmp_path / f"{PLAN}.new").unlink()  # now there is room
    assert 0 == backfill(topic, str(tmp_path))
    assert {("m0", 0), ("m1", 1), ("m2", 2)} == backfill.rows(tmp_path)


@pytest.mark.timeout(600)
def test_days_are_those_of_storing_in_utc(
    spark: Any, topic: str, tmp_path: Path, zones: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the zone of the session and of the machine is; a piece may have several days."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    milliseconds = int(midnight.timestamp() * 1000)
    today, next_day, last = (f"{midnight + timedelta(days=day):%Y-%m-%d}" for day in (-1, 0, 1))
    with thread_box() as box:  # of its own, since a broker's store times never go back
        for number, since in enumerate((-1, 0, 86_399_999, 86_400_000)):
            with pytest.MonkeyPatch.context() as clock:
                clock.setattr(RealClock, "now_ms", lambda _, at=milliseconds + since: at)
                box.send(topic, texts(topic, 1, start=number), queue=0)
        backfill = Command(spark, box.address, monkeypatch)
        assert 0 == backfill(topic, str(tmp_path), "--by", "day", "--piece", "2")
        assert 0 == backfill(topic, str(tmp_path), "--by", "day"), "it is done"

    places = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("[dp]*=*/*=*"))
    assert [f"day={today}/piece=00000", f"day={next_day}/piece=00000", f"day={next_day}/piece=00001",
            f"day={last}/piece=00001"] == places  # fmt: skip
    found = spark.read.parquet(str(tmp_path)).selectExpr("offset", "cast(day as string)", "piece").collect()
    assert [(0, today, 0), (1, next_day, 0), (2, next_day, 1), (3, last, 1)] == sorted(tuple(row) for row in found)


@pytest.fixture
def zones(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    spark.conf.set("spark.sql.session.timeZone", before)
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("name", "by"), [("piece", ()), ("PIECE", ()), ("day", ("--by", "day"))])
def test_a_property_cannot_have_the_column_of_a_folder(
    backfill: Command, tmp_path: Path, name: str, by: tuple[str, ...]
) -> None:
    """Spark takes the folder's value for the property's, and says nothing."""
    with pytest.raises(ConfigurationError, match=f"option propertyColumns: '{name.lower()}' is the name of a folder's"):
        backfill("orders", str(tmp_path), "--option", f"propertyColumns={name}", *by)


@pytest.mark.timeout(1200)
def test_what_was_interrupted_goes_on_and_each_offset_is_there_once(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    """Also where a plan of before has its first piece inside, and a kill left another one torn."""
    box.send(topic, texts(topic, 30), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 30, start=30), queue=0, broker="broker-b")
    seen: list[int] = []

    def interrupted(done: int, total: int) -> None:
        seen.append(done)
        if done:
            raise KeyboardInterrupt

    backfill.progress = interrupted
    with pytest.raises(KeyboardInterrupt):
        backfill(topic, str(tmp_path), "--piece", "20")
    plan = json.loads((tmp_path / PLAN).read_text())
    (tmp_path / PLAN).write_text(json.dumps({**plan, "done": [0]}))
    [note] = (tmp_path / "_backfill").glob("done-*")
    note.unlink()
    (tmp_path / "piece=00001").mkdir()
    (tmp_path / "piece=00001" / "torn.parquet").write_bytes(b"PAR1")
    box.send(topic, texts(topic, 5, start=90), queue=0, broker="broker-a")
    backfill.progress = lambda done, total: seen.append(done)
    assert 0 == backfill(topic, str(tmp_path), "--piece", "7")

    assert [0, 20, 20, 40, 60] == seen, "what is read, and in how many pieces, was settled then"
    assert {(f"m{n}", n % 30) for n in range(60)} == backfill.rows(tmp_path)


@pytest.mark.timeout(600)
def test_a_piece_that_fails_is_named_and_what_is_done_stays(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    box.send(topic, texts(topic, 4), queue=0)
    (tmp_path / PLAN).write_text(json.dumps(plan_of(
        backfill.given(topic), begins={topic: {"broker-a": {"0": 0}}}, ends={topic: {"broker-a": {"0": 8}}}, pieces=2,
    )))  # fmt: skip

    with pytest.raises(
        FrameworkError, match=rf"file:{tmp_path}: piece 2 of 2 was not written: DataLost: .*what is done "
    ):
        backfill(topic, str(tmp_path))
    assert {(f"m{n}", n) for n in range(4)} == backfill.rows(tmp_path)
    with pytest.raises(FrameworkError, match=r"piece 2 of 2 was not written"):
        backfill(topic, str(tmp_path))
    assert 0 == backfill(topic, str(tmp_path), "--option", "failOnDataLoss=false")
    assert {(f"m{n}", n) for n in range(4)} == backfill.rows(tmp_path)


@pytest.mark.timeout(600)
def test_a_done_piece_whose_folder_is_gone_is_named(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    box.send(topic, texts(topic, 4), queue=0)
    assert 0 == backfill(topic, str(tmp_path), "--piece", "2")
    (tmp_path / "piece=00001").rename(tmp_path / "_away")

    with pytest.raises(
        StoreError, match=r"piece=00001 was done, and has 0 of its 1 folders; restore them, or remove _ba"
    ):
        backfill(topic, str(tmp_path))
    (tmp_path / "_backfill" / "done-00001.1").unlink()
    assert 0 == backfill(topic, str(tmp_path))
    assert {(f"m{n}", n) for n in range(4)} == backfill.rows(tmp_path)


def test_what_is_wrong_with_the_options_is_said_before_spark_is_started(
    backfill: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(self: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(SessionsOfThisProcess, "make", make)
    with pytest.raises(ConfigurationError, match="yesterday"):
        backfill("orders", "x", "--from", "yesterday")
