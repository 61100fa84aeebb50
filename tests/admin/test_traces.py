"""What became of a message, out of the trace topic, its copies and the groups' offsets."""

from __future__ import annotations

import pytest

from framework import Message
from framework.admin import browse
from framework.admin.browse import Scan, Span
from framework.admin.cluster import Admin
from framework.admin.dead_letters import LetterChoice
from framework.admin.replays import plan, run
from framework.admin.traces import MessageTrace, TraceEvent, trace_of
from framework.client.options import ClusterOptions
from framework.model.queue import MessageQueue
from framework.model.reserved import TRACE_TOPIC
from framework.reading import Reader, ReaderSettings
from framework.reading.pulls import EVERYTHING
from framework.wire import trace
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts

HOST = "127.0.0.1"


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture
def key(topic: str) -> str:
    return f"ID-{topic}"


def send(box: ThreadBox, topic: str, key: str, **options: object) -> MessageQueue:
    """Three messages before it in its queue."""
    queue = MessageQueue(topic, "broker-a", 0)
    box.send(topic, texts(topic, 3), queue=0, broker="broker-a")
    box.send(topic, [Message(topic, b"x", message_id=key, **options)], queue=0, broker="broker-a")  # type: ignore[arg-type]
    return queue


def commit(box: ThreadBox, group: str, queue: MessageQueue, offset: int) -> None:
    with Reader(ReaderSettings((box.address,))) as reader:
        reader.commit(group, queue, offset)


def send_back(box: ThreadBox, group: str, queue: MessageQueue, offset: int, *, level: int) -> None:
    with Reader(ReaderSettings((box.address,))) as reader:
        assert (level < 0) == reader.send_back(group, queue, offset, delay_level=level)


def offset_id(admin: Admin, queue: MessageQueue, offset: int) -> str:
    (message,) = browse.messages(admin, EVERYTHING, [Span(queue, offset, offset + 1)], Scan())
    return message.offset_message_id


def told(box: ThreadBox, key: str, *records: str) -> None:
    box.send(TRACE_TOPIC, [Message(TRACE_TOPIC, "".join(records), keys=[key])])


def standing(found: MessageTrace, group: str) -> str | None:
    (event,) = [each for each in found.events if each.what == "group" and each.who == group]
    assert event.at_ms is None
    return event.result


def whats(found: MessageTrace) -> list[str]:
    return [each.what for each in found.events if each.what != "group"]


def test_where_it_is_and_how_many_lie_before_it(box: ThreadBox, admin: Admin, topic: str, group: str, key: str) -> None:
    queue = send(box, topic, key)
    commit(box, group, queue, 1)
    commit(box, f"{group}-done", queue, 4)

    found = trace_of(admin, key, topics=[topic])

    (stored,) = [each for each in found.events if each.what == "stored"]
    assert (f"{topic}@broker-a:0:3", HOST) == (stored.where, stored.who)
    assert stored.at_ms is not None
    assert "not confirmed yet: 2 messages before it" == standing(found, group)
    assert standing(found, f"{group}-done") == (
        "passed: the group's offset is 4, so it was handled, or left out by a filter, or waits for a retry"
    )
    assert not found.is_traced


def test_without_a_topic_all_are_searched(box: ThreadBox, admin: Admin, topic: str, key: str) -> None:
    send(box, topic, key)
    steps: list[tuple[int, int]] = []

    found = trace_of(admin, key, advance=lambda done, total: steps.append((done, total)))

    assert topic == found.topic
    assert found.searched >= 1
    assert (found.searched, found.searched) == steps[-1]


def test_an_id_that_nobody_knows_has_no_event(box: ThreadBox, admin: Admin, topic: str, key: str) -> None:
    send(box, topic, key)

    found = trace_of(admin, "C0A8010A00002A9F0000000000000000")

    assert not found.is_found
    assert found.searched >= 1


def test_an_offset_message_id_leads_to_the_same(box: ThreadBox, admin: Admin, topic: str, key: str) -> None:
    queue = send(box, topic, key)

    found = trace_of(admin, offset_id(admin, queue, 3))

    assert (key, topic, 0) == (found.message_id, found.topic, found.searched)
    assert ["stored"] == whats(found)


