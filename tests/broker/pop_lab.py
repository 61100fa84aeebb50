"""Popping as tests do it: a broker with a topic, pops with their receipts, acknowledgements and renewals."""

from __future__ import annotations

from typing import Any

from framework.broker.store.topics import Topic
from framework.wire.codes import RequestCode as Code
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import from_fields, to_fields
from framework.wire.requests.pop import (
    AckRequest,
    ChangeInvisibleTimeRequest,
    PopAnswer,
    PopRequest,
)
from framework.wire.requests.receipts import Receipt, read_receipt, read_starts
from framework.wire.stored import Record, decode_records
from tests.broker.broker_lab import BrokerLab

RETRY = "%RETRY%g_t"


def make(queues: int = 1, **settings: Any) -> BrokerLab:
    lab = BrokerLab(**settings)
    lab.node.rules.topics.put("t", Topic(name="t", read_queues=queues, write_queues=queues))
    return lab


def pop_command(lab: BrokerLab, **changes: Any) -> RemotingCommand:
    header = PopRequest(
        **{
            "consumer_group": "g", "topic": "t", "queue_id": -1, "max_msg_nums": 32, "invisible_time": 60_000,
            "poll_time": 0, "born_time": lab.clock.now_ms(), "init_mode": 0, **changes,
        }
    )  # fmt: skip
    return RemotingCommand(Code.POP_MESSAGE, to_fields(header))


def receipts(answer: RemotingCommand) -> list[tuple[Record, Receipt]]:
    """Each message with its receipt, put together as Java's client does."""
    assert answer.code == 0, answer.remark
    said = from_fields(PopAnswer, answer.fields)
    starts = read_starts(said.start_offset_info or "")
    found = []
    for record in decode_records(answer.body):
        text = record.properties.get("POP_CK")
        assert record.topic == "t"
        if text is None:
            receipt = Receipt(
                starts["0", record.queue_id], said.pop_time, said.invisible_time, said.revive_qid, "0", "broker-a",
                record.queue_id, record.queue_offset,
            )  # fmt: skip
        else:
            receipt = read_receipt(text)
        found.append((record, receipt))
    return found


def pop(lab: BrokerLab, **changes: Any) -> list[tuple[Record, Receipt]]:
    answer = lab.answer(pop_command(lab, **changes))
    return [] if answer.code == ResponseCode.POLLING_TIMEOUT else receipts(answer)


def bodies(popped: list[tuple[Record, Receipt]]) -> list[bytes]:
    return [record.body for record, _ in popped]


def real_topic(receipt: Receipt) -> str:
    return "t" if receipt.retry == "0" else RETRY


def ack(lab: BrokerLab, receipt: Receipt, **changes: Any) -> RemotingCommand:
    header = AckRequest(
        **{
            "consumer_group": "g", "topic": real_topic(receipt), "queue_id": receipt.queue, "extra_info": receipt.text,
            "offset": receipt.offset, **changes,
        }
    )  # fmt: skip
    return lab.answer(RemotingCommand(Code.ACK_MESSAGE, to_fields(header)))


def change(lab: BrokerLab, receipt: Receipt, invisible_ms: int, **changes: Any) -> RemotingCommand:
    header = ChangeInvisibleTimeRequest(
        **{
            "consumer_group": "g", "topic": real_topic(receipt), "queue_id": receipt.queue, "extra_info": receipt.text,
            "offset": receipt.offset, "invisible_time": invisible_ms, **changes,
        }
    )  # fmt: skip
    return lab.answer(RemotingCommand(Code.CHANGE_MESSAGE_INVISIBLETIME, to_fields(header)))


def fill(lab: BrokerLab, *texts: bytes, **changes: Any) -> None:
    for text in texts:
        assert lab.send("t", text, **changes).code == 0
