"""A message on its way out: checked, keyed, compressed and put into the send request. Pure but for the codec's import.

What a producer may send is said in `model/sendable.py`. It knows neither queues' brokers nor connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from framework.client.producing.delays import BrokerTimer, Wish
from framework.errors import shorten
from framework.mistakes import MessageMistyped, MessageWrong
from framework.model import delay_levels
from framework.model.message import DELAY_LEVEL, SHARDING_KEY, UNIQUE_KEY, WAIT_STORE, Message
from framework.model.namespaces import wrap
from framework.model.queue import MessageQueue
from framework.model.reserved import AUTO_CREATE_TOPIC, RETRY_PREFIX
from framework.model.sendable import BODY_BYTES_MAX, check_body, check_properties, check_sendable
from framework.wire import batch, fastjson, properties
from framework.wire.codes import RequestCode
from framework.wire.command import ONE_WAY_BIT, RemotingCommand
from framework.wire.compression import COMPRESS_ABOVE, Compression, compressed
from framework.wire.fields import from_fields, plain_value
from framework.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX, Template
from framework.wire.requests.send import DEFAULT_QUEUES, SendAnswer

REQUEST_BYTES_MAX = FRAME_BYTES_MAX - HEADER_BYTES_MAX
"""Of a body, whatever brokers and a producer's `body_bytes_max` allow."""
BATCH_COUNT_MAX = 32_768  # far more than anybody waits for in one answer, which names each of them
_DEFAULT_QUEUES = str(DEFAULT_QUEUES)
READY_BODY_BYTES_MAX = 1024 * 1024  # a larger one goes where a frame's limit is looked at
PREPARED_BIT = 0x4  # in sysFlag: a half message, whose transaction is open


@plain_value
class SendResult:
    """A message that a broker stored."""

    message_id: str
    """The unique key: the same through all retries."""
    offset_message_id: str
    """Broker address and place in its log."""
    queue: MessageQueue
    queue_offset: int
    code: int = 0
    """0, or 10, 11, 12: stored, but not yet on disk or on a replica when the broker answered."""
    delay_level: int = 0
    """The level by which a broker without a timer delays it, where `delay` or `at` was asked for."""
    recall_handle: str = ""
    """What `Producer.recall` takes it back by, where it waits for a time of its own."""


@plain_value
class Outgoing:
    """What is the same for each attempt at sending."""

    topic: str
    body: bytes
    properties: str
    sys_flag: int
    message_ids: tuple[str, ...]
    born_ms: int
    messages: tuple[Message, ...]
    """As they were given: what a trace tells of them."""
    order_key: str | None = None
    """Whose queue it goes to."""
    is_batch: bool = False
    wish: Wish | None = None
    """When it is to be delivered, until a broker is chosen: what it says of that depends on the broker."""
    delay_level: int = 0

    @property
    def goes_in_batches(self) -> bool:
        """Whether brokers take it in a batch: no delay, no retry topic; a large one is worth compressing."""
        is_delayed = self.wish is not None or DELAY_LEVEL in self.messages[0].properties
        is_large = self.sys_flag != 0 and self.order_key is None
        return not (is_delayed or is_large or self.topic.startswith(RETRY_PREFIX))

    def timed(self, timer: BrokerTimer, now_ms: int) -> Outgoing:
        """As this broker takes it, where it is to wait."""
        assert self.wish is not None
        texts = timer.properties(self.wish, now_ms, self.topic)
        text = properties.joined(self.properties, texts)
        return replace(self, properties=text, wish=None, delay_level=int(texts.get(DELAY_LEVEL, 0)))

    def request(self, group: str, queue: MessageQueue) -> RemotingCommand:
        """The send to one queue."""
        # As `to_fields` writes a SendRequestV2, which costs more than all the rest of a small send; a test compares.
        fields = {
            "a": group, "b": self.topic, "c": AUTO_CREATE_TOPIC, "d": _DEFAULT_QUEUES, "e": str(queue.number),
            "f": str(self.sys_flag), "g": str(self.born_ms), "h": "0", "i": self.properties, "j": "0", "k": "false",
            "m": "true" if self.is_batch else "false", "n": queue.broker,
        }  # fmt: skip
        return RemotingCommand(self.code, fields, self.body)

    @property
    def code(self) -> RequestCode:
        """Which request it goes by."""
        return RequestCode.SEND_BATCH_MESSAGE if self.is_batch else RequestCode.SEND_MESSAGE_V2

    def frame_of(self, template: Template) -> Callable[[int], bytes] | None:
        """The same as a frame that lacks only its number; None where its bytes need a second look."""
        if len(self.body) > READY_BODY_BYTES_MAX or self.is_batch:
            return None
        properties = fastjson.quoted(self.properties).encode()
        return lambda number: template.frame(number, self.sys_flag, self.born_ms, properties, body=self.body)

    @property
    def is_half(self) -> bool:
        """Whether its transaction is still to be ended."""
        return bool(self.sys_flag & PREPARED_BIT)

    def marked(self, marks: Mapping[str, str], *, is_half: bool = False) -> Outgoing:
        """The same with properties of RocketMQ's own, which users may not give."""
        texts = properties.joined(self.properties, marks)
        return replace(self, properties=texts, sys_flag=self.sys_flag | (PREPARED_BIT if is_half else 0))


