"""Scripted dialogues with one broker, for two brokers to be compared: transactions, replies, times, batches and POP.

Each is a generator of what was seen, step by step. What differs by broker in equal answers (places, moments,
receipts' revive queues) is left out here; what the box answers otherwise on purpose is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from framework.wire import properties
from framework.wire.bodies.heartbeat import ConsumerData, Heartbeat, ProducerData
from framework.wire.bodies.pop import BatchAck, BatchAckEntry
from framework.wire.codes import RequestCode
from framework.wire.command import RemotingCommand
from framework.wire.fields import RequestHeader, command_for, from_fields, to_fields
from framework.wire.ids import parse_offset_message_id
from framework.wire.requests import admin, group, offset
from framework.wire.requests.pop import (
    AckRequest,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeRequest,
    PopAnswer,
    PopRequest,
)
from framework.wire.requests.pull import SUBSCRIPTION, PullRequest
from framework.wire.requests.receipts import RECEIPT, Receipt, read_receipt, read_starts
from framework.wire.requests.send import RecallRequest, SendRequest, SendRequestV2
from framework.wire.requests.transaction import COMMIT, ROLLBACK, EndTransactionRequest
from framework.wire.stored import Record, decode_records
from tests.interop.blocking import Blocking, record_seen, seen
from tests.patience import PATIENCE_S
from tests.wire.batches import BatchedMessage
from tests.wire.batches import encode as encode_batch

BROKER = "broker-a"
LONG_AGO_MS = 1_600_000_000_000
PREPARED = 4
Seen = dict[str, Any]
Story = Iterator[tuple[str, Any]]


class Desk:
    """What a script has: connections to one broker, and a topic and a group of its own."""

    def __init__(self, address: str, suffix: str) -> None:
        self.a, self.b = Blocking(address), Blocking(address)
        self.topic, self.other, self.group = f"talk-{suffix}", f"talk-other-{suffix}", f"talk-g-{suffix}"
        self.producers, self.client_id = f"talk-p-{suffix}", f"talker-{suffix}"
        self._count = 0
        self._ended: set[int] = set()  # the places of half messages that had their end
        for name in (self.topic, self.other):
            assert self.a.ask(command_for(topic_of(name))).code == 0

    def close(self) -> None:
        self.a.close()
        self.b.close()

    def ask(self, header: RequestHeader, body: bytes = b"") -> RemotingCommand:
        return self.a.ask(command_for(header, body))

    def beat(self) -> Seen:
        """The other connection is a producer and a member from now on."""
        whole = Heartbeat(
            client_id=self.client_id, producers=(ProducerData(group=self.producers),),
            consumers=(ConsumerData(group=self.group),),
        )  # fmt: skip
        return seen(self.b.ask(command_for(group.HeartbeatRequest(), whole.encode())))

    def message(self, body: bytes, *, flag: int = 0, code: int | None = None, **texts: Any) -> RemotingCommand:
        self._count += 1
        kind = SendRequest if code == RequestCode.SEND_REPLY_MESSAGE else SendRequestV2
        header = kind(
            producer_group=self.producers, topic=texts.pop("topic", self.topic), default_topic="TBW102",
            default_topic_queue_nums=1, queue_id=0, sys_flag=flag, born_timestamp=int(time.time() * 1000), flag=0,
            properties=properties.encode({**texts, "UNIQ_KEY": f"{self.client_id}-{self._count}", "WAIT": "true"}),
            reconsume_times=0, unit_mode=False, batch=False,
        )  # fmt: skip
        return RemotingCommand(code or header.CODE, to_fields(header), body)

    def send(self, body: bytes, **how: Any) -> RemotingCommand:
        return self.a.ask(self.message(body, **how))

    def half(self, body: bytes, **texts: Any) -> RemotingCommand:
        return self.send(body, flag=PREPARED, TRAN_MSG="true", PGROUP=self.producers, **texts)

    def end(self, half: RemotingCommand, how: int, **changes: Any) -> RemotingCommand:
        place = parse_offset_message_id(half.fields["msgId"])
        assert place is not None
        header: dict[str, Any] = {
            "producer_group": self.producers, "tran_state_table_offset": int(half.fields["queueOffset"]),
            "commit_log_offset": place.commit_log_offset, "commit_or_rollback": how, "msg_id": "?", "topic": self.topic,
        }  # fmt: skip
        request = EndTransactionRequest(**{**header, **changes})
        self._ended.add(request.commit_log_offset)
        return self.ask(request)

    def stored(self, count: int, topic: str = "") -> list[Seen]:
        """The messages of the topic, once there are so many."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self._records(topic or self.topic)) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        views = [record_seen(record) for record in found]
        for view in views:
            view["prepared"] = view["prepared"] in self._ended  # a box's first half message lies at 0
        return views

    def _records(self, topic: str) -> list[Record]:
        request = PullRequest(
            consumer_group=self.group, topic=topic, queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=SUBSCRIPTION,
            commit_offset=0, suspend_timeout_millis=0, sub_version=1, subscription="*",
        )  # fmt: skip
        answer = self.ask(request)
        return decode_records(answer.body) if answer.code == 0 else []

    def pop(self, **changes: Any) -> RemotingCommand:
        header: dict[str, Any] = {
            "consumer_group": self.group, "topic": self.topic, "queue_id": 0, "max_msg_nums": 32,
            "invisible_time": 60_000, "poll_time": 0, "born_time": int(time.time() * 1000), "init_mode": 0,
            "exp": "*", "exp_type": "TAG",
        }  # fmt: skip
        return self.ask(PopRequest(**{**header, **changes}))

    def popped(self, count: int, **changes: Any) -> RemotingCommand:
        """The first pop that brings so many: a stock broker shows what was sent, or comes back, some moments later."""
        deadline = time.monotonic() + PATIENCE_S
        while (answer := self.pop(**changes)).code != 0 and count and time.monotonic() < deadline:
            time.sleep(0.1)
        return answer

    def ack(self, receipt: Receipt, **changes: Any) -> RemotingCommand:
        return self.ask(AckRequest(**{**self._place(receipt), **changes}))

    def change(self, receipt: Receipt, invisible_ms: int, **changes: Any) -> RemotingCommand:
        words = {**self._place(receipt), "invisible_time": invisible_ms, **changes}
        return self.ask(ChangeInvisibleTimeRequest(**words))

    def _place(self, receipt: Receipt) -> dict[str, Any]:
        topic = self.topic if receipt.retry == "0" else f"%RETRY%{self.group}_{self.topic}"
        return {
            "consumer_group": self.group, "topic": topic, "queue_id": receipt.queue, "extra_info": receipt.text,
            "offset": receipt.offset,
        }  # fmt: skip


