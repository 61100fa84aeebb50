"""MessageQueue: a place, and the order in which every member of a group sees the places."""

from __future__ import annotations

from framework.model.queue import MessageQueue


def test_queues_sort_by_topic_broker_and_number() -> None:
    """As the Java client sorts them; number 10 comes behind 9, which a text would not do."""
    queues = [
        MessageQueue("a", "broker-a", 9),
        MessageQueue("a", "broker-a", 10),
        MessageQueue("a", "broker-b", 0),
        MessageQueue("b", "broker-a", 0),
    ]

    assert queues == sorted(queues[number] for number in (2, 0, 3, 1))


def test_a_queue_is_shown_as_people_say_it() -> None:
    assert "orders@broker-a:3" == str(MessageQueue("orders", "broker-a", 3))