def send_template(group: str, queue: MessageQueue, *, is_one_way: bool = False) -> Template:
    """All sends of one group to one queue, but for the flags, the time and the properties of each."""
    command = Outgoing(queue.topic, b"", "", 0, (), 0, ()).request(group, queue)
    command.flag |= ONE_WAY_BIT if is_one_way else 0
    return Template(command, ("f", "g"), texts=("i",))


def prepare(
    message: Message,
    key: str,
    now_ms: int,
    *,
    delay_level: int = 0,
    wish: Wish | None = None,
    codec: Compression = Compression.ZLIB,
    compress_above: int = COMPRESS_ABOVE,
    body_bytes_max: int = BODY_BYTES_MAX,
    namespace: str = "",
) -> Outgoing:
    """One message, ready to be sent; ConfigurationError says what is wrong with it. `key` is used if it has none."""
    topic = wrap(namespace, message.topic)
    check_sendable(topic)
    check_body(topic, message.body, body_bytes_max)
    given = message.properties
    if given:
        check_properties(topic, given)
    texts = _sent(key, given)
    if DELAY_LEVEL in texts and (delay_level or wish is not None):
        raise MessageWrong(f"message to {topic}: a delay and property {DELAY_LEVEL}; give one of them")
    if delay_level:
        texts[DELAY_LEVEL] = str(_checked_level(delay_level))
    body, sys_flag = message.body, 0
    if len(body) > compress_above:
        body, sys_flag = compressed(body, codec, compress_above)
    if len(body) > REQUEST_BYTES_MAX:
        raise MessageWrong(
            f"message to {topic}: a body of {len(body)} bytes exceeds the {REQUEST_BYTES_MAX} of one request; keep it "
            "elsewhere and send where it is"
        )
    is_bare = not given and not delay_level
    text = f"{_BEFORE_KEY}{key}{_BEHIND_KEY}" if is_bare else _encoded(topic, texts)
    ids = (texts[UNIQUE_KEY],)
    return Outgoing(topic, body, text, sys_flag, ids, now_ms, (message,), message.order_key, wish=wish)


def prepare_batches(
    messages: Sequence[Message],
    keys: Sequence[str],
    now_ms: int,
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    namespace: str = "",
    is_placed: bool = False,
) -> list[Outgoing]:
    """Several messages of one topic as one request, or as few as their size allows: each is stored whole, in sequence
    in one queue, or not at all. `is_placed`: the caller has chosen the queue, so their order keys may differ.
    """
    if not messages:
        raise MessageWrong("a batch needs at least one message")
    topic = wrap(namespace, messages[0].topic)
    if topic.startswith(RETRY_PREFIX):
        raise MessageWrong(f"batch to {topic}: retry topics accept single messages only")
    check_sendable(topic)
    bare = messages[0].topic
    parts, all_ids = list[bytes](), list[str]()
    bytes_max = min(body_bytes_max, REQUEST_BYTES_MAX)
    keyed: dict[str | None, None] = {}
    for message, key in zip(messages, keys, strict=True):
        if message.topic != bare and wrap(namespace, message.topic) != topic:
            raise MessageWrong(f"batch to {topic}: a message is for {shorten(message.topic)}; send one batch per topic")
        body, given = message.body, message.properties
        if not 0 < len(body) <= bytes_max:
            check_body(topic, body, bytes_max)
        if given:
            check_properties(topic, given)
            if DELAY_LEVEL in given:
                raise MessageWrong(f"batch to {topic}: a batch cannot have delays; send the message alone")
            text = _encoded(topic, _sent(key, given))
        else:
            text = f"{_BEFORE_KEY}{key}{_BEHIND_KEY}"
        keyed[given.get(SHARDING_KEY)] = None
        parts.append(batch.written(body, text))
        all_ids.append(given.get(UNIQUE_KEY, key))
    order_keys = list(keyed)
    if len(order_keys) > 1 and not is_placed:
        shown = " and ".join("no order key" if key is None else f"order key {shorten(key)}" for key in order_keys[:2])
        raise MessageWrong(f"batch to {topic}: messages with {shown}: send one batch per key, or give the queue")
    return _batches(topic, parts, all_ids, messages, order_keys[0], now_ms, bytes_max)


