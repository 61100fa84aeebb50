"""Lots with the box, over sockets: settled once whatever ends in between, by whoever comes next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from framework import Lots, Message, Producer, transaction_check
from framework.broker.intercept import Interceptor, Lost
from framework.broker.server import Broker
from framework.broker.store.topics import Topic
from framework.client.dialogue import lots as lots_module
from framework.client.dialogue.halves import packed
from framework.client.dialogue.lot_records import PIECE_BYTES, Claimed, Decided, Piece
from framework.client.dialogue.lot_steps import CommitSome
from framework.errors import BrokerUnreachable, ConfigurationError, Refused
from framework.mistakes import MessageWrong
from framework.model.message import SHARDING_KEY
from framework.model.reserved import GIVEN_UP_TOPIC, HALF_TOPIC
from framework.net.real_world import real_world
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.stored import Record, decode_records
from tests.client.dialogue.test_with_the_box import bodies
from tests.patience import until
from tests.runtime.test_app import run

RECORDS = "nightly-lots"
SOON: dict[str, Any] = {"records": RECORDS, "unconfirmed": "0s"}


class Died(Exception):
    """The process that settles, between two steps."""


@asynccontextmanager
async def box(**options: Any) -> AsyncIterator[Broker]:
    broker = Broker(real_world(), **options)
    await broker.start()
    try:
        for node in broker.nodes:
            for name in ("transactionTimeOut", "transactionCheckInterval"):
                node.switches.put(name, "100")
        broker.nodes[0].rules.topics.put("paid", Topic(name="paid", read_queues=2, write_queues=2))
        broker.nodes[0].rules.topics.put(RECORDS, Topic(name=RECORDS, read_queues=1, write_queues=1))
        yield broker
    finally:
        await broker.stop()


def rows(count: int, prefix: str = "row") -> list[Message]:
    return [Message("paid", f"{prefix}-{number}") for number in range(count)]


def texts(count: int, prefix: str = "row") -> list[bytes]:
    return sorted(f"{prefix}-{number}".encode() for number in range(count))


def with_lots(story: Callable[[Broker, Producer, Lots], Awaitable[None]], **options: Any) -> None:
    async def within() -> None:
        async with box() as broker, Producer(name_servers=broker.address, group="loader") as producer:
            await story(broker, producer, Lots(producer, "nightly", **{**SOON, **options}))

    run(within)


def test_a_lot_is_seen_when_it_is_settled_and_once_however_often_that_is() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        prepared = [await lots.prepare(rows(5)), await lots.prepare(rows(3, "other"))]
        assert [] == bodies(broker, "paid")
        await lots.settle(0, prepared)
        assert sorted(texts(5) + texts(3, "other")) == bodies(broker, "paid")
        assert (True, False) == (await lots.is_decided(0), await lots.is_decided(1))

        again = Lots(producer, "nightly", **SOON)
        await again.settle(0, [await again.prepare(rows(5))])
        assert 8 == len(bodies(broker, "paid"))
        await again.settle(1, [await again.prepare(rows(2, "next")), await again.prepare([])])
        assert 10 == len(bodies(broker, "paid"))
        await again.settle(2, [])
        assert await again.is_decided(2)

    with_lots(story)


def test_what_a_broker_has_given_up_is_settled_all_the_same() -> None:
    """As where nobody answered its questions: then it no longer asks, and the half message is where it was."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        broker.nodes[0].switches.put("transactionCheckMax", "1")
        prepared = [await lots.prepare(rows(5))]
        await until(lambda: 5 == len(bodies(broker, GIVEN_UP_TOPIC)))
        for _ in range(2):
            await lots.settle(0, prepared)
            assert texts(5) == bodies(broker, "paid")

    with_lots(story)


def test_two_names_in_one_topic_do_not_mix() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        other = Lots(producer, "daily", **SOON)
        for number in range(12):  # more records than one looks at first
            await other.settle(number, [])
        await lots.settle(0, [await lots.prepare(rows(2))])
        assert [True, False] == [await Lots(producer, "nightly", **SOON).is_decided(lot) for lot in (0, 1)]
        assert [True, False] == [await Lots(producer, "daily", **SOON).is_decided(lot) for lot in (11, 12)]

    with_lots(story)


