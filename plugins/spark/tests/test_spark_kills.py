"""Whoever is killed: exactly once into Parquet and into a topic, and no loss for handlers in both modes.

`make slow PART=killed_at_random`: 20 kills for the table and 20 for the topic, in four parts of five each; KILLS=n for
another number a part, SEED=n for other moments. With the topic every other round of kills comes amid the commits of a
micro-batch: random moments seldom hit these, and did not find a sink that forgot what it had decided. `make slow
PART=outage_of_the_only_broker`: some 27 minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from framework import Message, Producer
from framework.errors import FrameworkError
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.patience import wait_until
from tests.ports import free_port
from tests.reading.spark import spark_python
from tests.reading.victims import ROOT, Program, ended_after, kill

KILLS = int(os.environ.get("KILLS", "5"))
PARTS = 4
SEED = int(os.environ.get("SEED", "1"))
BURST = 400
CATCH_UP_S = 900
PATHS = os.pathsep.join((str(ROOT), str(Path(__file__).parent)))
OUTAGES_S = (5, 12, 60)
PLACES = {
    "plain": {"planning": "end 1", "planning of a batch": "head 1", "reading": "pull 1", "writing": "pull 3"},
    "sink": {"writing": "copy 3", "writing, decided": "decision 3"},
    "source": {
        "planning": "end 1", "planning of a batch": "head 1", "reading": "pull 1", "handling": "handler",
        "writing": "copy 1",
    },
    "driver": {"reading": "pull 1", "handling": "handler", "writing": "copy 1"},
}  # fmt: skip
"""Mode -> where it is -> as what the broker is asked for it dies (`aimed_box.py`), or that a handler is in a batch."""

Offsets = dict[MessageQueue, int]


class Field:
    """A broker in a process of its own, and one topic in it."""

    def __init__(self, stack: ExitStack, folder: Path, topic: str, group: str) -> None:
        self.topic, self._group = topic, group
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        words = [sys.executable, "-m", "framework", "broker", "--data", str(folder / "box"), "--port", str(port)]
        self._aim, self.held = folder / "aim", folder / "held"
        environment = {"AIM": str(self._aim), "PYTHONPATH": PATHS}
        self.broker = Program([*words, "--plugin", "aimed_box:Aimed"], folder / "broker.log", environment)
        self.broker.start()
        stack.enter_context(ended_after(self.broker))
        wait_until(self._answers, "the broker", 120)
        self._sent = 0

    def _answers(self) -> bool:
        try:
            with Reader(ReaderSettings((self.address,), retries=0)) as reader:
                reader.topics()
        except FrameworkError:
            return False
        return True

    def send(self) -> None:
        """A burst; what is unsure is sent again, so the broker, and not this, says what there is."""

        async def run() -> None:
            async with Producer(name_servers=[self.address]) as producer:
                for at in range(self._sent, self._sent + BURST, 50):
                    messages = [Message(self.topic, f"m{n}", keys=str(n)) for n in range(at, at + 50)]
                    for _ in range(600):
                        try:
                            await producer.send_batch(messages)
                            break
                        except FrameworkError:
                            await asyncio.sleep(0.5)
                    else:
                        raise AssertionError("a burst could not be sent in 5 minutes")

        asyncio.run(run())
        self._sent += BURST

    @contextmanager
    def outage(self, at: str) -> Iterator[None]:
        """Send a burst, and have the broker die there and nowhere else; it starts again at the end."""
        aim, inside = self.held if at == "handler" else self._aim, self.held.with_suffix(".inside")
        aim.with_suffix(".new").write_text(at)
        aim.with_suffix(".new").rename(aim)
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.send)
            if at == "handler":
                wait_until(inside.exists, "a batch in the handler", CATCH_UP_S)
                self.broker.kill()
                aim.unlink()
                inside.unlink()
            wait_until(lambda: self.broker.process.poll() is not None, f"the broker's end at {at}", CATCH_UP_S)
            hit = not aim.exists()
            yield
            self.broker.start()
            sending.result()
        assert hit, f"the broker ended before {at}"

    @contextmanager
    def standstill(self, at: str) -> Iterator[None]:
        """Send a burst, and have the broker answer nobody from there on until the end."""
        held = self._aim.with_suffix(".held")
        self._aim.with_suffix(".new").write_text(f"{at} held")
        self._aim.with_suffix(".new").rename(self._aim)
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.send)
            wait_until(held.exists, f"the broker's standstill at {at}", CATCH_UP_S)
            yield
            held.unlink()
            sending.result()

    def ends(self) -> Offsets:
        """Of each queue with messages."""
        with Reader(ReaderSettings((self.address,))) as reader:
            found = {queue: reader.max_offset(queue) for queue in reader.queues(self.topic)}
        return {queue: end for queue, end in found.items() if end}

    def committed(self) -> Offsets:
        """Where the group is; nothing while the broker is away."""
        try:
            with Reader(ReaderSettings((self.address,))) as reader:
                return {queue: reader.committed(self._group, queue) or 0 for queue in reader.queues(self.topic)}
        except FrameworkError:
            return {}

    def is_level(self) -> bool:
        try:
            ends = self.ends()
        except FrameworkError:
            return False
        committed = self.committed()
        return bool(ends) and all(committed.get(queue) == end for queue, end in ends.items())

    def stored(self, topic: str) -> dict[tuple[str, int, int], bytes | None]:
        with Reader(ReaderSettings((self.address,))) as reader:
            return {
                (queue.broker, queue.number, offset): body
                for queue in reader.queues(topic)
                for columns in reader.read(queue, 0, reader.max_offset(queue))
                for offset, body in zip(columns.offsets, columns.bodies, strict=True)
            }


def at_checkpoint(checkpoint: Path) -> Offsets:
    """The end of the newest batch that is done; nothing before the first."""
    done = [int(each.name) for each in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return {}
    (line,) = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[2:]
    return {
        MessageQueue(topic, broker, int(number)): offset
        for topic, brokers in json.loads(line).items()
        if not topic.startswith("(")
        for broker, queues in brokers.items()
        for number, offset in queues.items()
    }


def killed(
    field: Field,
    driver: Program,
    kinds: Sequence[str],
    look: Callable[[], None],
    more: Callable[[], str],
    part: int = 0,
    *,
    amid: str = "",
) -> Counter[str]:
    """Send and kill in turns, at moments of the seed's choice; `more` is the last word of a driver's next start. With
    `amid`, of every other round at such a request of the broker's.
    """
    chance, done = random.Random(SEED * PARTS + part), Counter[str]()

    def end(kind: str) -> None:
        if kind in {"driver", "broker"}:
            program = driver if kind == "driver" else field.broker
            program.kill()
            program.start(*([more()] if kind == "driver" else []))
        else:
            there = wait_until(lambda: driver.victims(kind), f"a {kind}: {driver.said()}", CATCH_UP_S)
            kill(chance.choice(there))

    for number in range(part * KILLS, (part + 1) * KILLS):
        wait_until(lambda: sum(field.committed().values()) > 0, "a first batch", CATCH_UP_S)
        kind = kinds[number % len(kinds)]
        if amid and number // len(kinds) % 2 == 0:
            with field.standstill(f"{amid} {chance.randint(2, BURST // 2)}"):
                end(kind)
        else:
            field.send()
            until = time.monotonic() + chance.uniform(0, 3)
            while time.monotonic() < until:  # the moment is what the seed chooses; nothing is asserted of it
                look()
                time.sleep(0.05)
            end(kind)
        done[kind] += 1
        print(f"kill {number + 1}: {kind}", file=sys.stderr, flush=True)  # noqa: T201  # of a long test
    return done


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_each_offset_is_in_the_table_once_whoever_is_killed_at_random(tmp_path: Path, part: int) -> None:
    """And what the brokers know of the group is never ahead of the checkpoint."""
    import pyarrow.parquet as pq

    table, checkpoint, sessions, looks = tmp_path / "table", tmp_path / "checkpoint", Counter[str](), Counter[str]()

    def next_session() -> str:
        sessions["all"] += 1
        return str(tmp_path / f"session-{sessions['all']}")

    def look() -> None:
        committed = field.committed()  # first the copy: the checkpoint may go on in between
        there = at_checkpoint(checkpoint)
        ahead = {queue: offset for queue, offset in committed.items() if offset > there.get(queue, 0)}
        assert not ahead, f"ahead of the checkpoint {there}"
        looks["all"] += 1

    with ExitStack() as stack:
        field = Field(stack, tmp_path, "copied", "copying")
        field.send()
        words = [sys.executable, str(Path(__file__).with_name("copying.py")), field.address, field.topic]
        driver = Program([*words, str(table), str(checkpoint)], tmp_path / "driver.log", {"PYTHONPATH": str(ROOT)})
        driver.start(next_session())
        stack.enter_context(ended_after(driver))
        done = killed(field, driver, ("worker", "source", "driver", "broker"), look, next_session, part)
        wait_until(field.is_level, "the group's offsets at the ends", CATCH_UP_S)
        look()
        expected = field.stored(field.topic)

    rows: Any = pq.read_table(_committed(table), columns=["broker", "queueId", "offset", "body"])
    found = [((row["broker"], row["queueId"], row["offset"]), row["body"]) for row in rows.to_pylist()]
    said = f"{len(found)} rows of {len(expected)} messages after {dict(done)}, {looks['all']} looks at the checkpoint"
    print(said, file=sys.stderr)  # noqa: T201  # the figure
    assert len(expected) == len(found), said
    assert expected == dict(found)
    assert len(expected) >= (KILLS + 1) * BURST


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_each_message_is_in_the_other_topic_once_whoever_is_killed_at_random(tmp_path: Path, part: int) -> None:
    """By the transactional sink, at any moment and amid its commits. Whenever one looks, no message is there twice."""
    target, starts, looks = "copies", Counter[str](), Counter[str]()

    def next_session() -> str:
        starts["all"] += 1
        return str(tmp_path / f"session-{starts['all']}")

    def look() -> None:
        try:
            times = Counter(field.stored(target).values())
        except FrameworkError:
            return  # the broker is away
        assert not {body: count for body, count in times.items() if count > 1}
        looks["all"] += 1

    with ExitStack() as stack:
        field = Field(stack, tmp_path, "copied", "copying")
        field.send()
        words = [sys.executable, str(Path(__file__).with_name("copying.py")), field.address, field.topic]
        words += [f"topic:{target}", str(tmp_path / "checkpoint")]
        driver = Program(words, tmp_path / "driver.log", {"PYTHONPATH": str(ROOT)})
        driver.start(next_session())
        stack.enter_context(ended_after(driver))
        kinds = ("driver", "broker", "worker", "source")
        done = killed(field, driver, kinds, look, next_session, part, amid="decision")
        wait_until(field.is_level, "the group's offsets at the ends", CATCH_UP_S)
        expected = [f"{broker}/{number}/{offset}".encode() for broker, number, offset in field.stored(field.topic)]
        found = list(field.stored(target).values())

    said = f"{len(found)} copies of {len(expected)} messages after {dict(done)}, {looks['all']} looks at the topic"
    print(said, file=sys.stderr)  # noqa: T201  # the figure
    assert Counter(expected) == Counter(found), said
    assert len(expected) >= (KILLS + 1) * BURST


def _committed(table: Path) -> list[str]:
    """The files that Spark's log of the table names; those of a batch that was killed lie beside them, uncounted."""
    names: dict[str, None] = {}
    for path in sorted((table / "_spark_metadata").glob("[0-9]*")):
        for line in path.read_text().splitlines()[1:]:
            names[json.loads(line)["path"].removeprefix("file://")] = None
    return list(names)