def test_retries_and_the_dead_letter_are_found_by_the_unique_key(
    box: ThreadBox, admin: Admin, topic: str, group: str, key: str
) -> None:
    queue = send(box, topic, key)
    commit(box, group, queue, 4)
    send_back(box, group, queue, 3, level=0)
    retry = MessageQueue(f"%RETRY%{group}", "broker-a", 0)
    wait_until(lambda: "retry 1" in whats(trace_of(admin, key, topics=[topic])), "the retry's time")
    assert "retry 1: not read: the group has stored no offset in its queue" == standing(
        trace_of(admin, key, topics=[topic]), group
    )
    commit(box, group, retry, 1)
    send_back(box, group, retry, 0, level=-1)

    found = trace_of(admin, key, topics=[topic])

    assert ["stored", "retry 1", "dead letter"] == whats(found)
    assert [f"{topic}@broker-a:0:3", f"%RETRY%{group}@broker-a:0:0", f"%DLQ%{group}@broker-a:0:0"] == [
        each.where for each in found.events[:3]
    ]
    assert "dead letter: after 2 attempts; why is not said" == standing(found, group)
    by_letter = trace_of(admin, offset_id(admin, MessageQueue(f"%DLQ%{group}", "broker-a", 0), 0))
    assert (topic, whats(found)) == (by_letter.topic, whats(by_letter))


def test_a_letter_that_says_why_and_was_replayed(
    box: ThreadBox, admin: Admin, topic: str, group: str, key: str
) -> None:
    queue = send(box, topic, key)
    commit(box, group, queue, 4)
    words = {
        "DEAD_LETTER_REASON": "KeyError: 'card'", "DEAD_LETTER_ERROR": "KeyError", "DEAD_LETTER_ATTEMPTS": "3",
        "DEAD_LETTER_TIME": "1700000000000", "DEAD_LETTER_MEMBER": "m1", "DEAD_LETTER_ORIGIN": f"{topic}@broker-a:0:3",
    }  # fmt: skip
    dead = f"%DLQ%{group}"
    box.send(dead, [Message(dead, b"x", message_id=key, properties=words)], queue=0, broker="broker-a")
    (event,) = [each for each in trace_of(admin, key, topics=[topic]).events if each.what == "dead letter"]
    assert event == TraceEvent(
        1_700_000_000_000,
        "dead letter",
        f"{dead}@broker-a:0:0",
        f"{group} m1",
        None,
        "after 3 attempts: KeyError: 'card'",
    )

    assert ["sent"] == [each.what for each in run(admin, plan(admin, group, LetterChoice()), lambda: None)]

    found = trace_of(admin, key, topics=[topic])
    assert "replayed" in whats(found)
    assert "dead letter: after 3 attempts: KeyError: 'card'; replayed since, not confirmed yet: it is next" == standing(
        found, group
    )


def test_a_trace_tells_who_and_how_long_and_names_the_topic(
    box: ThreadBox, admin: Admin, topic: str, group: str, key: str
) -> None:
    send(box, topic, key)
    told(
        box, key,
        trace.published(10, "r", "makers", topic, key, None, None, "b:1", 1, 7, 0, "OFF", success=True),
        trace.before(20, "r", group, "R1", key, 0, None),
        trace.after("R1", key, 41, None, 2, 61, group, success=False),
        trace.before(70, "r", group, "R2", key, 1, None),
        trace.before(80, "r", group, "R3", "another", 0, None),
    )  # fmt: skip

    found = trace_of(admin, key)

    assert found.is_traced
    assert 0 == found.searched, "the trace names the topic"
    assert [
        TraceEvent(10, "sent", f"{topic} b:1", f"makers {HOST}", 7, "success"),
        TraceEvent(20, "attempt 1", HOST, group, 41, "exception"),
        TraceEvent(70, "attempt 2", HOST, group, None, "not ended, as far as it is told"),
    ] == [each for each in found.events if each.at_ms is not None and each.at_ms < 100]

    told(box, key, trace.after("R2", key, 5, None, 0, 75, group, success=True))

    assert f"handled by {HOST}, attempt 2, in 5 ms" == standing(trace_of(admin, key), group)


def test_a_filter_that_leaves_the_message_out_is_named(
    box: ThreadBox, admin: Admin, topic: str, group: str, key: str
) -> None:
    from tests.admin.members import Member, online

    queue = send(box, topic, key, tags="red")
    commit(box, group, queue, 4)

    with online(box.address, Member(client_id="m1", group=group, wants={topic: "paid"}, tags=("paid",))):
        found = trace_of(admin, key, topics=[topic])

    assert "passed: the group's offset is 4; its filter 'paid' leaves the message out" == standing(found, group)


def test_a_broker_that_does_not_answer_is_unknown(topic: str) -> None:
    from tests.reading.threads import thread_box

    with thread_box(brokers=2) as box:
        send(box, topic, "K1")
        box.call(box.broker._listeners[1].close)
        with Admin(ClusterOptions(name_servers=(box.address,))) as admin:
            found = trace_of(admin, "K1", topics=[topic])

    assert ["stored"] == whats(found)
    assert ["broker-b"] == list(found.unknown)