def topic_of(name: str) -> RequestHeader:
    return admin.UpdateTopicRequest(
        topic=name, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6, order=False
    )


def told(answer: RemotingCommand, *but: str) -> Seen:
    """An answer, whether a refusal says why, and without fields that are a broker's own affair."""
    view = seen(answer)
    for name in but:
        view.get("fields", {}).pop(name, None)
    return {**view, "says why": bool(answer.remark)} if answer.code else view


def receipts(answer: RemotingCommand) -> list[Receipt]:
    """As Java's client puts them together."""
    said = from_fields(PopAnswer, answer.fields)
    starts = read_starts(said.start_offset_info or "")
    return [
        read_receipt(record.properties[RECEIPT])
        if RECEIPT in record.properties
        else Receipt(
            starts["0", record.queue_id], said.pop_time, said.invisible_time, said.revive_qid, "0", BROKER,
            record.queue_id, record.queue_offset,
        )
        for record in decode_records(answer.body)
    ]  # fmt: skip


def pop_seen(answer: RemotingCommand) -> Seen:
    view = told(answer, "popTime", "reviveQid")
    for record in view.get("body", []):
        for name in (RECEIPT, "1ST_POP_TIME"):
            if name in record["properties"]:
                record["properties"][name] = "?"
    return view


def transactions(desk: Desk) -> Story:
    """Half, commit, rollback, an end that does not fit, one that came before."""
    yield "beat", desk.beat()
    committed, rolled, odd = (desk.half(body, TAGS="vip", KEYS="k1") for body in (b"yes", b"no", b"odd"))
    yield "half", told(committed, "queueOffset")
    yield "nothing is seen", desk.stored(0)
    yield "commit", told(desk.end(committed, COMMIT))
    yield "rollback", told(desk.end(rolled, ROLLBACK))
    yield "another group", told(desk.end(odd, COMMIT, producer_group="strangers"))
    yield "another offset", told(desk.end(odd, COMMIT, tran_state_table_offset=1 << 40))
    yield "no half message", told(desk.end(odd, COMMIT, commit_log_offset=1 << 50))
    yield "commit of the third", told(desk.end(odd, COMMIT, topic="named-otherwise"))
    yield "delivered", desk.stored(2)
    yield "a second commit", told(desk.end(committed, COMMIT))
    yield "a commit after a rollback", told(desk.end(rolled, COMMIT))


