"""`logging.getLogger(...)`, in handlers and libraries: the same lines, with the same fields, as structlog's."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from typing import Any

import pytest
import structlog

from framework import Message, consumer
from framework.runtime.logs import setup
from framework.runtime.logs.setup import QUIET, Bridge, unroute
from framework.settings.schema import AppSettings
from framework.testing import Harness

CANARY = "canary-8f3a1c"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def logged(**logging: Any) -> io.StringIO:
    stream = io.StringIO()
    settings = AppSettings.model_validate(
        {"cluster": {"credentials": {"secret_key": CANARY}}, "logging": {"format": "json", **logging}}
    )
    setup.configure(settings, stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_what_handlers_log_carries_their_message_as_ours_does() -> None:
    """Async ones, plain ones on a thread, and a library that they call."""

    @consumer("orders", "billing")
    async def bill(message: Message) -> None:
        structlog.get_logger().info("ours")
        logging.getLogger("shop.billing").info("billed %d cents", 250, extra={"order": "o-1"})
        await asyncio.sleep(0)

    @consumer("orders", "stock")
    def store(message: Message) -> None:
        logging.getLogger("some.library").warning("shelf is nearly full")

    with Harness([bill, store], settings={"logging": {"level": "info"}}) as desk:
        stream = logged()
        desk.send("orders", b"250", properties={"traceparent": PARENT})
        desk.settle()

    said = {line["event"]: line for line in lines(stream)}
    ours, theirs, library = said["ours"], said["billed 250 cents"], said["shelf is nearly full"]
    places = ("group", "queue", "offset", "message_id", "attempt", "trace_id")
    assert {name: ours[name] for name in places} == {name: theirs[name] for name in places}
    assert "0af7651916cd43dd8448eb211c80319c" == theirs["trace_id"]
    assert ("shop.billing", "o-1", "info", "billing") == tuple(
        theirs[key] for key in ("logger", "order", "level", "group")
    )
    assert ("some.library", "warning", "stock", ours["message_id"]) == tuple(
        library[key] for key in ("logger", "level", "group", "message_id")
    )
    assert set(theirs) - {"logger", "order"} == set(ours), "the same fields, in one form"


def test_the_level_of_the_settings_holds_and_single_loggers_may_have_another() -> None:
    stream = logged(level="warning", levels={"shop": "debug", "chatty": "ERROR"})
    for name in ("library", "shop.orders", "chatty"):
        for level in (logging.DEBUG, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "%s at %d", name, level)

    assert [
        "library at 30", "library at 40", "shop.orders at 10", "shop.orders at 30", "shop.orders at 40", "chatty at 40",
    ] == [line["event"] for line in lines(stream)]  # fmt: skip


@pytest.mark.parametrize("name", sorted(QUIET))
def test_who_tells_of_each_call_is_quiet_unless_named(name: str) -> None:
    stream = logged(level="debug")
    logging.getLogger(f"{name}.inner").info("not this")
    logging.getLogger(f"{name}.inner").warning("this")
    again = logged(level="debug", levels={name: "info"})
    logging.getLogger(f"{name}.inner").info("now this")

    assert (["this"], ["now this"]) == tuple([line["event"] for line in lines(each)] for each in (stream, again))


def test_a_failure_is_told_as_in_our_own_lines_and_no_secret_is_shown() -> None:
    stream = logged()
    try:
        raise LookupError(f"no shelf for {CANARY}")
    except LookupError:
        logging.getLogger("shop").exception(
            "not stored with %s", CANARY, extra={"password": "x", "dsn": f"a:{CANARY}@b"}
        )

    (line,) = lines(stream)
    assert CANARY not in stream.getvalue()
    assert ("error", "not stored with ***", "***", "a:***@b") == tuple(
        line[key] for key in ("level", "event", "password", "dsn")
    )
    assert "LookupError: no shelf for ***" in line["exception"]
    assert __file__ in line["exception"]


def test_for_people_it_is_one_line_with_the_logger_s_name() -> None:
    stream = logged(format="console")
    logging.getLogger("shop").warning("shelf %s is full", "left")

    (line,) = stream.getvalue().splitlines()
    assert "shelf left is full" in line
    assert "shop" in line


def test_a_value_that_logs_while_it_is_written_ends_nowhere_else() -> None:
    class Talks:
        def __str__(self) -> str:
            logging.getLogger("shop").warning("from within")
            return "told"

    stream = logged()
    logging.getLogger("shop").warning("once", extra={"value": Talks()})

    assert [("once", "told")] == [(line["event"], line["value"]) for line in lines(stream)]


def test_arguments_that_do_not_fit_are_named_with_their_place() -> None:
    stream = logged()
    (bridge,) = [each for each in logging.getLogger().handlers if isinstance(each, Bridge)]  # pytest's own would raise
    bridge.handle(logging.LogRecord("shop", logging.WARNING, __file__, 7, "%d cents", ("many",), None))

    (line,) = lines(stream)
    assert ("line not formatted", "shop") == (line["event"], line["logger"])
    assert f"{__file__}:7" == line["place"]


def test_configured_twice_a_line_comes_once_and_others_handlers_stay() -> None:
    """A reload configures anew; whoever added a handler of their own keeps it."""
    own = logging.NullHandler()
    logging.getLogger().addHandler(own)
    try:
        logged(levels={"shop": "debug"})
        stream = logged()
        logging.getLogger("shop").info("once")
        logging.getLogger("shop").debug("no longer at debug")

        assert ["once"] == [line["event"] for line in lines(stream)]
        assert own in logging.getLogger().handlers
        assert 1 == sum(isinstance(each, Bridge) for each in logging.getLogger().handlers)
    finally:
        logging.getLogger().removeHandler(own)
    unroute()
    assert logging.WARNING == logging.getLogger().level


def test_an_application_that_is_embedded_leaves_the_process_s_logging_alone() -> None:
    before = (list(logging.getLogger().handlers), logging.getLogger().level)

    @consumer("orders", "billing")
    async def bill(message: Message) -> None: ...

    with Harness(bill) as desk:
        desk.send("orders", b"1")
        desk.settle()
        assert before == (list(logging.getLogger().handlers), logging.getLogger().level)