def test_two_tasks_that_read_at_once_take_each_record_once() -> None:
    """One that settles and one that answers a broker. A claim that came back would let a former process go on."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        await lots._log.write(Decided(0, "a", 0, packed([])))
        for token in ("b", "c", "d"):
            await lots._log.write(Claimed(0, token))
        fresh = Lots(producer, "nightly", **SOON)
        read, times = fresh._log._read, 0

        async def slowly(queue: Any, offset: int) -> Any:
            nonlocal times
            found = await read(queue, offset)
            times += 1
            if times == 2:  # the first one looks for where to begin
                await lots._log.write(Claimed(0, "e"))
                await fresh._log.standing()
            return found

        fresh._log._read = slowly  # type: ignore[method-assign]
        assert "e" == (await fresh._log.standing()).claim

    with_lots(story)


def test_a_piece_of_a_list_is_as_large_as_it_may_be() -> None:
    """Of a few hundred thousand messages; it does not compress."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        data = Random(1).randbytes(PIECE_BYTES)
        await lots._log.write(Piece("a", 0, data))
        await lots._log.write(Piece("a", 1, data[::-1]))
        await lots._log.write(Decided(0, "a", 2, b"end"))
        standing = await Lots(producer, "nightly", **SOON)._log.standing()
        assert [data, data[::-1]] == [piece.data for piece in standing.pieces]

    with_lots(story)


def test_what_is_dropped_is_never_seen() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        await lots.drop([await lots.prepare(rows(5))])
        await lots.settle(0, [await lots.prepare(rows(1, "kept"))])
        assert texts(1, "kept") == bodies(broker, "paid")

    with_lots(story)


def test_a_process_may_die_between_any_two_steps_and_in_the_middle_of_its_commits() -> None:
    """The next one has prepared everything anew, and does not know how far the former one came."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        lot, deaths = 0, 1
        while deaths:
            deaths = 0
            for amid in (False, True):
                mortal = _Mortal(producer, steps=lot // 2, amid=amid)
                prepared = [await mortal.prepare(rows(4, str(lot)))]
                try:
                    await mortal.settle(lot, prepared)
                except Died:
                    deaths += 1
                    following = Lots(producer, "nightly", **SOON)
                    await following.settle(lot, [await following.prepare(rows(4, str(lot)))])
                lot += 1
                assert 4 * lot == len(bodies(broker, "paid")) == len(set(bodies(broker, "paid")))
        assert lot > 5

    with_lots(story)


class _Mortal(Lots):
    """It dies before its n-th step; or within the next commits after that, some of which are under way."""

    def __init__(self, producer: Producer, *, steps: int, amid: bool) -> None:
        super().__init__(producer, "nightly", **SOON)
        self._left, self._amid = steps, amid

    async def _taken(self, step: object) -> Any:
        self._left -= 1
        if self._left < 0:
            if self._amid and isinstance(step, CommitSome):
                await super()._taken(CommitSome(step.halves[:2], step.in_order))
            raise Died
        return await super()._taken(step)


def test_a_commit_that_is_refused_or_unanswered_is_looked_for_before_it_is_told_again() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        prepared = [await lots.prepare(rows(6))]
        busy = RemotingCommand(ResponseCode.SYSTEM_BUSY)
        broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, answer=lambda _: busy, times=2))
        broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, lose=Lost.ANSWER, times=1))
        broker.intercept(Interceptor(code=RequestCode.SEND_MESSAGE_V2, answer=lambda _: busy, times=1))
        await lots.settle(0, prepared)
        assert texts(6) == bodies(broker, "paid")

    with_lots(story)


def test_messages_that_bring_one_id_are_looked_for_one_by_one() -> None:
    """As copies of another topic do: by an id of two messages the one that is there would stand for the other."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        busy = RemotingCommand(ResponseCode.SYSTEM_BUSY)
        broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, answer=lambda _: busy, times=6))
        copies = [Message("paid", f"row-{number}", message_id="COPIED") for number in range(12)]
        await lots.settle(0, [await lots.prepare(copies)])
        assert texts(12) == bodies(broker, "paid")

    with_lots(story)


