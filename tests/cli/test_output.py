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
def test_a_tail_line_is_what_became_of_it_its_topic_and_its_key(event: str, word: str) -> None:
    assert f"{word} orders A-17" == output.tail_line(EVENT | {"event": event})


def test_a_message_without_a_key_is_named_by_its_id() -> None:
    assert "handled orders ID" == output.tail_line(EVENT | {"key": ""})


def test_a_key_cannot_begin_a_line_or_move_the_cursor() -> None:
    assert "handled orders a?drained: handled=9?[2Jb" == output.tail_line(
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
