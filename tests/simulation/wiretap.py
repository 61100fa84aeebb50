"""Wiretap: reads the frames that pass between processes, and may steal an answer.

It pairs each answer with its request on the same connection, so that it can say whose answer came twice or unasked, and
tells the recorder when a broker confirmed the copy of a failed message. Of a frame's header it reads three numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Protocol

from framework.model.message import UNIQUE_KEY
from framework.model.reserved import RETRY_PREFIX
from framework.testing.sim.streams import Stream
from framework.testing.sim.transport import SimTransport
from framework.wire import frame, properties
from framework.wire.codes import RequestCode, request_name
from tests.wire.frames import decode_frame

_CODE = re.compile(rb'"code":(-?\d+)').search
_FLAG = re.compile(rb'"flag":(\d+)').search
_NUMBER = re.compile(rb'"opaque":(-?\d+)').search
_TOKEN = re.compile(rb"token-\d+-[0-9A-F]+").search
ANSWER = 1
ONE_WAY = 2
STRANGE_MAX = 100
NOTHING_KEPT = "kept by nobody"
"""Remark of an answer: a broker says yes to a send-back as a stock one does that has no room for it."""

_RECORD_HEAD = 88
"""Of a stored message, as far as its body's length; behind that come the body, and the length of its topic."""

OnCopy = Callable[[str, str], None]
OnCommit = Callable[[int, str, str, int, int], None]
"""Told the broker's port, group, topic, number of the queue and offset."""

POPS = frozenset(
    {
        RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE, RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    }
)  # fmt: skip


class ReadsPops(Protocol):
    """Told of requests about popped messages, and of their answers; both as whole frames."""

    def asks(self, key: tuple[int, int], who: str, whole: bytes) -> None: ...
    def answers(self, key: tuple[int, int], code: int, whole: bytes) -> None: ...


