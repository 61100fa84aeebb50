"""Reader: queues, ends and ranges of a topic in the box, without a group's life."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from framework import Message
from framework.admin import resets
from framework.admin.cluster import Admin
from framework.broker.answers import Client
from framework.broker.intercept import Interceptor, Lost
from framework.broker.request import Request
from framework.client.options import ClusterOptions
from framework.errors import BrokerUnreachable, ConfigurationError, ProtocolError, Refused, Sql92Error
from framework.model.death_reason import DeathReason
from framework.model.queue import MessageQueue
from framework.reading import Columns, Filter, OffsetsGone, Reader, ReaderSettings, decode_properties
from framework.reading.reader import AT_ONCE
from framework.wire.bodies.config import GroupConfig
from framework.wire.codes import RequestCode, ResponseCode
from framework.wire.command import RemotingCommand
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts, thread_box

WORDS = DeathReason("no price", "ValueError", 1_700_000_000_000, "driver@7")


def filled(box: ThreadBox, reader: Reader, topic: str, count: int, **options: Any) -> MessageQueue:
    """One queue of the topic with so many messages, m0 to m(count - 1), at offsets 0 to count - 1."""
    box.send(topic, texts(topic, count, **options), queue=0)
    return next(queue for queue in reader.queues(topic) if reader.max_offset(queue) == count)


def bodies(chunks: Iterator[Columns]) -> list[bytes | None]:
    return [body for columns in chunks for body in columns.bodies]


def refusing(code: int, answer: ResponseCode, times: int | None = 1) -> Interceptor:
    def refused(_: Request) -> RemotingCommand:
        return RemotingCommand(answer, remark="not now")

    return Interceptor(code=code, answer=refused, times=times)


def test_a_topic_has_the_queues_of_all_its_brokers(box: ThreadBox, reader: Reader, topic: str) -> None:
    box.send(topic, texts(topic, 1), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 1), queue=0, broker="broker-b")

    assert {"broker-a", "broker-b"} == {queue.broker for queue in reader.queues(topic)}
    assert [] == reader.queues("nobody-made-this")
    assert topic in reader.topics()


def test_what_was_sent_is_read_by_offset(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 150, tags="red", keys=["a", "b"])

    (columns,) = reader.read(queue, 0, 150)

    assert [f"m{number}".encode() for number in range(150)] == columns.bodies
    assert list(range(150)) == columns.offsets
    assert queue == columns.queue
    assert b"TAGS\x01red" in columns.properties[0]
    assert b"KEYS\x01a b" in columns.properties[0]
    assert {} == columns.offset_ids
    assert [0] * 150 == columns.reconsume_times
    assert all(born <= stored for born, stored in zip(columns.born_ms, columns.stored_ms, strict=True))


def test_a_range_ends_where_it_was_asked_to(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 100)

    assert [b"m%d" % number for number in range(33, 66)] == bodies(reader.read(queue, 33, 66))
    assert [] == bodies(reader.read(queue, 66, 66))


def test_rows_come_in_columns_of_about_the_size_asked_for(
    box: ThreadBox, reader: Reader, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = filled(box, reader, topic, 100)

    sizes = [len(columns) for columns in reader.read(queue, 0, 100, rows=40)]

    assert 100 == sum(sizes)
    assert all(40 <= size <= 40 + 32 for size in sizes[:-1])
    monkeypatch.setattr("framework.reading.reader.BYTES", 1)  # as if bodies were large: no pull is joined to another
    assert [32, 32, 32, 4] == [len(columns) for columns in reader.read(queue, 0, 100)]


def test_a_reader_that_stops_in_the_middle_can_go_on(box: ThreadBox, reader: Reader, topic: str) -> None:
    """The pull that was sent ahead is dropped, and not taken for the next one's answer."""
    queue = filled(box, reader, topic, 100)

    chunks = reader.read(queue, 0, 100, rows=1)
    assert 32 == len(next(chunks))
    chunks.close()  # type: ignore[attr-defined]  # it is a generator

    assert [b"m99"] == bodies(reader.read(queue, 99, 100))