def checks(desk: Desk) -> Story:
    """The question for a half message, and its answers."""
    yield "beat", desk.beat()
    half = desk.half(b"asked", TAGS="vip", KEYS="k1")
    question = desk.b.hear(RequestCode.CHECK_TRANSACTION_STATE, PATIENCE_S)
    (record,) = decode_records(question.body)
    view = record_seen(record)
    fields = {name: "?" if name in {"tranStateTableOffset", "commitLogOffset", "offsetMsgId"} else text
              for name, text in sorted(question.fields.items())}  # fmt: skip
    yield "question", {"fields": fields, "one way": bool(question.flag & 2), "record": {**view, "offset": "?"}}
    places = {
        "tran_state_table_offset": int(question.fields["tranStateTableOffset"]),
        "commit_log_offset": int(question.fields["commitLogOffset"]), "from_transaction_check": True,
    }  # fmt: skip
    yield "answer", told(desk.end(half, COMMIT, **places))
    yield "delivered", desk.stored(1)


def replies(desk: Desk) -> Story:
    """A reply that is handed on, one for a client that is not there, and one that names none."""
    yield "beat", desk.beat()
    for code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
        texts: Seen = {"REPLY_TO_CLIENT": desk.client_id, "CORRELATION_ID": "c-1", "MSG_TYPE": "reply", "TTL": "3000"}
        desk.a.begin(desk.message(b"the answer", code=code, **texts))
        pushed = desk.b.hear(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, PATIENCE_S)
        said: Seen = {name: "?" if name in {"bornHost", "bornTimestamp", "storeHost", "storeTimestamp"} else text
                for name, text in sorted(pushed.fields.items())}  # fmt: skip
        said["properties"] = sorted(
            (name, "?" if name == "PUSH_REPLY_TIME" else text)
            for name, text in properties.decode(pushed.fields["properties"]).items()
        )
        yield f"pushed by {code}", {"fields": said, "body": pushed.body.hex(), "one way": bool(pushed.flag & 2)}
        yield f"answer of {code}", told(desk.a.end(), "queueOffset")
        yield f"nobody, {code}", told(desk.send(b"?", code=code, REPLY_TO_CLIENT="gone"), "queueOffset", "queueId")
        yield f"no client, {code}", told(desk.send(b"?", code=code), "queueOffset", "queueId")


def times(desk: Desk) -> Story:
    """Delays by the timer, and recalls that do and do not fit."""

    def sent(answer: RemotingCommand) -> Seen:
        view = told(answer, "queueOffset", "queueId")
        view.get("fields", {}).pop("recallHandle", None)
        return {**view, "handle": bool(answer.fields.get("recallHandle"))}

    soon, later = desk.send(b"soon", TIMER_DELAY_SEC="3"), desk.send(b"later", TIMER_DELAY_SEC="9", TAGS="red")
    yield "sent", [sent(soon), sent(later)]
    yield "by a level", sent(desk.send(b"level", DELAY="1"))
    yield "too long", sent(desk.send(b"never", TIMER_DELAY_SEC="99999999"))
    handle = later.fields["recallHandle"]
    for name, topic, text in (
        ("no handle", desk.topic, "nonsense"), ("empty", desk.topic, ""), ("another topic", desk.other, handle),
        ("no topic", f"{desk.topic}-absent", handle), ("taken back", desk.topic, handle),
    ):  # fmt: skip
        yield name, told(desk.ask(RecallRequest(topic=topic, recall_handle=text)))
    yield "delivered", sorted(view["body"] for view in desk.stored(2))
    time.sleep(10)  # what was taken back would come now
    yield "and nothing more", sorted(view["body"] for view in desk.stored(2))
    yield "too late", told(desk.ask(RecallRequest(topic=desk.topic, recall_handle=soon.fields["recallHandle"])))


def batches(desk: Desk) -> Story:
    """Batches and one-way sends, with each field that counts."""

    def batched(*parts: tuple[bytes, dict[str, str]], flag: int = 0, **texts: Any) -> RemotingCommand:
        header = from_fields(SendRequestV2, desk.message(b"", flag=flag, **texts).fields)
        body = encode_batch([BatchedMessage(each, words) for each, words in parts])
        fields = {**to_fields(header), "m": "true"}
        return desk.a.ask(RemotingCommand(RequestCode.SEND_BATCH_MESSAGE, fields, body))

    def sent(answer: RemotingCommand) -> Seen:
        return {**told(answer, "batchUniqId"), "ids": answer.fields.get("msgId", "").count(",")}

    yield (
        "three",
        sent(batched(*((b"%d" % i, {"TAGS": "red", "KEYS": f"k{i}", "UNIQ_KEY": f"u{i}"}) for i in range(3)))),
    )
    yield "keyed", sent(batched((b"x", {"__SHARDINGKEY": "7", "UNIQ_KEY": "u4"}), __SHARDINGKEY="7"))
    desk.a.say(desk.message(b"said", TAGS="blue", KEYS="k9"))
    yield "delivered", desk.stored(5)
    yield "half ones", sent(batched((b"h", {"UNIQ_KEY": "u5"}), flag=PREPARED))
    yield "still", len(desk.stored(5))