def test_a_message_s_own_time_for_a_check_does_not_stop_its_commit() -> None:
    """Behind it brokers refuse each end that is no answer to a question, and a lot may take longer."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        copy = Message("paid", "row-0", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "0"})
        await lots.settle(0, [await lots.prepare([copy])])
        assert texts(1) == bodies(broker, "paid")

    with_lots(story)


def test_the_order_of_a_key_is_kept() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        messages = [Message("paid", f"{number:03}", order_key=f"k{number % 3}") for number in range(60)]
        broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, answer=lambda _: RemotingCommand(2), times=1))
        await lots.settle(0, [await lots.prepare(messages)])

        by_key: dict[str, list[bytes]] = {}
        for number in range(2):
            queue = broker.nodes[0].queue("paid", number)
            if queue is not None and queue.end:
                for record in _records(broker, queue):
                    by_key.setdefault(record.properties[SHARDING_KEY], []).append(record.body)
        assert [20, 20, 20] == [len(each) for each in by_key.values()]
        assert all(sorted(each) == each for each in by_key.values())

    with_lots(story)


def _records(broker: Broker, queue: Any) -> list[Record]:
    return decode_records(b"".join(broker.nodes[0].store.log.read(queue, 0, count_max=99, bytes_max=1 << 20)[0]))


def test_what_nobody_settles_is_asked_about_and_rolled_back_once_its_lot_is_decided() -> None:
    async def story() -> None:
        known: dict[str, Lots] = {}
        asked: list[str] = []

        @transaction_check("loader")
        async def check(message: Message) -> str:
            asked.append(said := await known["nightly"].said_of(int(message.keys[0])))
            return said

        async with box() as broker, Producer(name_servers=broker.address, check=check) as producer:
            known["nightly"] = lots = Lots(producer, "nightly", **SOON)
            await lots.prepare([Message("paid", "orphan", keys="0")])
            await until(lambda: "unknown" in asked)
            await lots.settle(0, [await lots.prepare([Message("paid", "row-0", keys="0")])])
            await until(lambda: "rollback" in asked)
            assert texts(1) == bodies(broker, "paid")
            assert 2 == len(bodies(broker, HALF_TOPIC))

    run(story)


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_message_that_cannot_be_prepared_or_made_leaves_none(*, is_raised: bool) -> None:
    def given() -> Iterator[Message]:
        yield from rows(3)
        if is_raised:
            raise MessageWrong("cannot have a delay, says who makes it")
        yield Message("paid", "late", properties={"DELAY": "3"})

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        rolled_back: list[int] = []

        def note(_: object) -> bool:
            rolled_back.append(1)
            return False

        broker.intercept(Interceptor(code=RequestCode.END_TRANSACTION, times=None, when=note))
        with capture_logs() as said, pytest.raises(ConfigurationError, match="cannot have a delay"):
            await lots.prepare(given())
        assert 3 == len(rolled_back)
        assert [] == [entry["event"] for entry in said if entry["log_level"] == "error"]

    with_lots(story)


def test_an_old_broker_is_refused() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        old = RemotingCommand(ResponseCode.SUCCESS, {"offset": "0"}, version=401)
        broker.intercept(Interceptor(code=RequestCode.GET_MAX_OFFSET, answer=lambda _: old))
        with pytest.raises(ConfigurationError, match=r"older than RocketMQ 5\.0"):
            await lots.prepare(rows(1))

    with_lots(story)


def test_records_need_a_topic_on_one_broker() -> None:
    async def story() -> None:
        async with box(brokers=2) as broker, Producer(name_servers=broker.address) as producer:
            broker.nodes[1].rules.topics.put(RECORDS, Topic(name=RECORDS, read_queues=1, write_queues=1))
            await until(lambda: True)
            with pytest.raises(ConfigurationError, match="is on several brokers"):
                await Lots(producer, "nightly", **SOON).settle(0, [])
            missing = Lots(producer, "nightly", records="missing", patience="0s")
            with pytest.raises(BrokerUnreachable, match="its broker is away, or it was never made"):
                await missing.settle(0, [])
            for _ in range(2):
                await missing.create_records()
            await missing.settle(0, [])
            assert await missing.is_decided(0)

    run(story)


def test_records_need_a_topic_of_their_own_that_can_be_read_and_written() -> None:
    """Said at once, with the remedy: no time makes it better."""

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        topics = broker.nodes[0].rules.topics
        topics.put("used", Topic(name="used", read_queues=1, write_queues=1))
        await producer.send(Message("used", "no record"))
        with pytest.raises(ConfigurationError, match=r"topic used is to have records .* give a topic of its own"):
            await Lots(producer, "nightly", records="used").settle(0, [])
        for perm in (2, 4):
            topics.put(RECORDS, Topic(name=RECORDS, read_queues=1, write_queues=1, perm=perm))
            with pytest.raises(ConfigurationError, match=r"can be both read and written; allow that .* -p 6"):
                await Lots(producer, "nightly", **SOON).settle(0, [])

    with_lots(story)


def test_another_process_that_settles_the_same_lot_stops_the_former_one() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        prepared = [await lots.prepare(rows(4))]
        taken = lots._taken

        async def held_up(step: object) -> Any:
            if not isinstance(step, CommitSome):
                return await taken(step)
            with pytest.raises(Died):
                await _Mortal(producer, steps=2, amid=False).settle(0, [])  # it has claimed the lot by then
            return step.halves  # as if nothing had been confirmed

        lots._taken = held_up  # type: ignore[method-assign]
        with pytest.raises(Refused, match="another process settles it"):
            await lots.settle(0, prepared)
        assert [] == bodies(broker, "paid")
        await Lots(producer, "nightly", **SOON).settle(0, [])
        assert texts(4) == bodies(broker, "paid")

    with_lots(story)


def test_messages_that_are_gone_before_they_could_be_looked_for_end_it_with_an_error() -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        await lots.settle(0, [await lots.prepare(rows(8))])
        prepared = [await lots.prepare(rows(4))]

        with pytest.raises(Died):
            await _Mortal(producer, steps=4, amid=False).settle(1, prepared)
        gone = RemotingCommand(ResponseCode.SUCCESS, {"offset": "99"})
        broker.intercept(
            Interceptor(
                code=RequestCode.GET_MIN_OFFSET, answer=gone, when=lambda asked: asked.command.fields["topic"] == "paid"
            )
        )
        with pytest.raises(Refused, match="are gone, so nobody can tell"):
            await Lots(producer, "nightly", patience="0s", **SOON).settle(1, [])

    with_lots(story)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({"name": ""}, "name is empty"), ({"unconfirmed": "soon"}, "'soon' is not a duration")],
)
def test_what_cannot_work_is_said_at_once(options: dict[str, str], complaint: str) -> None:
    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            Lots(producer, options.pop("name", "n"), records="r", **options)
        with pytest.raises(ConfigurationError, match="lot -1: numbers begin at 0"):
            await lots.settle(-1, [])

    with_lots(story)


def test_many_half_messages_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lots_module, "AT_ONCE", 7)

    async def story(broker: Broker, producer: Producer, lots: Lots) -> None:
        under_way, most = 0, 0
        attempt = lots._attempt

        async def counted(message: Message) -> Any:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            try:
                return await attempt(message)
            finally:
                under_way -= 1

        lots._attempt = counted  # type: ignore[method-assign]
        await lots.settle(0, [await lots.prepare(rows(50))])
        assert 50 == len(bodies(broker, "paid"))
        assert 7 == most

    with_lots(story)