def test_a_pull_hands_out_the_stored_bytes(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)

    pulled = reader.pull(queue, 0, 2)
    columns = Columns(queue)
    columns.add(pulled.data, 2)

    assert (2, 0, 3) == (pulled.next_offset, pulled.min_offset, pulled.max_offset)
    assert [b"m0", b"m1"] == columns.bodies


def test_reading_without_bodies_leaves_them_out(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 2)

    assert [None, None] == bodies(reader.read(queue, 0, 2, with_bodies=False))


def test_tags_are_filtered_at_the_broker_and_again_by_text(box: ThreadBox, reader: Reader, topic: str) -> None:
    """AaAa and BBBB have the same hash, which is all that a broker compares."""
    colours = ["AaAa", "blue", "BBBB", "AaAa"]
    box.send(topic, [Message(topic, tag.encode(), tags=tag) for tag in colours], queue=0)
    queue = next(queue for queue in reader.queues(topic) if reader.max_offset(queue))

    found = list(reader.read(queue, 0, 4, wanted=Filter(tags="AaAa || green")))

    assert [0, 3] == [offset for columns in found for offset in columns.offsets]
    assert [] == list(reader.read(queue, 0, 4, wanted=Filter(tags="green")))


def test_a_filter_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ConfigurationError, match="either tags or sql"):
        Filter(tags="a", sql="b = 1")
    with pytest.raises(ConfigurationError, match=r"no tag in ' \|\| '"):
        Filter(tags=" || ")
    with pytest.raises(Sql92Error, match="character"):
        Filter(sql="price >")


def test_an_offset_is_found_by_time(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)
    (columns,) = reader.read(queue, 0, 3)

    assert 0 == reader.offset_at(queue, columns.stored_ms[0])
    assert 3 == reader.offset_at(queue, columns.stored_ms[-1] + 3_600_000)


