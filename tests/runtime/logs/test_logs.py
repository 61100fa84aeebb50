"""Log lines: one form for people, one for programs, and no secret in either."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from framework import Message, consumer
from framework.catalogue.pages import ids_of_events
from framework.core.chunk import Chunk
from framework.core.expiry import Slot
from framework.model.queue import MessageQueue
from framework.net.real_clock import RealClock
from framework.net.real_world import real_world
from framework.runtime.logs import setup
from framework.runtime.logs.places import with_place
from framework.runtime.logs.processors import lines_of
from framework.runtime.reports import GroupReports, Reports
from framework.services.call.deliver import DeliveryHooks, call_for
from framework.services.pool.run import RUNNING
from framework.settings.schema import AppSettings, ClusterSettings, CredentialsSettings, LoggingSettings, TlsSettings
from framework.settings.secret import Secret
from framework.testing import Harness

CANARY = "canary-8f3a1c"
SECOND = "canary-8f3a1c-and-longer"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def logged(level: str = "debug", form: str = "json") -> io.StringIO:
    credentials = CredentialsSettings(access_key="LTAI5tExample", secret_key=Secret(CANARY))
    cluster = ClusterSettings(credentials=credentials, tls=TlsSettings(key_password=Secret(SECOND)))
    chosen = LoggingSettings.model_validate({"level": level, "format": form})
    stream = io.StringIO()
    setup.configure(AppSettings(cluster=cluster, logging=chosen), stream=stream)
    return stream


def test_a_line_is_a_fact_with_fields() -> None:
    stream = logged()

    structlog.get_logger().info("queue held", queue="orders@a:0", span=2_114)

    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert {"event": "queue held", "level": "info", "queue": "orders@a:0", "span": 2_114} == line


def test_lower_levels_are_left_out() -> None:
    stream = logged(level="warning")

    structlog.get_logger().info("not this")
    structlog.get_logger().warning("this")

    assert ["this"] == [json.loads(line)["event"] for line in stream.getvalue().splitlines()]


def test_people_get_a_line_without_colours_in_a_file() -> None:
    stream = logged(form="console")

    structlog.get_logger().info("queue held", queue="orders@a:0")

    assert "queue held" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_is_written_wherever_it_hides(form: str) -> None:
    stream = logged(form=form)
    log = structlog.get_logger()

    log.info("with " + CANARY)  # noqa: G003  # what must not be done, done
    log.info("key", secret_key=CANARY, password="hunter2", Authorization="Bearer x", signature="abc", token=b"abc")
    log.info("inside", text=f"a{CANARY}b{SECOND}c", deep={"a": [CANARY, {"b": (SECOND,)}]}, other=ValueError(CANARY))
    try:
        local = CANARY
        raise ValueError(f"cannot sign with {local}")
    except ValueError as error:
        log.warning("failed", exc_info=error)

    written = stream.getvalue()
    assert 0 == written.count(CANARY)
    for part in ("hunter2", "Bearer", "abc"):
        assert part not in written
    assert "cannot sign with ***" in written


def test_an_access_key_is_shortened() -> None:
    """Enough to tell which one it was."""
    stream = logged()

    structlog.get_logger().info("signed", access_key="LTAI5tExample")

    assert "LTAI***" == json.loads(stream.getvalue())["access_key"]


def test_a_short_secret_masks_no_ordinary_words() -> None:
    redaction = setup.Redaction(["", "a", "abc"])

    assert {"event": "abc a"} == redaction(None, "info", {"event": "abc a"})


class Run:
    group_name = "billing"


def test_a_line_of_a_handler_says_which_message_it_is_at() -> None:
    """And none where nobody runs, or a worker is between two."""
    stream = logged()
    queue = MessageQueue("orders", "a", 1)
    traced = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    messages = [
        Message("orders", queue=queue, queue_offset=at, message_id=f"ID{at}", properties=traced) for at in (7, 8)
    ]
    slot = Slot()
    slot.chunk, slot.index = Chunk(messages, 7, 9, 10), 1
    slot.chunk.run = Run()  # type: ignore[assignment]  # as much of one as the log asks for
    log = structlog.get_logger()

    log.info("idle")
    token = RUNNING.set(slot)
    try:
        log.info("billing", cents=5)
        log.info("another's", offset=3)
        slot.index = -1
        log.info("between two")
    finally:
        RUNNING.reset(token)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    places = [{name: line[name] for name in line if name not in {"level", "timestamp", "event"}} for line in lines]
    of_the_second = {
        "group": "billing", "queue": "orders@a:1", "offset": 8, "message_id": "ID8", "attempt": 1,
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    }  # fmt: skip
    assert [{}, {"cents": 5, **of_the_second}, {**of_the_second, "offset": 3}, {}] == places


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("is_async", [True, False])
def test_what_handlers_log_carries_their_message_in_a_whole_application(
    *, is_async: bool, orderly: bool, batch: int
) -> None:
    seen: list[dict[str, Any]] = []

    def note() -> None:
        seen.append(dict(with_place(None, "info", {})))

    async def bill_async(message: Message) -> None:
        note()

    def bill(message: Message) -> None:
        note()

    async def bill_many_async(messages: list[Message]) -> None:
        note()

    def bill_many(messages: list[Message]) -> None:
        note()

    handlers: dict[tuple[bool, bool], Any] = {
        (True, False): bill_async, (False, False): bill, (True, True): bill_many_async, (False, True): bill_many,
    }  # fmt: skip
    options: dict[str, Any] = {"orderly": orderly, **({"batch": batch, "linger": "5s"} if batch > 1 else {})}
    with Harness(consumer("orders", "billing", **options)(handlers[is_async, batch > 1])) as desk:
        sent = [desk.send("orders", "tea") for _ in range(3)]
        desk.settle()
    assert {"billing"} == {each["group"] for each in seen}
    assert sum(each.get("batch", 1) for each in seen) == len(sent)
    if batch > 1:
        assert any("batch" in each for each in seen)
        assert not any("batch" in each and "message_id" in each for each in seen)
    else:
        assert {(each.message_id, each.queue_offset) for each in sent} == {
            (each["message_id"], each["offset"]) for each in seen
        }


def failing(depth: int) -> None:
    if depth:
        failing(depth - 1)
    else:
        try:
            raise KeyError("tea")
        except KeyError as error:
            raise ValueError(f"no such\narticle {CANARY}") from error


@pytest.mark.parametrize("depth", [0, 1, 30])
def test_a_failure_is_six_lines_and_shows_none_of_the_frameworks_frames(depth: int) -> None:
    stream = logged(level="info", form="console")

    def bill(message: Message) -> None:
        failing(depth)

    call = call_for(consumer("orders", "billing")(bill).spec, DeliveryHooks(before=[lambda _: None]), RealClock())
    error = call(Message("orders"))
    assert isinstance(error, ValueError)
    GroupReports(Reports(None, real_world().workers), RealClock()).failed("billing", Message("orders"), error)

    line, *failure = stream.getvalue().splitlines()
    assert "handler failed" in line
    assert len(failure) <= 5
    assert "in bill: failing(depth)" in failure[0], "where the handler stands"
    assert ["  ValueError: no such article ***", "  because of KeyError: 'tea'"] == failure[-2:]
    assert "in failing: raise ValueError" in failure[-3], "where it ended"
    assert not any("Traceback" in each or "/framework/" in each for each in failure)


def test_at_level_debug_a_failure_shows_everything() -> None:
    stream = logged(level="debug", form="console")
    try:
        failing(1)
    except ValueError as error:
        structlog.get_logger().warning("failed", exc_info=error)

    assert 2 == stream.getvalue().count("Traceback")


def test_what_hides_in_groups_and_notes_is_said() -> None:
    error = ExceptionGroup("two", [OSError("disk"), ValueError()])
    error.add_note("while billing")

    assert [
        "  ExceptionGroup: two (2 sub-exceptions)",
        "  because of OSError: disk",
        "  note: while billing",
    ] == lines_of(error)


def test_a_warning_has_its_id_and_other_lines_have_none() -> None:
    stream = io.StringIO()
    setup.begin("debug", as_json=True, stream=stream)
    log = structlog.get_logger()
    log.warning("queue held", reason="span")
    log.warning("message dead-lettered: more", count=3)
    log.info("app started")
    log.debug("pull failed")
    log.warning("pull failed")
    log.error("something of a handler")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    held, more, failed = (ids_of_events()[name] for name in ("queue held", "message dead-lettered", "pull failed"))
    assert [held, more, None, None, failed, None] == [line.get("id") for line in lines]


HOSTILE = "a\x1b[31m\x9b31m\x85\u202e\u2066\u2028\ud800\x00\x7f\r\n2026-11-25T22:00:00Z [info     ] all is well\tb"


@pytest.mark.parametrize("level", ["info", "debug"])
def test_what_a_line_quotes_moves_no_cursor_and_begins_no_line(level: str) -> None:
    """An exception's text is often a body's: it may colour the terminal, turn text around, look like another line."""
    stream = logged(level=level, form="console")
    log = structlog.get_logger()

    log.warning("handler failed", reason=HOSTILE, bare="a\x9bb", keys=[HOSTILE], facts={HOSTILE: HOSTILE})
    for error in (ValueError(HOSTILE), KeyError(HOSTILE)):
        try:
            raise error
        except Exception as caught:
            caught.add_note(HOSTILE)
            log.exception("handler failed")
    logging.getLogger("library").warning("said %s", HOSTILE.replace("\ud800", ""))  # pytest cannot report that one

    written = stream.getvalue()
    assert [] == [sign for sign in written if not sign.isprintable() and sign not in "\n\t"]
    assert "bare=a\\x9bb" in written
    assert 4 == sum(not line.startswith("  ") for line in written.splitlines() if line), written
