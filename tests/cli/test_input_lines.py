"""Lines of a file or a pipe: whole, counted, one after the other, and none is longer than a message can be."""

from __future__ import annotations

import asyncio
import io
import os

import pytest

from framework.cli import input_lines as module
from framework.cli.input_lines import InputLines, LineTooLong


async def all_of(lines: InputLines) -> list[bytes]:
    found = []
    while line := await lines.take():
        found.append(line)
    return found


@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"a\nb", b"\n\na\r\nb\n", b"x" * 200_000 + b"\ny" * 70_000])
def test_they_are_those_of_python_whatever_the_chunks(data: bytes) -> None:
    lines = InputLines(io.BytesIO(data))

    assert data.splitlines(keepends=True) == asyncio.run(all_of(lines))
    assert (len(data.splitlines()), len(data)) == (lines.number, lines.done)


def test_a_pipe_is_waited_for_while_other_tasks_run() -> None:
    begin, end = os.pipe()

    async def story() -> list[bytes]:
        with os.fdopen(begin, "rb") as source:
            lines = InputLines(source)
            assert lines.size is None
            assert not lines.is_ready
            taking = asyncio.ensure_future(lines.take())
            await asyncio.sleep(0)
            os.write(end, b"a\nb")
            first = await taking
            assert not lines.is_ready, "half a line is none"
            os.close(end)
            return [first, *await all_of(lines)]

    assert [b"a\n", b"b"] == asyncio.run(story())


def test_a_line_that_no_message_can_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 100_000)
    with pytest.raises(LineTooLong, match="longer than 100000 bytes; write one message a line"):
        asyncio.run(InputLines(io.BytesIO(b"x" * 300_000)).take())
