"""Lines that other programs read."""

from __future__ import annotations

import asyncio
import json

import pytest

from framework.cli import output
from framework.cli.output import EventLines, Totals

EVENT = {
    "event": "handled", "group": "billing", "topic": "orders", "queue": "a:0", "offset": 7, "message_id": "ID",
    "key": "A-17", "attempt": 1, "outcome": "Ack", "elapsed_ms": 1.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("event", "word"),
    [("handled", "handled"), ("retry", "retry"), ("dead_lettered", "dead-lettered"), ("dropped", "dropped")],
)
def test_a_tail_line_is_what_became_of_it_its_topic_its_key_and_its_group(event: str, word: str) -> None:
    attempt = " attempt=1" if event == "retry" else ""
    assert f"{word} orders A-17 group=billing{attempt}" == output.tail_line(EVENT | {"event": event})


def test_a_tail_line_of_several_processes_names_the_worker_and_a_later_attempt_its_number() -> None:
    assert "handled orders A-17 group=billing worker=1 attempt=3" == output.tail_line(
        EVENT | {"worker": 1, "attempt": 3}
    )


def test_a_tail_line_ends_with_the_reason() -> None:
    event = EVENT | {"event": "dead_lettered", "reason": "no\nsuch card"}

    assert "dead-lettered orders A-17 group=billing: no?such card" == output.tail_line(event)


def test_a_message_without_a_key_is_named_by_its_id() -> None:
    assert "handled orders ID group=billing" == output.tail_line(EVENT | {"key": ""})


def test_a_key_cannot_begin_a_line_or_move_the_cursor() -> None:
    assert "handled orders a?drained: handled=9?[2Jb group=billing" == output.tail_line(
        EVENT | {"key": "a\ndrained: handled=9\x1b[2Jb"}
    )


def test_last_lines_are_read_back_in_both_forms() -> None:
    totals = Totals(handled=5, retried=4, dead_lettered=3, abandoned=2)

    assert "drained: handled=5 retried=4 dead=3 left=2" == output.drained_line(totals)
    assert totals == output.totals_in(output.drained_line(totals))
    assert totals == output.totals_in(output.stopped_event(totals))
    assert {"event": "stopped", "handled": 5, "retried": 4, "dead_lettered": 3, "abandoned": 2} == json.loads(
        output.stopped_event(totals)
    )


@pytest.mark.parametrize("line", ["", "hello", "{", "{}", "[1]", '{"event": "handled"}', "drained: handled=x"])
def test_other_lines_are_no_totals(line: str) -> None:
    assert None is output.totals_in(line)


@pytest.mark.parametrize("line", ["", "{not json", "{}", "[1]", '{"a": 1}'])
def test_what_a_handler_prints_is_no_event(line: str) -> None:
    assert None is output.event_in(line)


def test_totals_add_up() -> None:
    totals = Totals(1, 2, 3, 4)
    totals.add(Totals(10, 20, 30, 40))

    assert Totals(11, 22, 33, 44) == totals


def test_events_are_written_once_a_turn_of_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        lines = EventLines(pytest.fail)
        lines.put({"event": "handled", "offset": 1})
        lines.put({"event": "handled", "offset": 2})
        assert "" == capsys.readouterr().out
        await asyncio.sleep(0)

    asyncio.run(scenario())

    assert [1, 2] == [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("indent", [None, 2])
def test_json_moves_no_cursor_and_says_the_same_to_a_program(indent: int | None) -> None:
    """Keys, client ids and error texts are others'; who looks at --json by a terminal is as safe as at a table."""
    hostile = {"a\x9b31m\u202e": ["\x1b[2J\x85\u2028\u2066\x7f\x00", "\ud800", "\U000e0041", "ünï\ncode"]}

    told = output.as_json(hostile, indent=indent)
    assert [] == [sign for sign in told if not sign.isprintable() and sign != "\n"]
    assert (told.count("\n") > 0) is (indent is not None)
    assert hostile == json.loads(told)
    assert "ünï" in told
