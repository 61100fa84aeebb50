"""Laws that a codec must keep before an application may trust it with its bodies. For authors' tests, too:

def test_my_codec_keeps_the_laws() -> None:
    check_codec(MyCodec(), Order, [Order("1", 2_500), Order("", 0)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from framework.core.results import HOLDS
from framework.errors import BodyUndecodable
from framework.model.contracts import Codec, Encodes

GARBAGE = (b"\x00", b"\xff\xfe\xfd", b"{", b"no such thing as this", bytes(range(1, 256)))
"""Bodies that other producers may send to a topic."""
_THREADS, _TIMES = 4, 25


def check_codec(
    codec: Codec,
    annotation: Any,
    values: Sequence[object] = (),
    *,
    bodies: Sequence[bytes] = (),
    garbage: Sequence[bytes] = GARBAGE,
    topic: str = "orders",
) -> None:
    """Raise AssertionError unless the codec keeps the laws for a parameter of this annotation.

    - decodes: `bodies` are read, and what comes of one is the same each time, also on several threads at once
    - encodes (where there are `values`): each becomes bytes
    - round trip: what a value became is read as that value
    - garbage: no body of `garbage` is read; name others where one of these is a body, too
    - clear: that is said by an exception that is the body's fault, never by one that holds the queue; the text of a
      `BodyUndecodable` says something, and nothing of the body
    - asked again, for another handler, it makes a decoder that reads the same
    """
    assert isinstance(codec, Codec), f"{codec!r} has no decoder()"
    said = f"codec {type(codec).__name__}"
    decode = codec.decoder(annotation, "order")
    written = [_written(codec, topic, value, said) for value in values]
    for value, body in zip(values, written, strict=True):
        found = _read(decode, body, f"{said}: round trip: {value!r}")
        assert found == value, f"{said}: round trip: {value!r} came back as {found!r}"
    whole = [*bodies, *written]
    assert whole, f"{said}: nothing to try; give values, or bodies"
    another = codec.decoder(annotation, "other")
    for body in whole:
        first = _read(decode, body, f"{said}: decodes: {body[:40]!r}")
        assert _read(another, body, f"{said}: asked again") == first, (
            f"{said}: asked again, it reads {body[:40]!r} otherwise"
        )
        with ThreadPoolExecutor(_THREADS) as threads:
            for found in threads.map(decode, [body] * _TIMES):
                assert found == first, f"{said}: decodes: on threads {body[:40]!r} became {first!r}, and then {found!r}"
    for body in garbage:
        _check_refused(decode, body, said)


def _written(codec: Codec, topic: str, value: object, said: str) -> bytes:
    assert isinstance(codec, Encodes), f"{said}: encodes: it has no encoder(); give bodies instead of values"
    body = codec.encoder(topic)(value)
    assert isinstance(body, bytes), f"{said}: encodes: {value!r} became a {type(body).__name__}, and not bytes"
    return body


def _read(decode: Callable[[bytes], object], body: bytes, case: str) -> object:
    try:
        return decode(body)
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error


def _check_refused(decode: Callable[[bytes], object], body: bytes, said: str) -> None:
    try:
        found = decode(body)
    except HOLDS as error:
        raise AssertionError(
            f"{said}: clear: {body[:40]!r} raised {type(error).__name__}, which holds the queue; raise BodyUndecodable"
        ) from error
    except BodyUndecodable as error:
        text = str(error)
        assert text.strip(), f"{said}: clear: {body[:40]!r} is refused without a reason"
        shown = body.decode("utf-8", "replace")
        assert len(shown) < 4 or shown not in text, (
            f"{said}: clear: the reason for {body[:40]!r} shows the body: {text}"
        )
        return
    except Exception:  # noqa: BLE001 - border: the codec's; of others than BodyUndecodable only the kind is ever shown
        return
    raise AssertionError(f"{said}: garbage: {body[:40]!r} was read as {found!r}")