def pops(desk: Desk) -> Story:
    """Pop, acknowledge, hold longer, come back; filters; what does not fit."""
    yield "nothing there", pop_seen(desk.pop())
    for number, tag in enumerate(("red", "blue", "red", "red", "blue", "red")):
        assert desk.send(b"%d" % number, TAGS=tag, KEYS=f"k{number}").code == 0
    desk.stored(6)
    first = desk.popped(1, max_msg_nums=2)
    yield "two", pop_seen(first)
    one, two = receipts(first)
    yield "acknowledged", told(desk.ack(one))
    yield "once more", told(desk.ack(one))
    longer = desk.change(two, 40_000)
    yield "held longer", told(longer, "popTime", "reviveQid")
    said = from_fields(ChangeInvisibleTimeAnswer, longer.fields)
    renewed = two.renewed(said.pop_time, said.invisible_time, said.revive_qid)
    yield "its ack", told(desk.ack(renewed))
    red = desk.popped(1, exp="red", max_msg_nums=32)
    yield "by its tag", pop_seen(red)
    some = receipts(red)
    bits = sum(1 << (each.offset - some[0].offset) for each in some[:2])
    entry = BatchAckEntry(
        group=desk.group, topic=desk.topic, retry="0", start_offset=some[0].offset, queue_id=0,
        revive_queue_id=some[0].revive_queue, pop_time=some[0].popped_ms, invisible_time=some[0].invisible_ms,
        bits=bits.to_bytes(1, "little"),
    )  # fmt: skip
    asked = BatchAck(broker_name=BROKER, acks=(entry,)).encode()
    yield "batch of acks", told(desk.a.ask(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, {}, asked)))
    yield (
        "empty batch",
        told(desk.a.ask(RemotingCommand(RequestCode.BATCH_ACK_MESSAGE, {}, BatchAck(broker_name=BROKER).encode()))),
    )
    yield "given back", told(desk.change(some[2], 1_000), "popTime", "reviveQid")
    again = desk.popped(1)
    yield "back", pop_seen(again)
    yield "its last ack", [told(desk.ack(each)) for each in receipts(again)]
    yield "nothing left", pop_seen(desk.pop())
    yield "no topic", pop_seen(desk.pop(topic=f"{desk.topic}-absent"))
    yield "too many", pop_seen(desk.pop(max_msg_nums=33))
    yield "no queue", pop_seen(desk.pop(queue_id=7))
    yield "too old", pop_seen(desk.pop(born_time=LONG_AGO_MS, poll_time=1))
    yield "no such offset", told(desk.ack(one._replace(offset=999), offset=999))
    yield "ack of no queue", told(desk.ack(one._replace(queue=7)))
    yield "end", told(desk.ask(offset.MaxOffsetRequest(topic=desk.topic, queue_id=0)))


STORIES: tuple[Callable[[Desk], Story], ...] = (transactions, checks, replies, times, batches, pops)

EXCUSED = {
    "a commit after a rollback": (
        r"transactions: a commit after a rollback\.code: RocketMQ 0, the box 1",
        r"transactions: a commit after a rollback\.says why: RocketMQ absent, the box True",
    ),
    "the question for a half message": (
        r"checks: question\.fields\.topic: RocketMQ RMQ_SYS_TRANS_HALF_TOPIC, the box talk-.*",
        r"checks: question\.record\.properties\.WAIT: RocketMQ false, the box true",
    ),
    "half messages in a batch": (r"batches: half ones\.code: RocketMQ 13, the box 16",),
    "pops that bring nothing": (
        r"pops: .*\.fields\.(invisibleTime|restNum): RocketMQ 0, the box absent",
        r"pops: nothing (there|left)\.fields\.(msg|start)OffsetInfo: RocketMQ , the box absent",
    ),
    "an empty batch of acknowledgements": (r"pops: empty batch\.says why: RocketMQ False, the box True",),
}
"""The rows of the table under "Dialogues" in docs/broker-requests.md, and the lines that each excuses."""
