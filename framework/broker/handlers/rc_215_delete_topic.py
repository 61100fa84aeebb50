"""DELETE_TOPIC_IN_BROKER (215): a topic with its messages and all offsets in it; 0 also where there is none.

Differences: its messages are unreachable at once and removed bit by bit. Its place in the log is not used again. Retry
topics of pop are not deleted along. Delayed messages that were sent to it are still delivered, to a topic of the same
name.
"""

from __future__ import annotations

from framework.broker.request import AfterCommit, Answer, Refusal, Request, ok, refuse
from framework.broker.store import dropped
from framework.broker.store.queues import Queue
from framework.broker.store.writer import Transaction
from framework.errors import FrameworkError
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.requests.admin import DeleteTopicRequest


def handle(request: Request) -> Answer:
    header = request.header(DeleteTopicRequest)
    node, name = request.node, header.topic
    if not name.strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if node.rules.is_own(name):
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
    topic = node.rules.topics.get(name)
    queues = node.store.queues
    gone: list[Queue] = []
    node.rules.topics.drop(name)
    node.offsets.drop_where(topic=name)
    node.progress.drop_where(topic=name)
    node.pulled = {key: offset for key, offset in node.pulled.items() if key[1] != name}
    node.stored.pop(name, None)
    node.rates = {key: rate for key, rate in node.rates.items() if key[1] != name}

    def restore() -> None:
        for queue in gone:
            queues.restore(queue)
        gone.clear()

    def change(transaction: Transaction) -> None:
        restore()  # this may be the second run, after the first was undone
        gone.extend(queues.of_topic(node.name, name))
        dropped.drop(transaction, gone)
        # Within the transaction: what is written to a topic of this name from here on goes to a new queue.
        for queue in gone:
            queues.forget(queue)

    def answer(_: None) -> RemotingCommand:
        node.store.sweep.start()
        return ok()

    def refused(error: FrameworkError) -> RemotingCommand:
        restore()
        if topic is not None and name not in node.rules.topics:
            node.rules.topics.put(name, topic)
        return refuse(ResponseCode.SYSTEM_ERROR, f"topic {name} was not deleted: {error}")

    return AfterCommit(change, answer, refused)
