"""Two runs of a backfill in one folder: the lock, a holder that is dead, one that was taken for dead, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from framework_spark.folder import Folder
from framework_spark.runs import begun

from framework.errors import ConfigurationError, StoreError
from tests.patience import PATIENCE_S
from tests.reading.backfilling import Command
from tests.reading.spark import spark_python
from tests.reading.threads import ThreadBox, texts

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]
RUN = "_backfill/run-00001"
SMALL = (
    "spark.driver.bindAddress", "spark.driver.host", "spark.driver.extraJavaOptions", "spark.sql.codegen.factoryMode",
    "spark.sql.codegen.wholeStage", "spark.python.authenticate.socketTimeout", "spark.ui.enabled",
)  # fmt: skip
"""Of the tests' session, for one in a process of its own."""


@pytest.fixture
def backfill(spark: Any, box: ThreadBox, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(spark, box.address, monkeypatch)


def whole(count: int) -> set[tuple[str, int]]:
    return {(f"m{n}", n) for n in range(count)}


def begins_after(piece: int, work: Callable[[], object]) -> Callable[[int, int], None]:
    """Progress that does it once so many pieces are done."""
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == piece + 1:
            work()

    return progress


def test_the_second_of_two_at_once_is_refused_and_told_of_the_first(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    box.send(topic, texts(topic, 4), queue=0)
    errors: list[str] = []

    def another() -> None:
        for name, error in ((topic, StoreError), (f"{topic}-other", ConfigurationError)):
            with pytest.raises(error) as caught:
                backfill(name, str(tmp_path))
            errors.append(str(caught.value))

    backfill.progress = begins_after(1, another)
    assert 0 == backfill(topic, str(tmp_path), "--piece", "2")

    assert f"another backfill is at work there: run 1 (process {os.getpid()} on " in errors[0]
    assert "wait for its end. If you know that it is dead, add --take-over 1" in errors[0]
    assert "with another topic" in errors[1]
    assert whole(4) == backfill.rows(tmp_path)


def test_of_many_that_begin_at_once_one_is_at_work(spark: Any, tmp_path: Path) -> None:
    begin, end, won, lost = threading.Barrier(8), threading.Barrier(8), [], []

    def try_it() -> None:
        folder = Folder(spark, str(tmp_path))
        begin.wait(PATIENCE_S)
        try:
            with begun(folder, None):
                won.append(1)
                end.wait(PATIENCE_S)
        except StoreError as error:
            lost.append(str(error))
            end.wait(PATIENCE_S)

    threads = [threading.Thread(target=try_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (1, 7) == (len(won), len(lost))
    assert all("another backfill is at work there: run 1 (" in text for text in lost)


def dead_process() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(PATIENCE_S)
    return ended.pid


def test_a_run_whose_process_is_gone_is_in_nobody_s_way(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    box.send(topic, texts(topic, 4), queue=0)
    assert 0 == backfill(topic, str(tmp_path / "first"))
    holder = json.loads((tmp_path / "first" / RUN).read_text())
    pid = dead_process()
    target = tmp_path / "second"
    (target / "_backfill" / "writing-00001" / "00000").mkdir(parents=True)
    (target / RUN).write_text(json.dumps({**holder, "process": pid}))

    assert 0 == backfill(topic, str(target))
    assert f"backfill: going on after run 1 (process {pid} on " in capsys.readouterr().err
    assert whole(4) == backfill.rows(target)
    assert [] == [*(target / "_backfill").glob("writing-*")]


@pytest.mark.parametrize("text", [
    '{"host": "far-away", "machine": "another", "process": 4711, "since": "2026-01-01T00:00:00Z"}',
    '{"host": "mac", "machine": "", "process": 4711}', "", "[]", "{", '{"machine": 1, "process": "x"}',
])  # fmt: skip
def test_a_run_that_cannot_be_seen_from_here_is_taken_over_by_its_number(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path, text: str
) -> None:
    box.send(topic, texts(topic, 1), queue=0)
    (tmp_path / "_backfill").mkdir()
    (tmp_path / RUN).write_text(text)

    for wrong in ((), ("--take-over", "2"), ("--take-over", "0")):
        with pytest.raises(StoreError, match=r"run 1 \(.*\); wait for its end. If you know .* add --take-over 1"):
            backfill(topic, str(tmp_path), *wrong)
    assert ["run-00001"] == [path.name for path in (tmp_path / "_backfill").iterdir()]
    assert 0 == backfill(topic, str(tmp_path), "--take-over", "1")
    assert whole(1) == backfill.rows(tmp_path)


@pytest.mark.parametrize("by", [(), ("--by", "day")])
def test_a_run_that_was_taken_for_dead_ends_and_no_row_is_there_twice(
    backfill: Command, box: ThreadBox, topic: str, tmp_path: Path, by: tuple[str, ...]
) -> None:
    """Both write the same piece: the first one has it written aside, and may make nothing visible any more."""
    box.send(topic, texts(topic, 6), queue=0)
    words = (topic, str(tmp_path), "--piece", "2", *by)
    seen: list[int] = []

    def another() -> None:
        backfill.progress = lambda done, total: seen.append(done)
        assert 0 == backfill(*words, "--take-over", "1")

    backfill.progress = begins_after(1, another)
    with pytest.raises(StoreError, match="run 2 has taken this backfill over and writes what is left, so run 1 ends"):
        backfill(*words)
    assert [2, 4, 6] == seen
    assert whole(6) == backfill.rows(tmp_path)


def test_what_a_dead_run_had_written_aside_is_not_read(
    spark: Any, backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    """A reader of an unfinished backfill finds whole pieces alone."""
    box.send(topic, texts(topic, 4), queue=0)
    found: list[set[tuple[str, int]]] = []

    def look() -> None:
        aside = tmp_path / "_backfill" / "writing-00001" / "00001"
        spark.read.parquet(str(tmp_path)).write.parquet(str(aside.with_name("copy")))
        found.append(backfill.rows(tmp_path))

    backfill.progress = begins_after(1, look)
    assert 0 == backfill(topic, str(tmp_path), "--piece", "2")
    assert [whole(2)] == found
    assert whole(4) == backfill.rows(tmp_path)


def test_sigterm_ends_a_run_as_an_error_does(backfill: Command, box: ThreadBox, topic: str, tmp_path: Path) -> None:
    box.send(topic, texts(topic, 4), queue=0)
    before = signal.getsignal(signal.SIGTERM)
    backfill.progress = begins_after(1, lambda: os.kill(os.getpid(), signal.SIGTERM))

    with pytest.raises(SystemExit, match="143"):
        backfill(topic, str(tmp_path), "--piece", "2")
    assert before == signal.getsignal(signal.SIGTERM)
    assert (tmp_path / f"{RUN}.ended").exists()
    assert whole(2) == backfill.rows(tmp_path)


@pytest.mark.slow  # two starts of Spark; runs that were killed are played in this file without one
def test_a_killed_command_goes_on_where_it_was(
    spark: Any, backfill: Command, box: ThreadBox, topic: str, tmp_path: Path
) -> None:
    """SIGKILL while a piece is being written: the same command again, from another folder, in a process of its own."""
    box.send(topic, texts(topic, 90), queue=0)
    target = tmp_path / "orders"
    settings = tmp_path / "app.yaml"
    small = {name: spark.conf.get(name) for name in SMALL}
    own = {"cluster": {"name_servers": [box.address]}, "plugins": {"settings": {"spark": {"conf": small}}}}
    settings.write_text(json.dumps(own))
    words = ["spark", "backfill", "--topic", topic, "--into", target.as_uri(), "--piece", "10", "-c", str(settings)]
    environment = {**os.environ, "PYSPARK_PYTHON": str(spark_python(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, "-m", "framework", *words], stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as killed:
        assert killed.stderr is not None
        try:
            said = next((line for line in killed.stderr if line.startswith("backfill: 20 of 90")), "")
        finally:
            killed.kill()

    assert said
    assert 0 == backfill(topic, str(target))
    assert whole(90) == backfill.rows(target)
    names = {path.name for path in (target / "_backfill").iterdir()}
    assert {"run-00001", "run-00002", "run-00002.ended"} == {name for name in names if name.startswith("run-")}
