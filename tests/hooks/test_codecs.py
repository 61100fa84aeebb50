"""Codecs of plugins: chosen by name when an application is put together, and contained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from framework import Message, Retry, consumer, publishes
from framework.errors import BodyUnavailable, BodyUndecodable, ConfigurationError
from framework.hooks import hookimpl
from framework.hooks.host import PluginHost
from framework.runtime.plans.codecs import with_codec
from framework.testing import Harness

GIVEN: list[object] = []


class Shouted:
    """Bodies in capitals."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []

    def decoder(self, annotation: Any, parameter: str) -> Callable[[bytes], object]:
        self.asked.append((annotation, parameter))
        if annotation is int:
            raise ConfigurationError("numbers cannot be shouted")

        def decode(body: bytes) -> object:
            text = body.decode("ascii")
            if text == "named":
                raise BodyUndecodable("whispered")
            if text == "held":
                raise BodyUnavailable("no voice")
            if not text.isupper():
                raise ValueError(f"secret {text}")
            return annotation(text.lower())

        return decode


class Plugin:
    def __init__(self) -> None:
        self.codec = Shouted()

    @hookimpl
    def register_codecs(self) -> Mapping[str, Shouted]:
        return {"shouted": self.codec}


@consumer("orders", "billing", codec="shouted")
async def bill(order: str, message: Message) -> None:
    GIVEN.append((order, message.body))


@consumer("orders", "plain", codec="shouted")
def plain(order: str) -> None:
    GIVEN.append(order)


@consumer("orders", "batched", codec="shouted", batch=4, linger="50ms")
async def batched(orders: list[str]) -> None:
    GIVEN.append(orders)


@pytest.fixture
def host() -> PluginHost:
    GIVEN.clear()
    return PluginHost(objects={"voice": Plugin()}, discover=list)


def decode_of(host: PluginHost) -> Callable[[bytes], object]:
    argument = with_codec(bill.spec, host.codecs).arguments[0]
    assert argument.decode is not None
    return argument.decode


def test_register_codecs_offers_them_by_name_beside_the_built_in_one(host: PluginHost) -> None:
    assert {"json", "shouted"} == set(host.codecs)


@pytest.mark.parametrize(
    ("handler", "expected"), [(bill, ("tea", b"TEA")), (plain, "tea"), (batched, ["tea"])], ids=repr
)
def test_a_handler_is_given_what_its_codec_makes(handler: Any, expected: object, host: PluginHost) -> None:
    with Harness(handler, plugins=host) as desk:
        desk.send("orders", "TEA")
        desk.settle()

    assert [expected] == GIVEN


def test_a_body_that_it_cannot_read_goes_the_way_of_undecodable_ones(host: PluginHost) -> None:
    with Harness(bill, plugins=host) as desk:
        desk.send("orders", "tea")
        desk.settle()
        (dead,) = desk.dead_letters("billing")

    assert b"tea" == dead.body
    assert [] == GIVEN


def test_it_is_asked_once_a_parameter_and_for_bodies_only(host: PluginHost) -> None:
    plugin: Any = next(each.plugin for each in host.plugins if each.name == "voice")

    with_codec(bill.spec, host.codecs)
    with_codec(batched.spec, host.codecs)

    assert [(str, "order"), (str, "orders")] == plugin.codec.asked


def test_only_the_kind_of_its_error_is_shown_unless_it_says_so_itself(host: PluginHost) -> None:
    decode = decode_of(host)

    with pytest.raises(BodyUndecodable) as raised:
        decode(b"card 4711")
    assert "not a str as shouted: ValueError" == str(raised.value)
    with pytest.raises(BodyUndecodable, match="whispered"):
        decode(b"named")
    with pytest.raises(BodyUnavailable, match="no voice"):
        decode(b"held")


def test_without_a_codec_the_spec_is_the_same(host: PluginHost) -> None:
    @consumer("orders", "billing")
    def silent(order: str) -> None:
        return

    assert silent.spec is with_codec(silent.spec, host.codecs)


def test_the_built_in_one_reads_as_no_codec_does(host: PluginHost) -> None:
    @consumer("orders", "billing", codec="json")
    def both(order: dict, raw: bytes) -> None:  # type: ignore[type-arg]  # as users write it
        return

    order, raw = with_codec(both.spec, host.codecs).arguments
    assert order.decode is not None
    assert raw.decode is not None
    assert {"a": 1} == order.decode(b'{"a": 1}')
    assert b"x" == raw.decode(b"x")
    with pytest.raises(BodyUndecodable, match="not JSON"):
        order.decode(b"{")


@pytest.mark.parametrize(("name", "hint"), [("shoutd", "did you mean 'shouted'"), ("avro", "there are: json, shouted")])
def test_a_codec_that_is_not_there_is_named_with_the_handler_s_place(name: str, hint: str, host: PluginHost) -> None:
    @consumer("orders", "billing", codec=name)
    def handler(order: str) -> None:
        return

    with pytest.raises(ConfigurationError) as raised:
        with_codec(handler.spec, host.codecs)
    assert f"consumer 'handler': no codec {name!r}" in str(raised.value)
    assert hint in str(raised.value)
    assert "test_codecs.py:" in str(raised.value.place)


