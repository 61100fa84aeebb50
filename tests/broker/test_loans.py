"""What a request takes of what all share is given back, wherever it ends: quotas, the place at work, reservations."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework.broker.answers import AfterCommit, Answer, InSteps, Refusal, Relay, ok
from framework.broker.handlers import HANDLERS
from framework.broker.loans import NOTHING, Loan
from framework.broker.request import Request
from framework.broker.settings import BrokerSettings
from framework.errors import StoreError
from framework.model.box import BoxAnswer, BoxHandler
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import to_fields
from framework.wire.requests.pop import PopRequest
from tests.broker.broker_lab import BrokerLab, pull_command, send_command, texts
from tests.broker.client_lab import FakeClient
from tests.broker.test_large import _batch
from tests.broker.test_server import PATIENCE_MS, connected, running

OWN = 40_001
"""A request whose handler a test gives."""


class Broken(Exception):
    """Nothing that anybody foresaw."""


class _Client(FakeClient):
    """A connection on which something goes wrong that nobody foresaw."""

    def __init__(self, fails: str = "") -> None:
        super().__init__("127.0.0.1:6")
        self.fails = fails

    def answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        if self.fails == "answer":
            raise Broken
        super().answer(request, answer)

    def attend(self, work: Generator[None, None, None]) -> None:
        if self.fails == "attend":
            raise Broken
        if self.fails == "connection":
            work.close()
            return
        for i, _ in enumerate(work):
            if self.fails == "connection later" and i == 1:
                work.close()
                return


def _lab(say: Callable[[Request], Answer]) -> BrokerLab:
    """One whose request `OWN` is answered so."""
    lab = BrokerLab()
    lab.dispatch._handlers = {**HANDLERS, OWN: say}
    return lab


def assert_all_given_back(lab: BrokerLab) -> None:
    quotas = lab.dispatch._quotas
    assert (0, 0, {}) == (quotas.writes, quotas.write_bytes, quotas._own)
    assert [False, False] == [each._is_busy for each in lab.dispatch._large.values()]
    assert [0, 0] == [len(each) for each in lab.dispatch._large.values()]
    assert {} == lab.node.pops._reserved
    assert 0 == lab.node.holds._bytes == lab.node.pops.holds._bytes
    assert not lab.store.writer._is_busy


def _steps(*, fails: bool = False, then: Callable[[], Answer] = ok, count: int = 3) -> Generator[None, None, Answer]:
    for _ in range(count):
        yield
    if fails:
        raise Broken
    return then()


def _nothing(_: object) -> None:
    return


def _broken(*_: object) -> Any:
    raise Broken


@dataclass(frozen=True)
class Case:
    """What a handler says."""

    name: str
    say: Callable[[Request], Answer]
    is_answered: bool = True


CASES = [
    Case("raises", _broken),
    Case("an answer", lambda _: ok()),
    Case("steps", lambda _: InSteps(_steps())),
    Case("steps that raise", lambda _: InSteps(_steps(fails=True))),
    Case(
        "steps of a write", lambda _: InSteps(_steps(then=lambda: AfterCommit(_nothing, lambda _: ok())), is_write=True)
    ),
    Case("steps to a write that raises", lambda _: InSteps(_steps(then=lambda: AfterCommit(_broken, lambda _: ok())))),
    Case("steps to an answer that raises", lambda _: InSteps(_steps(then=lambda: AfterCommit(_nothing, _broken)))),
    Case("steps to steps", lambda _: InSteps(_steps(then=lambda: InSteps(_steps())))),
    Case("steps to a question", lambda _: InSteps(_steps(then=lambda: Relay((), 10, lambda _: ok())))),
    Case("a write", lambda _: AfterCommit(_nothing, lambda _: ok())),
    Case("a write that raises", lambda _: AfterCommit(_broken, lambda _: ok())),
    Case("a write whose answer raises", lambda _: AfterCommit(_nothing, _broken)),
    Case("a write whose refusal raises", lambda _: AfterCommit(_refused, lambda _: ok(), _broken)),
    Case("a question whose answer raises", lambda _: Relay((), 10, _broken)),
]


def _refused(_: object) -> None:
    raise StoreError("no")


@pytest.mark.parametrize("fails", ["", "answer", "attend", "connection", "connection later"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_everything_is_given_back_and_the_next_request_is_served(case: Case, fails: str) -> None:
    lab, client = _lab(case.say), _Client(fails)
    with capture_logs():
        for _ in range(2):
            try:
                lab.ask(RemotingCommand(OWN, body=b"x"), client)
            except Broken:
                lab.timers.turn()  # the loop's own report
    lab.timers.turn()

    assert_all_given_back(lab)
    assert fails or 2 == len(client.answers), "who asks hears something"
    assert 0 == lab.send().code
    assert 0 == lab.answer(_batch(300)).code
    assert 22 == lab.answer(_query("nobody's")).code
    assert_all_given_back(lab)


@pytest.mark.parametrize("fails", ["", "answer"])
@pytest.mark.parametrize("word", ["answer", "refused", "change"])
def test_what_a_pop_reserved_is_given_back(word: str, fails: str) -> None:
    """Messages that nobody holds and everybody believes to be held would be popped by nobody."""
    lab = BrokerLab()
    lab.send()
    with pytest.MonkeyPatch.context() as patch, capture_logs():
        if word == "answer":
            patch.setattr(lab.node.pops, "rest", _broken)
        elif word == "refused":
            patch.setattr(lab.node.pops, "hold", lambda *_, **__: _refused)
        else:
            patch.setattr(lab.node.pops, "hold", _broken)
        try:
            lab.ask(_pop(), _Client(fails))
        except Broken:
            lab.timers.turn()  # the loop's own report

    assert_all_given_back(lab)


def test_a_damaged_message_leaves_no_reservation() -> None:
    lab = BrokerLab()
    for number in (0, 1):
        lab.send(queue_id=number)
    lab.database.writing.execute("UPDATE messages SET checksum = 1 WHERE id = (SELECT max(id) FROM messages)")

    assert 1 == lab.answer(_pop(queue_id=-1)).code
    assert_all_given_back(lab)


def test_a_thousand_that_wait_for_an_ended_connection_end_with_it() -> None:
    """One after the other, and not one inside the other."""
    lab, ended = _lab(lambda _: InSteps(_steps())), _Client()
    works: list[Generator[None, None, None]] = []
    ended.attend = works.append  # type: ignore[method-assign, assignment]
    for _ in range(3000):
        lab.ask(RemotingCommand(OWN), ended)
    ended.fails = "connection"
    del ended.attend
    works[0].close()

    assert_all_given_back(lab)
    assert [] == ended.answers


def test_a_refusal_in_the_middle_holds_nothing_of_what_was_at_hand() -> None:
    """Four queries in vain, one after the other, held 500 MiB of messages until a collection came by."""

    class AtHand:
        pass

    seen: list[weakref.ref[AtHand]] = []

    def steps() -> Generator[None, None, Answer]:
        at_hand = AtHand()
        seen.append(weakref.ref(at_hand))
        yield
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "nothing")

    lab = _lab(lambda _: InSteps(steps()))
    gc.disable()
    try:
        assert 22 == lab.answer(RemotingCommand(OWN)).code
        lab.answer(_query("k"))
        assert [None] == [each() for each in seen]
    finally:
        gc.enable()


def test_a_commit_that_fails_as_nobody_foresaw_keeps_no_later_one_waiting() -> None:
    lab = _lab(lambda _: AfterCommit(_nothing, lambda _: ok()))

    class NoCommits:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def execute(self, sql: str, *values: Any) -> Any:
            if sql == "COMMIT":
                raise MemoryError
            return self._connection.execute(sql, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    writer, connection = lab.store.writer, lab.database.writing
    lab.database.writing = NoCommits(connection)  # type: ignore[assignment]
    with capture_logs():
        try:
            lab.ask(RemotingCommand(OWN))
        except MemoryError:
            lab.database.writing = connection
            lab.timers.turn()
    lab.database.writing = connection
    lab.timers.turn()

    assert not writer._is_busy
    assert [1] == [answer.code for answer in lab.client.answers]
    assert 0 == lab.send().code
    assert_all_given_back(lab)


def test_it_is_given_back_once_and_by_its_last_holder() -> None:
    told: list[str] = []
    with Loan(lambda: told.append("first")) as holder, holder.hand_on(lambda: told.append("second")) as next_one:
        last = next_one.hand_on()
    assert [] == told
    with pytest.raises(Broken), last:
        raise Broken
    last.give_back()

    assert ["first", "second"] == told
    assert not NOTHING


def test_a_transaction_that_cannot_be_asked_about_stops_no_questions() -> None:
    lab = BrokerLab()
    producer = FakeClient()
    heard: list[str] = []

    def send(command: RemotingCommand) -> None:
        heard.append(command.fields["msgId"])
        if len(heard) == 1:
            raise StoreError("a frame of it is too large")

    producer.send = send  # type: ignore[method-assign]
    lab.node.members.heard_producer(producer, "c", "p", language=0, version=0)
    for key in ("one", "two"):
        lab.send(sys_flag=4, properties=texts(TRAN_MSG="true", PGROUP="p", UNIQ_KEY=key))
    lab.timers.advance(lab.node.switches.transaction_timeout_ms)
    assert ["one", "two"] == heard
    lab.timers.advance(lab.node.switches.transaction_interval_ms)

    assert ["one", "two", "one", "two"] == heard
    assert 1 == len(lab.troubles)


@pytest.mark.parametrize("total", [4_300_000, 8_300_000])
def test_an_answer_to_a_query_is_cut_to_a_frame_and_the_next_query_is_answered(total: int) -> None:
    """A message of 2 MB and the copies of its retries, say."""

    async def story() -> list[tuple[int, int]]:
        async with running() as broker, connected(broker.address) as channel:
            for _ in range(4):
                await channel.request(
                    send_command("t", bytes(total // 4), properties=texts(KEYS="k")), timeout_ms=PATIENCE_MS
                )
            answers = [await channel.request(_query("k"), timeout_ms=PATIENCE_MS) for _ in range(3)]
            return [(answer.code, len(answer.body) // (total // 4)) for answer in answers]

    most = BrokerSettings().answer_bytes_max // (total // 4)
    assert [(0, most)] * 3 == asyncio.run(story())


@pytest.mark.parametrize(
    "limit",
    [{"body_bytes_max": 1000}, {"unsent_bytes_max": 64 << 10}, {"unread_bytes_max": 1 << 20}],
    ids=lambda limit: next(iter(limit)),
)
def test_limits_that_hang_together_let_the_largest_message_through(tmp_path: Path, limit: dict[str, Any]) -> None:
    """A message that was stored under a larger limit, or is larger than what a connection may have unread."""
    size = BrokerSettings().body_bytes_max

    async def story() -> list[int]:
        async with running(data=tmp_path / "data") as broker, connected(broker.address) as channel:
            sent = send_command("t", bytes(size), properties=texts(KEYS="k"))
            await channel.request(sent, timeout_ms=PATIENCE_MS)
        settings = BrokerSettings(**limit)
        async with running(data=tmp_path / "data", settings=settings) as broker, connected(broker.address) as channel:
            asked = (pull_command(0), _query("k"), pull_command(0))
            return [len((await channel.request(each, timeout_ms=PATIENCE_MS)).body) // size for each in asked]

    assert [1, 1, 1] == asyncio.run(story())


def test_an_answer_that_no_frame_holds_is_refused_by_name_and_the_connection_goes_on() -> None:
    async def story() -> list[tuple[int, str | None]]:
        handlers: dict[int, BoxHandler] = {
            OWN: lambda _: BoxAnswer(body=bytes(17 << 20)),
            OWN + 1: lambda _: BoxAnswer(fields={"a": "x" * (17 << 20)}),
        }
        async with running(handlers=handlers) as broker, connected(broker.address) as channel:
            answers = [
                await channel.request(RemotingCommand(code), timeout_ms=PATIENCE_MS) for code in (OWN, OWN + 1, OWN)
            ]
            answers.append(await channel.request(send_command(), timeout_ms=PATIENCE_MS))
            return [(answer.code, answer.remark) for answer in answers]

    said = asyncio.run(story())

    assert [1, 1, 1, 0] == [code for code, _ in said]
    assert "frame of 17825" in str(said[0][1])
    assert "ask for less at once" in str(said[0][1])


def test_the_answer_to_a_large_batch_names_all_its_messages() -> None:
    async def story() -> int:
        async with running() as broker, connected(broker.address) as channel:
            answer = await channel.request(_batch(5000), timeout_ms=PATIENCE_MS)
            return len(answer.fields["msgId"].split(","))

    assert 5000 == asyncio.run(story())


def _query(key: str) -> RemotingCommand:
    fields = {"topic": "t", "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
    return RemotingCommand(RequestCode.QUERY_MESSAGE, fields)


def _pop(**changes: Any) -> RemotingCommand:
    header = PopRequest(
        **{
            "consumer_group": "g", "topic": "t", "queue_id": 0, "max_msg_nums": 8, "invisible_time": 30_000,
            "poll_time": 0, "born_time": 0, "init_mode": 0, **changes,
        }
    )  # fmt: skip
    return RemotingCommand(RequestCode.POP_MESSAGE, to_fields(header))