def started_app(stack: ExitStack, tmp_path: Path, field: Field, mode: str, **consumer: Any) -> tuple[Program, Path]:
    """`framework-app run` with the handler of `killed_app.py`, and its settings."""
    seen, settings = tmp_path / "seen", tmp_path / "app.yaml"
    seen.mkdir()
    group = {"mode": "source", "checkpoint": str(tmp_path / "checkpoint")} if mode == "source" else {}
    spark = {
        "master": "local[2,3]",
        "conf": {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
            "spark.python.authenticate.socketTimeout": "120s",
            "spark.ui.enabled": "false",
        },
        "groups": {"counting": group},
    }
    content = {
        "app": {"name": "killed", "handlers": ["killed_app"]},
        "cluster": {"name_servers": [field.address]},
        "consumers": {"counting": {"start": "first", **consumer}},
        "plugins": {"settings": {"spark": spark}},
    }
    settings.write_text(json.dumps(content))
    environment = {
        "HELD": str(field.held), "PYTHONPATH": PATHS, "PYSPARK_PYTHON": str(spark_python(tmp_path)),
        "SEEN": str(seen), "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip
    app = Program([sys.executable, "-m", "framework", "run", "--config"], tmp_path / "driver.log", environment)
    app.start(str(settings))
    stack.enter_context(ended_after(app))
    return app, settings


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(
    ("mode", "kinds"),
    [("driver", ("jvm", "broker", "driver")), ("source", ("jvm", "source", "broker", "driver", "worker"))],
)
def test_no_handler_loses_a_message_whoever_is_killed_at_random(
    tmp_path: Path, mode: str, kinds: tuple[str, ...]
) -> None:
    """`framework-app run`: each message is handled, each poison one buried, and no other one."""
    seen = tmp_path / "seen"
    with ExitStack() as stack:
        field = Field(stack, tmp_path, "clicks", "counting")
        field.send()
        app, settings = started_app(stack, tmp_path, field, mode)
        done = killed(field, app, kinds, lambda: None, lambda: str(settings))
        wait_until(field.is_level, "the group's offsets at the ends", CATCH_UP_S)
        expected = [int((body or b"")[1:]) for body in field.stored(field.topic).values()]
        wait_until(lambda: set(expected) <= set(_handled(seen)), "what had to be tried again", CATCH_UP_S)
        dead = [int((body or b"")[1:]) for body in field.stored("%DLQ%counting").values()]

    handled = _handled(seen)
    said = f"{handled.total()} deliveries of {len(expected)} messages, {len(dead)} buried, after {dict(done)}"
    print(said, file=sys.stderr)  # noqa: T201  # the figure
    assert set(expected) == set(handled), said
    assert {number for number in expected if number % 50 == 7} == set(dead), said


def _handled(seen: Path) -> Counter[int]:
    return Counter(int(key) for path in seen.glob("*.json") for key in json.loads(path.read_text()))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("away_s", OUTAGES_S)
@pytest.mark.parametrize("mode", PLACES)
def test_an_outage_of_the_only_broker_is_nobodys_fault(tmp_path: Path, mode: str, away_s: int) -> None:
    """At each place in turn: no query ends, no attempt is spent, each offset is once in the table or the other topic,
    and only poison is dead-lettered, once.
    """
    table, target = tmp_path / "table", "copies"
    with ExitStack() as stack:
        is_managed = mode in {"driver", "source"}
        field = Field(stack, tmp_path, "clicks", "counting" if is_managed else "copying")
        field.send()
        if is_managed:
            driver, _ = started_app(stack, tmp_path, field, mode, max_retries=0)
        else:
            words = [sys.executable, str(Path(__file__).with_name("copying.py")), field.address, field.topic]
            words += [f"topic:{target}" if mode == "sink" else str(table), str(tmp_path / "checkpoint")]
            driver = Program([*words, str(tmp_path / "session")], tmp_path / "driver.log", {"PYTHONPATH": str(ROOT)})
            driver.start()
            stack.enter_context(ended_after(driver))
        wait_until(field.is_level, f"a first batch: {driver.said()}", CATCH_UP_S)
        for place, at in PLACES[mode].items():
            began = time.monotonic()
            with field.outage(at):
                unnamed = {str(path) for path in table.glob("part-*")} - set(_committed(table))
                time.sleep(away_s)  # its length is what the test is about
            wait_until(field.is_level, f"all that was sent: {driver.said()}", CATCH_UP_S)
            stored, said = field.stored(field.topic), (tmp_path / "driver.log").read_text()
            figures = (
                f"{place}: {len(stored)} offsets, {time.monotonic() - began:.0f} s, {away_s} of them without a broker"
            )
            print(f"{mode}, {figures}", file=sys.stderr)  # noqa: T201  # the figures
            blamed = [words for words in ("ended:", "spark query ended", "handler failed") if words in said]
            assert [] == blamed, f"in {place}"
            if mode == "plain":
                assert unnamed or place != "writing", "no file of the batch was there"
                assert sorted(stored) == _rows(table)
            elif mode == "sink":
                copies = Counter(f"{broker}/{number}/{offset}".encode() for broker, number, offset in stored)
                assert copies == Counter(field.stored(target).values())
            else:
                numbers = [int((body or b"")[1:]) for body in stored.values()]
                dead = [int((body or b"")[1:]) for body in field.stored("%DLQ%counting").values()]
                assert set(numbers) == set(_handled(tmp_path / "seen"))
                assert sorted(number for number in numbers if number % 50 == 7) == sorted(dead)
                assert {} == field.stored("%RETRY%counting"), "no attempt is spent"


def _rows(table: Path) -> list[tuple[str, int, int]]:
    import pyarrow.parquet as pq

    rows: Any = pq.read_table(_committed(table), columns=["broker", "queueId", "offset"])
    return sorted((row["broker"], row["queueId"], row["offset"]) for row in rows.to_pylist())
