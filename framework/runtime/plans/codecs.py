"""Codecs that handlers name, for what they read and what they publish: chosen from the plugins' once, when an
application is put together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from framework.core.results import HOLDS
from framework.declare import ConsumerSpec
from framework.declare.arguments import Argument
from framework.declare.decoding import Decoder, shown
from framework.errors import BodyUndecodable, ConfigurationError, nearest, shorten
from framework.hooks.failures import discard, plugin_failure, reject_coroutine
from framework.mistakes import NameUnknown, OfferWrong
from framework.model.contracts import Codec, Encodes

T = TypeVar("T")


def with_codec(spec: ConsumerSpec, codecs: Mapping[str, Codec]) -> ConsumerSpec:
    """The consumer with what its codecs decode and encode; most name none. ConfigurationError with its place."""
    if spec.codec:
        codec = _named(spec.codec, spec, codecs)
        spec = replace(spec, arguments=tuple(_decoded(each, spec, codec) for each in spec.arguments))
    if spec.publish_codec:
        spec = replace(spec, encode=_encode(spec, _named(spec.publish_codec, spec, codecs)))
    return spec


def _named(name: str, spec: ConsumerSpec, codecs: Mapping[str, Codec]) -> Codec:
    codec = codecs.get(name)
    if codec is None:
        known = ", ".join(sorted(codecs))
        hint = nearest(name, codecs) or f"; install and load the plugin that offers it (there are: {known})"
        raise NameUnknown(f"consumer {spec.name!r}: no codec {name!r}{hint}", place=spec.place)
    return codec


def _encode(spec: ConsumerSpec, codec: Codec) -> Callable[[object], bytes]:
    """What it raises is the handler's failure, named as the codec's."""
    name, (topic, *_) = spec.publish_codec, spec.publishes
    where = f"consumer {spec.name!r}: codec {name!r}"
    if not isinstance(codec, Encodes):
        raise OfferWrong(
            f"{where} has no encoder(), which @publishes needs; remove codec there, or use another", place=spec.place
        )
    convert = _function(lambda: codec.encoder(topic), "encoder()", f"{where}, @publishes({topic!r})", spec)

    def encode(value: object) -> bytes:
        kind = type(value).__name__
        try:
            body = convert(value)
            reject_coroutine(body, "its encoder")
        except BaseException as error:
            plugin_failure(error)
            raise TypeError(f"codec {name!r} failed on a {kind}: {type(error).__name__}: {error}") from error
        if not isinstance(body, bytes):
            raise TypeError(f"codec {name!r} returned a {type(body).__name__} for a {kind}; it must return bytes")
        return body

    return encode


def _function(make: Callable[[], T], method: str, where: str, spec: ConsumerSpec) -> T:
    """What the codec makes: a plain function. ConfigurationError for anything else, and for whatever it raises."""
    try:
        convert = make()
        discard(convert)
        if not callable(convert) or inspect.iscoroutinefunction(convert):
            raise OfferWrong(f"{method} returned {shorten(convert)}; return a plain function")
    except BaseException as error:
        plugin_failure(error)
        reason = str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
        raise OfferWrong(f"{where}: {reason}", place=spec.place) from error
    return convert


def _decoded(argument: Argument, spec: ConsumerSpec, codec: Codec) -> Argument:
    if argument.wants != "body":
        return argument
    where = f"consumer {spec.name!r}: codec {spec.codec!r}, parameter {argument.name!r}"
    convert = _function(lambda: codec.decoder(argument.annotation, argument.name), "decoder()", where, spec)
    return replace(argument, decode=_contained(convert, argument.annotation, spec.codec))


def _contained(convert: Callable[[bytes], object], annotation: Any, codec: str) -> Decoder:
    """What it raises is the body's fault. Its words may hold something of the body, so only their kind is shown."""
    if isinstance(convert, Decoder):  # the built-in one's, which says what may be said
        return convert
    name = f"{shown(annotation)} as {codec}"

    def decode(body: bytes) -> object:
        try:
            value = convert(body)
            reject_coroutine(value, "its decoder")
        except (BodyUndecodable, *HOLDS):
            raise
        except BaseException as error:  # noqa: BLE001 - border: a plugin's
            plugin_failure(error)
            raise BodyUndecodable(f"not a {name}: {type(error).__name__}") from None
        return value

    return Decoder(name, decode, ())
