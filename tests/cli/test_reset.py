"""`reset`: a plan is shown, somebody says yes, and a line says who did it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import count

import pytest

from framework.cli import changes, main
from framework.cli.exit_codes import ExitCode
from framework.model.queue import MessageQueue
from framework.reading import Reader, ReaderSettings
from tests.reading.threads import ThreadBox, texts, thread_box


@pytest.fixture(scope="module")
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        box.send("orders", texts("orders", 10), queue=0)
        yield box


_NUMBERS = count()


@pytest.fixture
def group() -> str:
    """Each test's own: a reset that no member has taken yet lets no commit through."""
    return f"billing-{next(_NUMBERS)}"


@pytest.fixture
def queue(box: ThreadBox, group: str) -> MessageQueue:
    queue = MessageQueue("orders", "broker-a", 0)
    with Reader(ReaderSettings((box.address,))) as reader:
        for each in reader.queues("orders"):
            reader.commit(group, each, 7 if each == queue else 0)
    return queue


def stored(box: ThreadBox, group: str, queue: MessageQueue) -> int | None:
    with Reader(ReaderSettings((box.address,))) as reader:
        return reader.committed(group, queue)


def test_a_dry_run_shows_the_plan_and_changes_nothing(
    box: ThreadBox, group: str, queue: MessageQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ExitCode.CLEAN == main.run(["reset", group, "--to", "2", "--dry-run", "--name-server", box.address])

    said = capsys.readouterr()
    verdict, title, first, *_ = said.out.splitlines()
    assert f"{group}: 5 messages again, 0 passed over, in 4 queues" == verdict
    assert ["TOPIC", "BROKER", "QUEUE", "BEFORE", "AFTER", "AGAIN", "PASSED", "OVER"] == title.split()
    assert ["orders", "broker-a", "0", "7", "2", "5", "0"] == first.split()
    assert "nothing was changed" in said.err
    assert 7 == stored(box, group, queue)
    assert ExitCode.CLEAN == main.run(["reset", group, "--to", "6", "--dry-run", "--name-server", box.address])
    assert capsys.readouterr().out.startswith(f"{group}: 1 message again, 0 passed over, in 4 queues\n")


def test_where_nobody_can_be_asked_it_does_nothing_without_yes(
    box: ThreadBox, group: str, queue: MessageQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--json",)):
        code = main.run(["reset", group, "--to", "latest", *more, "--name-server", box.address])
        said = capsys.readouterr()
        assert (ExitCode.USAGE, "") == (code, said.out)
        assert "add --yes to do it, or --dry-run" in said.err
    assert 7 == stored(box, group, queue)


@pytest.mark.parametrize(("answer", "code", "offset"), [("y\n", ExitCode.CLEAN, 10), ("\n", ExitCode.FAILED, 7)])
def test_on_a_terminal_it_asks_and_no_is_the_default(
    box: ThreadBox,
    group: str,
    queue: MessageQueue,
    answer: str,
    code: ExitCode,
    offset: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "check_askable", lambda _: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    assert code == main.run(["reset", group, "orders", "--to", "latest", "--name-server", box.address])
    assert f"{group}: 0 messages again, 3 passed over, in 4 queues. Reset? [y/N]" in capsys.readouterr().err
    assert offset == stored(box, group, queue)


def test_programs_get_the_rows_and_an_audit_line_is_left(
    box: ThreadBox, group: str, queue: MessageQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reset", group, "--to", "earliest", "--yes", "--json", "--name-server", box.address]
    assert ExitCode.CLEAN == main.run(words)

    said = capsys.readouterr()
    rows = [json.loads(line) for line in said.out.splitlines()]
    fields = ["topic", "broker", "queue", "before", "after", "again", "passed_over"]
    assert dict(zip(fields, ("orders", "broker-a", 0, 7, 0, 7, 0), strict=True)) == rows[0]
    assert f" reset group={group} to=earliest queues=4 failed=0" in said.err
    assert said.err.startswith("audit: 20")
    assert 0 == stored(box, group, queue)


def test_a_group_that_is_mistyped_is_an_error_before_any_plan(
    box: ThreadBox, group: str, queue: MessageQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reset", f"{group}x", "orders", "--to", "earliest", "--yes", "--name-server", box.address]

    assert ExitCode.CONFIGURATION == main.run(words)
    said = capsys.readouterr()
    assert "" == said.out
    assert said.err.startswith(f"error: no broker knows a group '{group}x'; did you mean ")
    assert "audit" not in said.err