def test_an_annotation_that_it_cannot_make_stops_the_start(host: PluginHost) -> None:
    @consumer("orders", "billing", codec="shouted")
    def handler(order: int) -> None:
        return

    reason = "codec 'shouted', parameter 'order': numbers cannot be shouted"
    with pytest.raises(ConfigurationError, match=reason):
        with_codec(handler.spec, host.codecs)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"codec": 1}, "codec=1: write the name of a codec"),
        ({"codec": "json", "engine": "spark"}, "the engine reads bodies itself"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_declared(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):

        @consumer("orders", "billing", **options)
        def handler(order: str) -> None:
            return


def test_a_codec_without_a_body_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no parameter takes the body"):

        @consumer("orders", "billing", codec="json")
        def handler(message: Message) -> None:
            return


def test_an_offer_that_is_no_codec_is_named() -> None:
    class Odd:
        @hookimpl
        def register_codecs(self) -> Any:
            return {"odd": object()}

    with pytest.raises(ConfigurationError, match=r"plugin 'odd': <object object at .*> has no decoder\(\)"):
        PluginHost(objects={"odd": Odd()}, discover=list)


# What handlers return


class Whispered(Shouted):
    """Reads as ever; writes, too."""

    def encoder(self, topic: str) -> Callable[[object], bytes]:
        if topic == "loud":
            raise ConfigurationError("nobody whispers there")

        def encode(value: object) -> bytes:
            if value == {"odd": 1}:
                return "no bytes"  # type: ignore[return-value]  # a mistake, on purpose
            if not isinstance(value, str):
                raise TypeError("only texts")
            return f"{topic}: {value}".upper().encode("ascii")

        return encode


class Whispers:
    @hookimpl
    def register_codecs(self) -> Mapping[str, Shouted]:
        return {"whispered": Whispered(), "shouted": Shouted()}


def whispering() -> PluginHost:
    return PluginHost(objects={"voice": Whispers()}, discover=list)


@consumer("answers", "reading")
async def reads(message: Message) -> None:
    GIVEN.append(message.body)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_codec_writes_what_a_handler_returns(is_async: bool) -> None:
    """What is a Message, or bytes, is what it is; of a list each is written."""
    GIVEN.clear()
    answers: dict[str, object] = {
        "text": "hello", "many": ["one", "two"], "whole": Message("answers", b"as it is"), "bytes": b"raw",
        "none": None,
    }  # fmt: skip

    if is_async:

        @consumer("orders", "billing")
        @publishes("answers", codec="whispered")
        async def answer(order: str) -> object:
            return answers[order]
    else:

        @consumer("orders", "billing")
        @publishes("answers", codec="whispered")
        def answer(order: str) -> object:
            return answers[order]

    with Harness([answer, reads], plugins=whispering()) as desk:
        for order in answers:
            desk.send("orders", order)
            desk.settle()

    assert [b"ANSWERS: HELLO", b"ANSWERS: ONE", b"ANSWERS: TWO", b"as it is", b"raw"] == GIVEN


def test_what_a_codec_cannot_write_is_the_handler_s_failure_and_sends_nothing() -> None:
    GIVEN.clear()
    wrong: list[object] = [17, {"odd": 1}]

    @consumer("orders", "billing", retry=Retry(max=0))
    @publishes("answers", codec="whispered")
    async def answer(order: str) -> object:
        return wrong[int(order)]

    with Harness([answer, reads], plugins=whispering()) as desk:
        desk.send("orders", "0")
        desk.send("orders", "1")
        events = desk.settle()
        logged = str(desk.logs)

    assert ["dead_lettered"] * 2 == [event["event"] for event in events]
    assert [] == GIVEN
    assert "codec 'whispered' failed on a int: TypeError: only texts" in logged
    assert "codec 'whispered' returned a str for a dict; it must return bytes" in logged


@pytest.mark.parametrize(
    ("topic", "codec", "complaint"),
    [
        ("answers", "shouted", "codec 'shouted' has no encoder(), which @publishes needs"),
        ("answers", "wispered", "no codec 'wispered'; did you mean 'whispered'?"),
        ("loud", "whispered", "codec 'whispered', @publishes('loud'): nobody whispers there"),
    ],
)
def test_a_codec_that_cannot_write_stops_the_start(topic: str, codec: str, complaint: str) -> None:
    @consumer("orders", "billing")
    @publishes(topic, codec=codec)
    async def answer(order: str) -> str:
        return order

    with pytest.raises(ConfigurationError) as raised:
        with_codec(answer.spec, whispering().codecs)
    assert complaint in str(raised.value)
    assert "test_codecs.py:" in str(raised.value)


def test_of_several_topics_each_answer_is_a_message_so_a_codec_has_nothing_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"@publishes: codec='whispered': name one topic"):
        publishes("one", "two", codec="whispered")(lambda order: order)


def test_the_built_in_codec_writes_what_is_written_without_one() -> None:
    GIVEN.clear()

    @consumer("orders", "billing")
    @publishes("answers", codec="json")
    async def answer(order: dict[str, int]) -> object:
        return order or "a text"

    with Harness([answer, reads], plugins=PluginHost(discover=list)) as desk:
        for order in ('{"a":1}', "{}"):
            desk.send("orders", order)
            desk.settle()

    assert [b'{"a":1}', b"a text"] == GIVEN
