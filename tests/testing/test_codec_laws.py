"""The laws of codecs: what keeps them passes, and each kind of breach is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from framework.errors import BodyUnavailable, BodyUndecodable
from framework.hooks.host import PluginHost
from framework.testing.laws import check_codec


class Right:
    """JSON of lists, which says what is wrong."""

    def decoder(self, annotation: Any, parameter: str) -> Callable[[bytes], object]:
        return self.read

    def encoder(self, topic: str) -> Callable[[object], bytes]:
        return self.write

    def read(self, body: bytes) -> object:
        try:
            value = json.loads(body)
        except ValueError:
            raise BodyUndecodable("it is no JSON") from None
        if not isinstance(value, list):
            raise BodyUndecodable("it is no list")
        return value

    def write(self, value: object) -> bytes:
        return json.dumps(value).encode()


class OnlyReads:
    def decoder(self, annotation: Any, parameter: str) -> Callable[[bytes], object]:
        return Right().read


VALUES: tuple[list[object], ...] = ([1, 2], [], ["\u5546\u54c1"])


def test_one_that_keeps_the_laws_passes() -> None:
    check_codec(Right(), list, VALUES)
    check_codec(OnlyReads(), list, bodies=[b"[1]", b"[]"])
    check_codec(PluginHost(discover=list).codecs["json"], list, VALUES)


def broken(**methods: Any) -> Any:
    return type("Broken", (Right,), methods)()


def counting() -> Callable[[Any, bytes], object]:
    asked: list[bytes] = []

    def read(self: Right, body: bytes) -> object:
        asked.append(body)
        value = Right.read(self, body)
        return value if len(asked) < 4 else [*value, len(asked)]  # type: ignore[misc]  # it is a list

    return read


def _raises(error: Exception) -> Callable[[Any, bytes], object]:
    def read(self: Right, body: bytes) -> object:
        try:
            return Right.read(self, body)
        except BodyUndecodable:
            raise error from None

    return read


@pytest.mark.parametrize(
    ("codec", "law"),
    [
        (broken(write=lambda self, value: json.dumps(value)), "encodes: .* became a str, and not bytes"),
        (broken(write=lambda self, value: b"[0]"), r"round trip: \[1, 2\] came back as \[0\]"),
        (broken(write=lambda self, value: b"{"), "round trip: .*: BodyUndecodable: it is no JSON"),
        (broken(read=lambda self, body: json.loads(body) if body[:1] == b"[" else []), r"garbage: .* was read as \[\]"),
        (broken(read=counting()), "asked again, it reads .* otherwise"),
        (broken(read=_raises(BodyUnavailable("no key"))), "clear: .* raised BodyUnavailable, which holds the queue"),
        (broken(read=_raises(BodyUndecodable(" "))), "clear: .* is refused without a reason"),
        (broken(read=_raises(BodyUndecodable("'no such thing as this'"))), "clear: the reason for .* shows the body"),
        (OnlyReads(), r"encodes: it has no encoder\(\)"),
    ],
)
def test_a_breach_is_named(codec: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_codec(codec, list, VALUES)


def test_what_is_no_codec_and_what_is_given_nothing_to_try_is_said() -> None:
    with pytest.raises(AssertionError, match=r"has no decoder\(\)"):
        check_codec(object(), list, VALUES)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(AssertionError, match="nothing to try"):
        check_codec(Right(), list)