def collected(several: Sequence[Outgoing], now_ms: int, *, body_bytes_max: int = BODY_BYTES_MAX) -> list[Outgoing]:
    """Messages for one place, each of which `prepare` made ready, as one batch, or as few as their size allows."""
    messages = [each.messages[0] for each in several]
    parts = [batch.written(message.body, each.properties) for message, each in zip(messages, several, strict=True)]
    ids = [each.message_ids[0] for each in several]
    bytes_max = min(body_bytes_max, REQUEST_BYTES_MAX)
    made, at = _batches(several[0].topic, parts, ids, messages, several[0].order_key, now_ms, bytes_max), 0
    for index, each in enumerate(made):
        if not each.is_batch:
            made[index] = several[at]  # too large for company: as it was made ready, perhaps compressed
        at += len(each.message_ids)
    return made


def _batches(
    topic: str, parts: Sequence[bytes], ids: Sequence[str], messages: Sequence[Message], order_key: str | None,
    now_ms: int, bytes_max: int,
) -> list[Outgoing]:  # fmt: skip
    made: list[Outgoing] = []
    for begin, end in _cuts([len(part) for part in parts], bytes_max):
        body, of_these, these = b"".join(parts[begin:end]), tuple(ids[begin:end]), tuple(messages[begin:end])
        if len(body) > bytes_max:  # one message, which has room by itself: its properties do not count there
            alone, texts, _ = batch.cut_at(body, 0)
            made.append(Outgoing(topic, alone, texts.decode(), 0, of_these, now_ms, these, order_key))
            continue
        made.append(Outgoing(topic, body, _OUTER, 0, of_these, now_ms, these, order_key, is_batch=True))
    return made


def listed(messages: object) -> list[Message]:
    """Those of a batch. A text would be a list of its letters."""
    is_list = isinstance(messages, Iterable) and not isinstance(messages, str | bytes)
    batch: list[Any] = list(messages) if is_list else [messages]  # type: ignore[call-overload]  # looked at above
    for each in batch:
        if not is_list or not isinstance(each, Message):
            raise MessageMistyped(f"send_batch: {shorten(each)}: give a list of Message(topic, body)")
    return batch


def _cuts(sizes: Sequence[int], bytes_max: int) -> list[tuple[int, int]]:
    """Where one request ends and the next begins. One message may be larger than that, by its properties: alone."""
    cuts, begin, total = list[tuple[int, int]](), 0, 0
    for index, size in enumerate(sizes):
        if index > begin and (total + size > bytes_max or index - begin == BATCH_COUNT_MAX):
            cuts.append((begin, index))
            begin, total = index, 0
        total += size
    return [*cuts, (begin, len(sizes))]


def _sent(key: str, given: Mapping[str, str]) -> dict[str, str]:
    return {UNIQUE_KEY: key, WAIT_STORE: "true", **given}


_BEFORE_KEY, _, _BEHIND_KEY = properties.encode(_sent("?", {})).partition("?")
"""Of a message without properties of its own, the text of those that each has."""
_OUTER = properties.encode({WAIT_STORE: "true"})
"""Of a batch."""


def _encoded(topic: str, texts: Mapping[str, str]) -> str:
    try:
        return properties.encode(texts)
    except MessageWrong as error:
        raise MessageWrong(f"message to {topic}: {error}") from None


def _checked_level(level: int) -> int:
    if not isinstance(level, int) or isinstance(level, bool):
        raise MessageMistyped(
            f"delay_level={shorten(level)}: write a number from 1 to {delay_levels.LEVEL_MAX}; a time such as "
            '"10s" goes to delay='
        )
    if not 0 < level <= delay_levels.LEVEL_MAX:
        raise MessageWrong(f"delay_level {level}: use 1 to {delay_levels.LEVEL_MAX}, or 0 for no delay")
    return level


def results_of(outgoing: Outgoing, queue: MessageQueue, answer: RemotingCommand, topic: str) -> list[SendResult]:
    """One a message. A batch lies in one queue at consecutive offsets, its offset ids joined by commas."""
    fields, code, level = answer.fields, int(answer.code), outgoing.delay_level
    number, offset = fields.get("queueId", ""), fields.get("queueOffset", "")
    if len(outgoing.message_ids) == 1 and "msgId" in fields and _is_small(number) and _is_small(offset):
        # As below, without an object for the header.
        place, handle = MessageQueue(topic, queue.broker, int(number)), fields.get("recallHandle", "")
        offset_id = fields["msgId"].partition(",")[0]
        return [SendResult(outgoing.message_ids[0], offset_id, place, int(offset), code, level, handle)]
    header = from_fields(SendAnswer, fields)
    place, handle = MessageQueue(topic, queue.broker, header.queue_id), header.recall_handle or ""
    offset_ids = header.msg_id.split(",")
    offset_ids += [""] * (len(outgoing.message_ids) - len(offset_ids))
    return [
        SendResult(message_id, offset_id, place, offset, code, level, handle)
        for offset, (message_id, offset_id) in enumerate(
            zip(outgoing.message_ids, offset_ids, strict=False), header.queue_offset
        )
    ]


def _is_small(number: str) -> bool:
    """Whether this is a number of few digits, as nearly all are: there is no more to be asked."""
    return len(number) < 10 and number.isdecimal() and number.isascii()
