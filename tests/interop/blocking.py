"""One connection to a broker, asked one thing at a time: the client by which tests compare two brokers.

Nothing here retries, routes or waits for anything but the answer, so that what is seen is what the broker did.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from framework.errors import ProtocolError
from framework.wire import dialect
from framework.wire.codes import ResponseCode
from framework.wire.command import RemotingCommand
from framework.wire.connection import Connection
from framework.wire.stored import Record, decode_records
from tests.patience import PATIENCE_S

# What differs from broker to broker, and from one moment to the next, in answers that are equal.
_MOMENTS = frozenset(
    {
        "lastUpdateTimestamp", "lastTimestamp", "minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime",
        "indexLastUpdateTimestamp", "indexLastUpdatePhyoffset", "timestamp", "storeTime",
    }
)  # fmt: skip
_NOISE = frozenset(
    {"brokerAddr", "msgId", "transactionId", "clientAddr", "consumeTps", "topicPutTps", "dataVersion", "physicOffset"}
)
_PROPERTIES = frozenset({"UNIQ_KEY", "ORIGIN_MESSAGE_ID", "TIMER_OUT_MS", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS"})


class Blocking:
    """One connection; closed by `close`, or by the broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._connection: Connection[bool] = Connection()
        self._heard: list[RemotingCommand] = []
        """What the broker asked or said by itself."""

    def ask(self, command: RemotingCommand) -> RemotingCommand:
        """The answer. What the broker asks meanwhile is answered with 0 where it waits for that."""
        self.begin(command)
        return self.end()

    def begin(self, command: RemotingCommand) -> None:
        """Ask, and go on; `end` waits for the answer."""
        self._socket.sendall(self._connection.request(command, token=True))

    def end(self) -> RemotingCommand:
        while True:
            if (answer := self._read()) is not None:
                return answer

    def say(self, command: RemotingCommand) -> None:
        """Send what is never answered."""
        self._socket.sendall(self._connection.one_way(command))

    def hear(self, code: int, patience_s: float) -> RemotingCommand:
        """What the broker asks by itself with this code; raises TimeoutError where it does not in that time."""
        self._socket.settimeout(patience_s)
        try:
            while True:
                for command in self._heard:
                    if command.code == code:
                        self._heard.remove(command)
                        return command
                self._read()
        finally:
            self._socket.settimeout(PATIENCE_S)

    def _read(self) -> RemotingCommand | None:
        """What comes next: the answer to `begin` if it is there."""
        data = self._socket.recv(1 << 20)
        if not data:
            raise ProtocolError("the broker closed the connection")
        answer = None
        for token, command in self._connection.receive_data(data):
            if token:
                answer = command
            elif not command.is_answer:
                self._heard.append(command)
                self._socket.sendall(self._connection.answer(command, RemotingCommand(ResponseCode.SUCCESS)))
        return answer

    def again(self) -> Blocking:
        """Another connection to the same broker."""
        return Blocking(self._address)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def seen(answer: RemotingCommand) -> dict[str, Any]:
    """An answer as another broker should have given it too: without addresses, moments and places in the log."""
    view: dict[str, Any] = {"code": answer.code}
    fields = {name: _scrub(name, value) for name, value in sorted(answer.fields.items()) if name not in _NOISE}
    if fields:
        view["fields"] = fields
    if answer.body:
        view["body"] = _body(answer.body)
    return view


def _body(body: bytes) -> Any:
    if body[:1] in {b"{", b"["}:
        return _plain(dialect.loads(body))
    try:
        return [record_seen(record) for record in decode_records(body)]
    except ProtocolError:
        return body.hex()


def record_seen(record: Record) -> dict[str, Any]:
    """A stored message without what differs between two brokers that stored the same."""
    return {
        "topic": record.topic,
        "queue": record.queue_id,
        "offset": record.queue_offset,
        "body": record.body[:40].decode(errors="replace"),
        "size": len(record.body),
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsumed": record.reconsume_times,
        "prepared": record.prepared_transaction_offset,
        "properties": {
            name: "?" if name in _PROPERTIES else text for name, text in sorted(record.properties.items())
        },
    }  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((_plain(item) for item in value), key=_order)
    if not hasattr(value, "items"):
        return value
    return {
        _key(name): _scrub(_key(name), _plain(item))
        for name, item in sorted(value.items(), key=lambda pair: _key(pair[0]))
        if _key(name) not in _NOISE
    }


def _order(item: Any) -> str:
    """Lists of what belongs to queues go by queue: moments beside it must not decide."""
    return repr(item.get("messageQueue", item) if isinstance(item, dict) else item)


def _key(name: Any) -> str:
    return (
        json.dumps(_plain(name), sort_keys=True) if isinstance(name, Mapping) or hasattr(name, "items") else str(name)
    )


def _scrub(name: str, value: Any) -> Any:
    """A moment is not compared, but whether there is one."""
    if name not in _MOMENTS:
        return value
    return "some" if int(value) > 0 else value
