"""Readers that a process keeps from task to task: what is connected to once, and what is never trusted again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from framework_spark import kept
from framework_spark.kept import KEEP_MAX, close_resting, lent

from framework.broker.answers import Client
from framework.broker.intercept import Interceptor
from framework.broker.request import Request
from framework.broker.rules import Rule, User
from framework.errors import Refused
from framework.model.queue import MessageQueue
from framework.reading import ReaderSettings
from framework.wire.codes import RequestCode
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts, thread_box


@pytest.fixture(autouse=True)
def _nothing_rests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that Spark has just started, and as if no time passed."""
    monkeypatch.setattr(kept, "KEEP_SECONDS", 3_600.0)
    close_resting()
    yield
    close_resting()


@pytest.fixture
def queue(box: ThreadBox, topic: str) -> MessageQueue:
    """With m0 to m9."""
    box.send(topic, texts(topic, 10), queue=0, broker="broker-a")
    return MessageQueue(topic, "broker-a", 0)


class Seen:
    """Requests that the box was asked, while it looks."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    @property
    def clients(self) -> set[Client]:
        return {request.client for request in self.requests}


@contextmanager
def looking_at(box: ThreadBox, code: RequestCode) -> Iterator[Seen]:
    seen = Seen()

    def note(request: Request) -> bool:
        seen.requests.append(request)
        return False  # it is answered as ever

    undo = box.broker.intercept(Interceptor(code=code, when=note, times=None))
    try:
        yield seen
    finally:
        undo()


def read(settings: ReaderSettings, queue: MessageQueue, end: int = 10) -> int:
    """One task: how many messages it found."""
    with lent(settings) as reader:
        return sum(map(len, reader.read(queue, 0, end)))


def test_the_second_task_connects_to_nothing_and_asks_no_route(box: ThreadBox, queue: MessageQueue) -> None:
    settings = ReaderSettings((box.address,))
    with (
        looking_at(box, RequestCode.GET_ROUTEINFO_BY_TOPIC) as routes,
        looking_at(box, RequestCode.LITE_PULL_MESSAGE) as pulls,
    ):
        found = [read(ReaderSettings((box.address,)), queue) for _ in range(3)]
        other = read(ReaderSettings((box.address,), group="another"), queue)

    assert ([10, 10, 10], 10) == (found, other)
    assert (2, 2) == (len(routes.requests), len(pulls.clients)), "one of each settings"
    assert settings == ReaderSettings((box.address,))


def test_two_tasks_at_once_have_a_reader_each(box: ThreadBox, queue: MessageQueue) -> None:
    settings = ReaderSettings((box.address,))

    with lent(settings) as first, lent(settings) as second:
        assert first is not second
        assert 10 == first.max_offset(queue) == second.max_offset(queue)
    with lent(settings) as third:
        assert third in {first, second}


def test_a_connection_that_ended_meanwhile_is_replaced_before_a_task_sees_it(topic: str) -> None:
    with thread_box() as box:
        box.send(topic, texts(topic, 10), queue=0)
        settings = ReaderSettings((box.address,), retries=0)  # nothing is tried twice
        queue = MessageQueue(topic, "broker-a", 0)
        with looking_at(box, RequestCode.LITE_PULL_MESSAGE) as pulls:
            assert 10 == read(settings, queue)
            (client,) = pulls.clients
            box.call(lambda: client.close("for a test"))
            wait_until(lambda: not _rests_quietly(), "the end of the connection")
            assert 10 == read(settings, queue)
            assert 2 == len(pulls.clients)


def _rests_quietly() -> bool:
    """Whether every connection of what rests is open at its other end as well."""
    return all(link.is_quiet() for each in kept._resting for link in each.reader._reach._links.values())


def test_a_task_that_fails_or_stops_early_leaves_nothing(box: ThreadBox, queue: MessageQueue) -> None:
    settings = ReaderSettings((box.address,))

    def failing() -> None:
        with lent(settings) as reader:
            reader.max_offset(queue)
            raise ValueError("of the task")

    def rows() -> Iterator[int]:
        with lent(settings) as reader:
            for columns in reader.read(queue, 0, 10, rows=1):
                yield len(columns)

    with pytest.raises(ValueError, match="of the task"):
        failing()
    abandoned = rows()
    next(abandoned)
    abandoned.close()  # type: ignore[attr-defined]

    assert [] == kept._resting


def test_what_is_old_is_looked_at_anew(box: ThreadBox, queue: MessageQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that changed is known within half a minute, as to any client."""
    settings = ReaderSettings((box.address,))
    with looking_at(box, RequestCode.GET_ROUTEINFO_BY_TOPIC) as routes:
        read(settings, queue)
        monkeypatch.setattr(kept, "KEEP_SECONDS", 0.0)
        read(settings, queue)

    assert 2 == len(routes.requests)


def test_a_process_keeps_no_more_than_a_few(box: ThreadBox, queue: MessageQueue) -> None:
    for number in range(KEEP_MAX + 2):
        read(ReaderSettings((box.address,), group=f"g{number}"), queue)

    assert [f"g{number}" for number in range(2, KEEP_MAX + 2)] == [each.reader.settings.group for each in kept._resting]


def test_other_keys_are_another_reader(tmp_path: Path, topic: str) -> None:
    """The reference stays, what it stands for does not: a task never works with keys that were taken back."""
    path = tmp_path / "keys.yaml"
    rules = (Rule("Topic", "*", frozenset(("Pub", "Sub"))), Rule("Group", "*", frozenset(("Sub",))))
    with thread_box(auth=[User("us", "sesame", rules=rules)]) as box:
        box.send(topic, texts(topic, 10), queue=0)
        settings = ReaderSettings((box.address,), credentials=f"file:{path}")
        queue = MessageQueue(topic, "broker-a", 0)
        path.write_text("access_key: us\nsecret_key: sesame\n")
        assert 10 == read(settings, queue)
        path.write_text("access_key: us\nsecret_key: guess\n")
        with pytest.raises(Refused):
            read(settings, queue)
        path.write_text("access_key: us\nsecret_key: sesame\n")
        assert 10 == read(settings, queue)


def test_a_fork_does_not_use_its_parents_connections(box: ThreadBox, queue: MessageQueue) -> None:
    """What it copied is closed there, which the parent does not notice; then it keeps a reader of its own."""
    settings = ReaderSettings((box.address,))
    with looking_at(box, RequestCode.LITE_PULL_MESSAGE) as pulls:
        assert 10 == read(settings, queue)
        kept._resting[0].process += 1  # as a child sees it
        assert [10, 10] == [read(settings, queue) for _ in range(2)]

    assert (3, 2) == (len(pulls.requests), len(pulls.clients))