def test_a_connection_that_was_closed_while_it_was_quiet_is_made_anew(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    queue = filled(box, reader, topic, 3)
    before = list(reader._reach._links.values())
    for link in before:
        link._socket.shutdown(socket.SHUT_RDWR)

    assert queue in reader.queues(topic)
    assert 3 == reader.max_offset(queue)
    assert not set(before) & set(reader._reach._links.values())


def test_a_group_s_offset_is_stored_and_fetched(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)

    assert reader.committed("readers", queue) is None
    reader.commit("readers", queue, 2)
    assert 2 == reader.committed("readers", queue)
    with pytest.raises(ConfigurationError, match="offset -1 is none"):
        reader.commit("readers", queue, -1)


def test_a_commit_makes_its_group_known_where_the_broker_has_none(box: ThreadBox, reader: Reader, topic: str) -> None:
    """A stock broker makes groups for pulls and refuses commits of those it has not made."""
    queue = filled(box, reader, topic, 3)
    pull = Interceptor(code=RequestCode.LITE_PULL_MESSAGE)
    box.broker.intercept(pull)

    reader.commit("strangers", queue, 1)

    assert 1 == reader.committed("strangers", queue)
    assert pull.is_spent


def test_what_is_sent_back_lies_on_the_retry_topic_with_one_attempt_more(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    queue = filled(box, reader, topic, 3)
    group = f"menders-of-{topic}"

    def copies(of: str) -> list[tuple[bytes | None, int]]:
        found: list[tuple[bytes | None, int]] = []
        for each in reader.queues(of):
            for columns in reader.read(each, 0, reader.max_offset(each)):
                found += zip(columns.bodies, columns.reconsume_times, strict=True)
        return found

    reader.send_back(group, queue, 1)
    wait_until(lambda: bool(copies(f"%RETRY%{group}")), "the copy on the retry topic")
    (place,) = [each for each in reader.queues(f"%RETRY%{group}") if reader.max_offset(each)]
    reader.send_back(group, place, 0, max_retries=1)
    reader.send_back(group, queue, 2, delay_level=-1)

    assert [(b"m1", 1)] == copies(f"%RETRY%{group}")
    wait_until(lambda: len(copies(f"%DLQ%{group}")) == 2, "both dead letters")
    assert {b"m1", b"m2"} == {body for body, _ in copies(f"%DLQ%{group}")}
    with pytest.raises(OffsetsGone, match="offsets 3 to 3 are gone"):
        reader.send_back(group, queue, 3)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_dead_letter_carries_its_reason_where_the_broker_lets_it(
    box: ThreadBox, reader: Reader, topic: str, is_refused: bool
) -> None:
    """By a level, and by its last attempt; of a retry it names the place where the message was sent to."""
    queue, group = filled(box, reader, topic, 2), f"menders-of-{topic}"
    retries = f"%RETRY%{group}"

    def letters() -> list[tuple[bytes | None, dict[str, str]]]:
        return [
            (body, decode_properties(texts))
            for each in reader.queues(f"%DLQ%{group}")
            for rows in reader.read(each, 0, reader.max_offset(each))
            for body, texts in zip(rows.bodies, rows.properties, strict=True)
        ]

    assert not reader.send_back(group, queue, 1, why=WORDS)
    wait_until(lambda: any(map(reader.max_offset, reader.queues(retries))), "the copy on the retry topic")
    (place,) = [each for each in reader.queues(retries) if reader.max_offset(each)]
    refusal = Interceptor(
        code=RequestCode.SEND_MESSAGE_V2, answer=RemotingCommand(1, remark="no"), times=None, when=lambda _: is_refused
    )
    undo = box.broker.intercept(refusal)
    try:
        assert reader.send_back(group, place, 0, max_retries=1, why=WORDS)
        assert reader.send_back(group, queue, 0, delay_level=-1, why=WORDS)
    finally:
        undo()

    wait_until(lambda: len(letters()) == 2, "both dead letters")
    assert {b"m0", b"m1"} == {body for body, _ in letters()}
    said = {
        (texts["DEAD_LETTER_ORIGIN"], texts["DEAD_LETTER_ATTEMPTS"], texts["DEAD_LETTER_REASON"])
        for _, texts in letters()
        if "DEAD_LETTER_REASON" in texts
    }
    words = {(f"{topic}@broker-a:0:1", "2", "no price"), (f"{topic}@broker-a:0:0", "1", "no price")}
    assert (set() if is_refused else words) == said


def test_a_send_back_that_the_broker_confirms_and_does_not_keep_is_refused(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    """As a stock broker does where a group has no retry queue."""
    queue = filled(box, reader, topic, 1)
    group = f"careless-{topic}"
    told = RemotingCommand(0, body=GroupConfig(name=group, retry_queues=0).encode())
    box.broker.intercept(Interceptor(code=RequestCode.CONSUMER_SEND_MSG_BACK, answer=RemotingCommand(0)))
    box.broker.intercept(Interceptor(code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, answer=told))

    with pytest.raises(Refused, match=f"group {group} has no retry queue there: `framework-app doctor {group}`"):
        reader.send_back(group, queue, 0)


def test_retention_is_noticed_and_can_be_passed_over(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 50)
    box.keep_from(queue, 20)

    assert 20 == reader.min_offset(queue)
    with pytest.raises(OffsetsGone, match="offsets 5 to 19 are gone") as caught:
        list(reader.read(queue, 5, 50))
    assert (queue, 5, 20) == (caught.value.queue, caught.value.begin, caught.value.end)
    assert 30 == len(bodies(reader.read(queue, 5, 50, fail_on_loss=False)))
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


def test_a_range_past_the_end_is_a_loss(box: ThreadBox, reader: Reader, topic: str) -> None:
    """Whoever asks for it has seen these offsets before: the log was lost, or the topic was made anew."""
    queue = filled(box, reader, topic, 5)

    with pytest.raises(OffsetsGone, match="offsets 5 to 8 are gone"):
        list(reader.read(queue, 3, 9))
    assert [b"m3", b"m4"] == bodies(reader.read(queue, 3, 9, fail_on_loss=False))


def test_the_news_of_a_reset_is_no_loss(box: ThreadBox, reader: Reader, topic: str) -> None:
    """Brokers tell it to whoever pulls next as the group, in the words in which they say that an offset is gone."""
    queue, group = filled(box, reader, topic, 30), f"g-{topic}"
    reader.commit(group, queue, 30)
    with Admin(ClusterOptions(name_servers=(box.address,))) as admin:
        assert [] == resets.apply(admin, group, [resets.QueueReset(queue, 30, 7)])

    with Reader(ReaderSettings((box.address,), group=group)) as named:
        assert 20 == len(bodies(named.read(queue, 10, 30)))
    assert 7 == reader.committed(group, queue)


def test_a_hole_inside_an_answer_is_a_loss(box: ThreadBox, reader: Reader, topic: str) -> None:
    """A broker that lost a file of its log goes on behind it, without a word."""
    queue = filled(box, reader, topic, 30)
    records = reader.pull(queue, 0, 30).data
    size = int.from_bytes(records[:4])

    def without_the_second(_: Request) -> RemotingCommand:
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "30", "minOffset": "0", "maxOffset": "30"}
        return RemotingCommand(0, fields, records[:size] + records[2 * size :])

    undo = box.broker.intercept(Interceptor(code=RequestCode.LITE_PULL_MESSAGE, answer=without_the_second, times=None))
    try:
        with pytest.raises(OffsetsGone, match="offsets 1 to 1 are gone"):
            list(reader.read(queue, 0, 30))
        assert 29 == len(bodies(reader.read(queue, 0, 30, fail_on_loss=False)))
    finally:
        undo()


def test_damaged_bytes_name_queue_and_offset(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)
    records = bytearray(reader.pull(queue, 0, 3).data)
    records[records.index(b"m0")] ^= 1

    def damaged(_: Request) -> RemotingCommand:
        fields = {"suggestWhichBrokerId": "0", "nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3"}
        return RemotingCommand(0, fields, bytes(records))

    undo = box.broker.intercept(Interceptor(code=RequestCode.LITE_PULL_MESSAGE, answer=damaged, times=None))
    try:
        with pytest.raises(ProtocolError, match=f"{queue}.*queue offset 0.*checksum"):
            list(reader.read(queue, 0, 3))
    finally:
        undo()


@pytest.mark.parametrize("lost", list(Lost))
def test_a_pull_that_is_lost_is_made_again(box: ThreadBox, topic: str, lost: Lost) -> None:
    with Reader(ReaderSettings((box.address,), request_timeout_ms=1_000)) as reader:
        queue = filled(box, reader, topic, 100)
        interceptor = Interceptor(code=RequestCode.LITE_PULL_MESSAGE, lose=lost, times=2)
        box.broker.intercept(interceptor)

        assert [b"m%d" % number for number in range(100)] == bodies(reader.read(queue, 0, 100))
        assert interceptor.is_spent


def test_a_busy_broker_is_asked_again_and_a_refusal_is_not(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)

    box.broker.intercept(refusing(RequestCode.LITE_PULL_MESSAGE, ResponseCode.SYSTEM_BUSY))
    assert 3 == len(bodies(reader.read(queue, 0, 3)))

    no = refusing(RequestCode.LITE_PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    box.broker.intercept(no)
    with pytest.raises(Refused, match=r"LITE_PULL_MESSAGE .361. refused by broker-.: code 16, not now"):
        list(reader.read(queue, 0, 3))
    assert 1 == no.hits


def test_a_broker_that_goes_away_is_asked_on_a_fresh_connection(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)

    box.broker.intercept(refusing(RequestCode.GET_MAX_OFFSET, ResponseCode.GO_AWAY))
    assert 3 == reader.max_offset(queue)
    box.broker.intercept(refusing(RequestCode.LITE_PULL_MESSAGE, ResponseCode.GO_AWAY))
    assert 3 == len(bodies(reader.read(queue, 0, 3)))


def test_many_are_asked_before_the_first_answers_and_who_is_missing_says_why_alone(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    box.send(topic, texts(topic, 5), queue=0, broker="broker-b")
    a, b = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-b", 0)
    stranger = MessageQueue(topic, "broker-z", 0)

    assert {a: 3, b: 5} == reader.max_offsets([a, stranger, b])
    assert set() == reader.commits("many", {a: 2}), "nobody has pulled for this group yet"
    for queue in (a, b):
        reader.commit("many", queue, 1)
    assert {a, b} == reader.commits("many", {a: 2, stranger: 1, b: 4})
    assert (2, 4) == (reader.committed("many", a), reader.committed("many", b))

    for answer in (ResponseCode.SYSTEM_BUSY, ResponseCode.GO_AWAY):
        undo = box.broker.intercept(refusing(RequestCode.GET_MAX_OFFSET, answer, times=None))
        assert {} == reader.max_offsets([a, b])
        undo()
    assert (3, {a: 3, b: 5}) == (reader.max_offset(a), reader.max_offsets([a, b]))


def test_more_than_go_at_once_are_asked_in_turns(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 3)
    many = [MessageQueue(topic, queue.broker, number) for number in range(3 * AT_ONCE + 1)]

    found = reader.max_offsets(many)

    assert (3, {0}) == (found[queue], {found[each] for each in many if each != queue})


def test_a_connection_that_ended_while_nothing_was_asked_is_replaced(
    box: ThreadBox, reader: Reader, topic: str
) -> None:
    queue = filled(box, reader, topic, 3)
    clients: list[Client] = []

    def note(request: Request) -> bool:
        clients.append(request.client)
        return False  # it is answered as ever

    noted = Interceptor(code=RequestCode.GET_MAX_OFFSET, when=note, times=None)
    undo = box.broker.intercept(noted)
    reader.max_offset(queue)
    box.call(lambda: clients[0].close("for a test"))
    link = reader._reach.link(reader._reach.address(queue.topic, queue.broker))
    wait_until(lambda: not link.is_quiet(), "the end of the connection")

    assert {queue: 3} == reader.max_offsets([queue])
    undo()
    assert 2 == len(set(clients))


def test_another_name_server_is_asked_where_one_is_down(box: ThreadBox, topic: str) -> None:
    with Reader(ReaderSettings(("127.0.0.1:1", box.address))) as reader:
        assert 1 == reader.max_offset(filled(box, reader, topic, 1))


def test_no_name_server_at_all_is_one_error_with_every_name() -> None:
    with (
        Reader(ReaderSettings(("127.0.0.1:1", "localhost:2"))) as reader,
        pytest.raises(BrokerUnreachable, match=r"^no name server answers: (.*: connection refused; ){2}check"),
    ):
        reader.queues("orders")


def test_a_broker_that_is_gone_is_one_error_with_the_queue_and_the_last_reason(topic: str) -> None:
    with thread_box() as box, Reader(ReaderSettings((box.address,), retries=1)) as reader:
        queue = filled(box, reader, topic, 100)
        chunks = reader.read(queue, 0, 100, rows=1)
        next(chunks)
        box.call(box.broker.stop)

        with pytest.raises(BrokerUnreachable, match=rf"{queue} from offset 64: 2 attempts failed; the last: .*refused"):
            list(chunks)


def test_a_pickle_carries_settings_and_no_connection(box: ThreadBox, reader: Reader, topic: str) -> None:
    queue = filled(box, reader, topic, 2)

    with pickle.loads(pickle.dumps(reader)) as other:
        assert 2 == other.max_offset(queue)
        assert reader.settings == other.settings
