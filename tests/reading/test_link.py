"""Link: a blocking connection, its ends, TLS and signatures, over loopback sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from framework.broker.rules import Rule, User
from framework.errors import BrokerUnreachable, ConnectionLost, ProtocolError, Refused, RequestTimedOut
from framework.net.address import Address, AllowList
from framework.net.tls import TlsOptions, client_context, server_context
from framework.reading import Reader, ReaderSettings
from framework.reading.link import Link
from framework.wire import frame
from framework.wire.command import ANSWER_BIT, RemotingCommand
from tests.patience import PATIENCE_S, wait_until
from tests.reading.threads import texts, thread_box
from tests.wire.frames import decode_frame

Serve = Callable[[socket.socket], None]


@contextmanager
def peer(serve: Serve) -> Iterator[Address]:
    """Something that listens and serves one connection on a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        try:
            accepted, _ = listener.accept()
            with accepted:
                serve(accepted)
        except OSError:
            return  # nobody came

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield Address("127.0.0.1", listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # which ends a wait for somebody who does not come
        listener.close()
        thread.join(PATIENCE_S)


def read_request(connection: socket.socket) -> RemotingCommand:
    length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
    return decode_frame(connection.recv(length, socket.MSG_WAITALL))


def answer_to(request: RemotingCommand) -> bytes:
    return frame.encode(RemotingCommand(0, number=request.number, flag=ANSWER_BIT, remark=str(request.code)))


def test_answers_find_their_requests_in_any_order_and_split_anywhere() -> None:
    def serve(connection: socket.socket) -> None:
        first, second = read_request(connection), read_request(connection)
        data = frame.encode(RemotingCommand(40)) + answer_to(second) + answer_to(first)  # 40: asked of us, and ignored
        for at in range(0, len(data), 7):
            connection.sendall(data[at : at + 7])
        connection.recv(1)

    with peer(serve) as address:
        link = Link(address)
        first, second = link.ask(RemotingCommand(1), timeout_ms=60_000), link.ask(RemotingCommand(2), timeout_ms=60_000)

        assert "1" == link.answer(first, timeout_ms=60_000).remark
        assert "2" == link.answer(second, timeout_ms=60_000).remark
        link.close()


def test_a_link_is_quiet_while_nothing_is_under_way_and_the_peer_stays() -> None:
    go = [threading.Event() for _ in range(3)]

    def serve(connection: socket.socket) -> None:
        request = read_request(connection)
        go[0].wait(PATIENCE_S)
        connection.sendall(answer_to(request))
        go[1].wait(PATIENCE_S)
        connection.sendall(frame.encode(RemotingCommand(40)) * 2)  # asked of us, and ignored
        go[2].wait(PATIENCE_S)

    with peer(serve) as address:
        link = Link(address)
        assert link.is_quiet()
        asked = link.ask(RemotingCommand(1), timeout_ms=60_000)
        assert not link.is_quiet(), "an answer is to come"
        go[0].set()
        link.answer(asked, timeout_ms=60_000)
        assert link.is_quiet()
        go[1].set()
        assert link.is_quiet(), "what a broker asks of us is passed over, whenever it comes"
        go[2].set()
        wait_until(lambda: not link.is_quiet(), "the end of the connection")
        link.close()
        assert not link.is_quiet()


def test_an_answer_that_is_not_wanted_any_more_is_dropped() -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(answer_to(read_request(connection)) + answer_to(read_request(connection)))
        connection.recv(1)

    with peer(serve) as address:
        link = Link(address)
        link.forget(link.ask(RemotingCommand(1), timeout_ms=60_000))

        assert "2" == link.request(RemotingCommand(2), timeout_ms=60_000).remark
        link.close()


def test_silence_ends_the_link_in_time() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.recv(1)

    with peer(serve) as address:
        link = Link(address)
        with pytest.raises(RequestTimedOut, match=r"GET_MAX_OFFSET.*no answer from 127.0.0.1:\d+ within 50 ms"):
            link.request(RemotingCommand(30), timeout_ms=50)
        with pytest.raises(ConnectionLost, match="has ended"):
            link.request(RemotingCommand(30), timeout_ms=50)


def test_a_peer_that_closes_or_speaks_something_else_is_named() -> None:
    with peer(lambda connection: None) as address:
        link = Link(address)
        with pytest.raises(ConnectionLost, match=r"closed by the peer|reset|Broken pipe"):
            link.request(RemotingCommand(30), timeout_ms=60_000)
        assert not link.is_open

    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(1)

    with peer(serve) as address, pytest.raises(ProtocolError, match=f"{address}: peer speaks HTTP"):
        Link(address).request(RemotingCommand(30), timeout_ms=60_000)


def test_networks_that_are_not_allowed_are_not_dialled() -> None:
    with pytest.raises(BrokerUnreachable, match=r"127.0.0.1 is not in cluster.allow \(10.0.0.0/8\)"):
        Link(Address("127.0.0.1", 9), allow=AllowList(["10.0.0.0/8"]))
    with (
        peer(lambda connection: None) as address,
        pytest.raises(BrokerUnreachable, match=r"127.0.0.1 is not in cluster\.allow"),
    ):
        Link(Address("localhost", address.port), allow=AllowList(["10.0.0.0/8"]))


def test_tls_is_spoken_and_verified(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    ours = server_context(TlsOptions(cert_file=str(tmp_path / "key.pem")))

    def serve(connection: socket.socket) -> None:
        with ours.wrap_socket(connection, server_side=True) as secured:
            length = int.from_bytes(secured.recv(4))
            secured.sendall(answer_to(decode_frame(secured.recv(length))))
            secured.recv(1)

    with peer(serve) as address:
        link = Link(address, context=client_context(TlsOptions(ca_file=str(tmp_path / "ca.pem"))))
        assert "30" == link.request(RemotingCommand(30), timeout_ms=60_000).remark
        link.close()
    with peer(serve) as address, pytest.raises(BrokerUnreachable, match=r"certificate refused for 127\.0\.0\.1"):
        Link(address, context=client_context(TlsOptions()))


def test_requests_are_signed_by_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text("access_key: us\nsecret_key: sesame\n")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("access_key: us\nsecret_key: guess\n")
    rules = (Rule("Topic", "signed", frozenset(("Pub", "Sub"))), Rule("Group", "*", frozenset(("Sub",))))
    with thread_box(auth=[User("us", "sesame", rules=rules)]) as box:
        box.send("signed", texts("signed", 100), queue=0)

        with Reader(ReaderSettings((box.address,), credentials=f"file:{path}")) as reader:
            queue = next(queue for queue in reader.queues("signed") if reader.max_offset(queue))
            assert 100 == sum(map(len, reader.read(queue, 0, 100)))
        for reference in ("", f"file:{wrong}"):
            with Reader(ReaderSettings((box.address,), credentials=reference)) as reader, pytest.raises(Refused):
                reader.queues("signed")