class Wiretap:
    """Fits `SimNetwork.tap`."""

    def __init__(self, on_copy: OnCopy) -> None:
        self.strange: list[tuple[float, str, str]] = []
        """(when, who, what) of answers that nobody was waiting for."""
        self.stolen = 0
        self.on_commit: OnCommit = lambda port, group, topic, number, offset: None
        """Told of each commit that was answered with yes."""
        self._commits: dict[tuple[int, int], tuple[int, str, str, int, int]] = {}
        self._on_copy = on_copy
        self._asked: dict[tuple[int, int], int] = {}
        """(asking end, number) -> code of the request; removed by its answer."""
        self.on_ask: Callable[[str, str, str], None] = lambda who, group, message_id: None
        """Told of each request for a copy: by whom, the group, the message."""
        self._copies: dict[tuple[int, int], tuple[str, str]] = {}
        self._tokens: dict[tuple[int, int], str] = {}
        self.on_published: Callable[[str], None] = lambda token: None
        """Told of each token (see `Recorder.returned`) in a message that a broker says to have stored."""
        self.pops: ReadsPops | None = None
        """Reads what is said of popped messages, where a group pops."""
        self.on_reply_taken: Callable[[str], None] = lambda who: None
        """Told which process said to have taken a reply."""
        self._steal_from = ""
        self._steal_codes: Collection[int] = ()
        self._steal_left = 0
        self.damaged = 0
        self._damaging, self._damage_share = "", 0.0
        self._damage_chance: Stream | None = None

    def steal(self, host: str, count: int, codes: Collection[int] = ()) -> None:
        """Swallow the next answers that leave this host (to requests of these codes) and break their connections."""
        self._steal_from, self._steal_left, self._steal_codes = host, count, codes

    def damage(self, host: str, share: float, chance: Stream) -> None:
        """Damage so many of the pulls that this host answers from now on, each in its first record."""
        self._damaging, self._damage_share, self._damage_chance = host, share, chance

    def stop_damaging(self) -> None:
        self._damage_share = 0.0

    def stop_stealing(self) -> None:
        self._steal_left = 0

    def __call__(self, transport: SimTransport, data: bytes) -> bytes:
        """What goes on its way: the same, damaged, or nothing."""
        at, end = 0, len(data)
        passes = True
        while at + frame.PREFIX_BYTES <= end:
            length = int.from_bytes(data[at : at + 4])
            word = int.from_bytes(data[at + 4 : at + 8])
            header = data[at + 8 : at + 8 + (word & 0xFFFFFF)]
            if self._damage_share and transport.here == self._damaging and self._is_pulled(transport, header):
                body_at = at + 8 + (word & 0xFFFFFF)
                data = data[:body_at] + self._one_byte_off(data[body_at : at + 4 + length]) + data[at + 4 + length :]
            if not self._frame(transport, header, data[at + 4 : at + 4 + length]):
                passes = False
            at += 4 + length
        return data if passes else b""

    def _is_pulled(self, transport: SimTransport, header: bytes) -> bool:
        """Whether this answers a pull with messages."""
        code, flag, number = _CODE(header), _FLAG(header), _NUMBER(header)
        if code is None or flag is None or number is None or not int(flag[1]) & ANSWER or int(code[1]):
            return False
        return self._asked.get((transport.peer.trace_number, int(number[1]))) == RequestCode.PULL_MESSAGE

    def _one_byte_off(self, body: bytes) -> bytes:
        """In the first record, where a length, a checksum or a magic number tells: no reader could see the rest."""
        chance = self._damage_chance
        if chance is None or len(body) < _RECORD_HEAD or not chance.happens(self._damage_share):
            return body
        topic_at = _RECORD_HEAD + int.from_bytes(body[_RECORD_HEAD - 4 : _RECORD_HEAD])
        at = chance.pick((*range(12), *range(_RECORD_HEAD - 4, topic_at + 1)))
        self.damaged += 1
        return body[:at] + bytes((body[at] ^ 1 << chance.below(8),)) + body[at + 1 :]

    def _frame(self, transport: SimTransport, header: bytes, whole: bytes) -> bool:
        code, flag, number = _CODE(header), _FLAG(header), _NUMBER(header)
        if code is None or flag is None or number is None:
            return True  # a compact header: its sender is not ours
        bits, opaque = int(flag[1]), int(number[1])
        if bits & ONE_WAY:
            return True
        if bits & ANSWER:
            return self._answer(transport, opaque, int(code[1]), whole, is_true=NOTHING_KEPT.encode() not in header)
        self._asked[transport.trace_number, opaque] = int(code[1])
        if self.pops is not None and int(code[1]) in POPS:
            self.pops.asks((transport.trace_number, opaque), transport.node.name, whole)
        if int(code[1]) == RequestCode.CONSUMER_SEND_MSG_BACK:
            fields = decode_frame(whole).fields
            self._asks(transport, opaque, fields["group"], fields["originMsgId"])
        elif int(code[1]) == RequestCode.UPDATE_CONSUMER_OFFSET:
            fields = decode_frame(whole).fields
            port = transport.get_extra_info("peername")[1]
            place = fields["consumerGroup"], fields["topic"], int(fields["queueId"]), int(fields["commitOffset"])
            self._commits[transport.trace_number, opaque] = (port, *place)
        elif int(code[1]) == RequestCode.SEND_MESSAGE_V2 and b'"%RETRY%' in header:
            self._look_for_burial(transport, opaque, whole)
        elif int(code[1]) == RequestCode.SEND_MESSAGE_V2 and (found := _TOKEN(whole)) is not None:
            self._tokens[transport.trace_number, opaque] = found[0].decode()
        return True

    def _look_for_burial(self, transport: SimTransport, opaque: int, whole: bytes) -> None:
        """A plain send to a retry topic is a copy as well: an orderly group's dead letter, or a send-back's other road.

        `b` is the topic, `i` the properties.
        """
        fields = decode_frame(whole).fields
        message_id = properties.decode(fields["i"])[UNIQUE_KEY]
        self._asks(transport, opaque, fields["b"].removeprefix(RETRY_PREFIX), message_id)

    def _asks(self, transport: SimTransport, opaque: int, group: str, message_id: str) -> None:
        self._copies[transport.trace_number, opaque] = group, message_id
        self.on_ask(transport.node.name, group, message_id)

    def _answer(self, transport: SimTransport, opaque: int, answer: int, whole: bytes, *, is_true: bool) -> bool:
        key = (transport.peer.trace_number, opaque)
        code = self._asked.pop(key, None)
        if code is None:
            if len(self.strange) < STRANGE_MAX:
                what = f"an answer with code {answer} to request {opaque}, which was answered before or never asked"
                self.strange.append((transport.loop.now, transport.node.name, what))
            return True
        if self.pops is not None and code in POPS:
            self.pops.answers(key, answer, whole)
        if code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            self.on_reply_taken(transport.node.name)
        commit = self._commits.pop(key, None)
        if commit is not None and answer == 0:
            self.on_commit(*commit)
        token = self._tokens.pop(key, None)
        if token is not None and answer == 0:
            self.on_published(token)
        copy = self._copies.pop(key, None)
        if copy is not None and answer == 0 and is_true:
            self._on_copy(*copy)
        return not (self._steal_left and self._steals(transport, code))

    def _steals(self, transport: SimTransport, code: int) -> bool:
        if transport.here != self._steal_from or (self._steal_codes and code not in self._steal_codes):
            return False
        self._steal_left -= 1
        self.stolen += 1
        transport.loop.note("stolen", request_name(code))
        transport.break_off()
        return True
