"""The example pipeline: revenue per minute and article, with repeats, late orders and broken ones."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from example_app.revenue import revenue
from example_app.revenue_plot import Total, batches, collected, drawn, totals
from framework import Message
from framework.reading import Reader, ReaderSettings
from framework.settings.sources import load
from tests.lacking import lacking
from tests.patience import wait_until
from tests.ports import free_port
from tests.reading.spark import spark_python
from tests.reading.threads import ThreadBox, thread_box

ROOT = Path(__file__).parents[3]


def orders(count: int, start: int = 0) -> list[Message]:
    """Every tenth one has no price."""
    found = []
    for number in range(start, start + count):
        order: dict[str, Any] = {"number": f"n{number}", "article": ("tea", "cup")[number % 2], "cents": 100 + number}
        if number % 10 == 9:
            del order["cents"]
        found.append(Message("orders", json.dumps(order), keys=order["number"]))
    return found


def expected(count: int) -> dict[str, tuple[int, int]]:
    """Article -> cents, orders; all minutes together, since a test may run across two."""
    cents, number = Counter[str](), Counter[str]()
    for message in orders(count):
        order = json.loads(message.body)
        if "cents" in order:
            cents[order["article"]] += order["cents"]
            number[order["article"]] += 1
    return {article: (cents[article], number[article]) for article in cents}


def sent_totals(reader: Reader, topic: str = "revenue") -> dict[str, tuple[int, int]]:
    """By the last total of each key."""
    rows = [
        (stored, json.loads(body or b""))
        for queue in reader.queues(topic)
        for columns in reader.read(queue, 0, reader.max_offset(queue))
        for stored, body in zip(columns.stored_ms, columns.bodies, strict=True)
    ]
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for _, row in sorted(rows, key=lambda each: (each[0], each[1]["orders"])):
        last[row["minute"], row["article"]] = row
    cents, number = Counter[str](), Counter[str]()
    for row in last.values():
        cents[row["article"]] += row["cents"]
        number[row["article"]] += row["orders"]
    return {article: (cents[article], number[article]) for article in cents}


def table_totals(spark: Any, table: Path) -> dict[str, tuple[int, int]]:
    frame = spark.read.parquet(f"{table}/revenue").groupBy("article").agg({"cents": "sum", "orders": "sum"})
    return {row.article: (row["sum(cents)"], row["sum(orders)"]) for row in frame.collect()}


@pytest.mark.timeout(1200)
def test_repeats_count_once_and_late_orders_correct_their_minute(
    spark: Any, box: ThreadBox, reader: Reader, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.revenue.table", str(tmp_path / "table"))
    session.conf.set("spark.framework.nameServers", box.address)
    begins = {queue: reader.max_offset(queue) for queue in reader.queues("orders")}

    def handled(end: int) -> list[int]:
        """The offsets that are buried of queue 3, up to `end`."""
        frame = (
            session.read.format("rocketmq")
            .options(nameServers=box.address, topic="orders")
            .load()
            .where(f"broker = 'broker-b' and queueId = 3 and offset < {end}")
        )
        return sorted(row.offset for row in revenue.spec.function(frame).collect())  # type: ignore[attr-defined]

    assert not any(begins.get(queue, 0) for queue in begins if queue.broker == "broker-b" and queue.number == 3)
    box.send("orders", orders(30), queue=3, broker="broker-b")
    assert [9, 19] == handled(25)
    assert [9, 19, 29] == handled(30), "all again, with five more for a minute that was written"

    assert expected(30) == table_totals(session, tmp_path / "table")
    assert expected(30) == sent_totals(reader)
    rows = collected(totals(session, box.address))
    picture = drawn(rows)
    assert {article: cents for article, (cents, _) in expected(30).items()} == {
        article: sum(row.cents for row in rows if row.article == article) for article in ("tea", "cup")
    }
    assert len(rows) == picture.count("<title>") == picture.count("</title>")
    assert "orders that waited" not in picture

    now_ms = max(row.storeTime.timestamp() for row in stored_of(session, box)) * 1000 + 1
    checkpoint = tmp_path / "checkpoint"
    for number, (end, at_ms, took_ms) in enumerate([(10, now_ms, 2000), (30, now_ms + 5000, 1500)]):
        source = json.dumps({"orders": {"broker-b": {"3": end}}, "(last) orders": {}})
        about = json.dumps({"batchTimestampMs": int(at_ms)})
        for name, text in (("offsets", f"v1\n{about}\n{source}"), ("commits", "v1\n{}")):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            (checkpoint / name / str(number)).write_text(text)
        ended_s = (int(at_ms) + took_ms) / 1000
        os.utime(checkpoint / "commits" / str(number), (ended_s, ended_s))
    ran = batches(session, box.address, checkpoint)
    assert [(0, 2000, 30), (5, 1500, 20)] == [(round(each.at_s), round(each.took_ms), each.waiting) for each in ran]
    assert {"orders that waited", "ms per micro-batch"} <= set(re.findall(r">([^<>]+)</text>", drawn(rows, ran)))


def stored_of(session: Any, box: ThreadBox) -> list[Any]:
    frame = session.read.format("rocketmq").options(nameServers=box.address, topic="orders").load()
    found: list[Any] = frame.select("storeTime").collect()
    return found


def test_minutes_of_two_days_are_two_bars() -> None:
    days = [Total(f"2026-01-0{day} 10:00", "tea", 100 * day) for day in (1, 2)]

    picture = drawn(days)
    assert 2 == picture.count("<title>")
    assert 2 == picture.count(">10:00<")
    assert 2 == len(set(re.findall(r'<rect x="([\d.]+)"', picture)))


def test_the_example_names_its_cluster_once() -> None:
    """With `--name-server` its totals went on to the address that the file had a second time."""
    there = load(ROOT / "example_app" / "revenue.yaml", environment={})

    assert ("127.0.0.1:9876",) == there.cluster.name_servers
    assert "9876" not in str(there.plugins.settings)


def test_the_order_desk_with_revenue_is_right() -> None:
    """`make demo SPARK=1`, as far as it goes without a JVM."""
    words = [sys.executable, "-m", "framework", "check", "example_app"]
    words += ["--overlay", "example_app/with-revenue.yaml"]

    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)

    assert 0 == done.returncode, done.stderr
    assert "3 consumers" in done.stdout


@contextmanager
def _program(words: list[str], log: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as out:
        process = subprocess.Popen(words, env=environment, stdout=out, stderr=out, text=True, cwd=ROOT)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(300)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _cluster(stack: ExitStack, folder: Path, environment: dict[str, str]) -> str:
    """A master and two workers from the pip package, on loopback."""
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    given = environment | {"SPARK_HOME": home, "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "512m"}
    deploy, program = "org.apache.spark.deploy", str(Path(home, "bin", "spark-class"))
    log = folder / "master.log"
    words = [program, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    stack.enter_context(_program(words, log, given))
    wait_until(lambda: "I have been elected leader" in log.read_text(), "a master", 240)
    for number in range(2):
        words = [program, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
        words += ["--webui-port", "0", "--work-dir", str(folder / f"worker-{number}"), master]
        stack.enter_context(_program(words, folder / f"worker-{number}.log", given))
    wait_until(lambda: log.read_text().count("Registering worker") == 2, "both workers", 240)
    return master


def _server(stack: ExitStack, folder: Path, environment: dict[str, str]) -> str:
    """A server of Spark Connect from the pip package, on loopback; it finds our source by itself."""
    import pyspark

    home = str(Path(pyspark.__file__).parent)
    port = free_port()
    given = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    words = [str(Path(home, "bin", "spark-submit")), "--master", "local[2,4]", "--driver-memory", "1g"]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "connect"]
    words += [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    log = folder / "connect.log"
    stack.enter_context(_program(words, log, environment | {"SPARK_HOME": home}))
    wait_until(lambda: "Spark Connect server started" in log.read_text(), "a server of Spark Connect", 240)
    return f"sc://127.0.0.1:{port}"


def _who_pulled(master: str, name_server: str, environment: dict[str, str]) -> dict[int, set[str]]:
    """Queue -> the executors (their folders) that read from it, of one batch read of `orders` on the cluster."""
    words = [sys.executable, str(Path(__file__).with_name("who_pulled.py")), master, name_server]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT, check=False, timeout=600)
    assert 0 == done.returncode, done.stderr[-3000:]
    found: dict[int, set[str]] = {}
    for queue, place in json.loads(done.stdout.splitlines()[-1]):
        found.setdefault(queue, set()).add(place)
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("where", ["local", "standalone", "connect"])
def test_the_same_files_run_here_and_on_a_cluster(tmp_path: Path, where: str) -> None:
    """`framework-app run --config example_app/revenue.yaml`, with another master and other places alone.

    `make slow PART=same_files`, which installs what it needs. On the cluster, both executors pull. Over Spark Connect
    the example runs in `mode: driver`.
    """
    if where != "local" and (find_spec("grpc") is None or find_spec("pandas") is None):
        lacking('it needs pip install -e "plugins/spark[connect]"')
    environment = {**os.environ, "PYSPARK_PYTHON": str(spark_python(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment["PYTHONPATH"] = str(ROOT)
    with ExitStack() as stack:
        box = stack.enter_context(thread_box())
        reader = stack.enter_context(Reader(ReaderSettings((box.address,))))
        for number in range(4):
            box.send("orders", orders(50, start=50 * number), queue=number)
        own: dict[str, Any] = {"master": "local[2,4]"}
        group: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint")}
        consumer: dict[str, Any] = {}
        if where == "standalone":
            own["master"] = _cluster(stack, tmp_path, environment)
            pulled = _who_pulled(own["master"], box.address, environment)
            assert {0, 1, 2, 3} == set(pulled)
            assert 2 == len(set().union(*pulled.values())), pulled
            assert all(len(each) == 1 for each in pulled.values()), pulled
        elif where == "connect":
            own = {"master": "", "remote": _server(stack, tmp_path, environment)}
            group, consumer = {"mode": "driver", "checkpoint": ""}, {"concurrency": 1}
        own |= {
            "conf": {
                "spark.revenue.table": str(tmp_path / "table"),
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executor.memory": "600m",
                "spark.ui.enabled": "false",
            },
            "groups": {"revenue": group},
        }
        overlay = tmp_path / "own.yaml"
        overlay.write_text(json.dumps({"consumers": {"revenue": consumer}, "plugins": {"settings": {"spark": own}}}))
        words = [sys.executable, "-m", "framework", "run", "--config", "example_app/revenue.yaml"]
        words += ["--overlay", str(overlay), "--name-server", box.address]
        log = tmp_path / "app.log"
        with _program(words, log, environment) as app:
            wait_until(lambda: app.poll() is not None or sent_totals(reader) == expected(200), "the totals", 600)
            assert app.poll() is None, log.read_text()[-3000:]
        assert 0 == app.returncode, log.read_text()[-3000:]
        for queue in reader.queues("orders"):
            end = reader.max_offset(queue)
            assert end == (reader.committed("revenue", queue) or 0), f"{queue}: drained, and mirrored"
