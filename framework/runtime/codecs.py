"""Bodies of handlers that name a codec: chosen from the plugins' once, when an application is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from framework.core.results import HOLDS
from framework.declare import ConsumerSpec
from framework.declare.arguments import Argument
from framework.declare.decoding import Decoder, shown
from framework.errors import BodyUndecodable, ConfigurationError, nearest
from framework.model.contracts import Codec


def with_codec(spec: ConsumerSpec, codecs: Mapping[str, Codec]) -> ConsumerSpec:
    """The consumer with the decoders of its codec; most name none. Raises ConfigurationError with its place."""
    if not spec.codec:
        return spec
    codec = codecs.get(spec.codec)
    if codec is None:
        known = ", ".join(sorted(codecs))
        hint = nearest(spec.codec, codecs) or f"; install and load the plugin that offers it (there are: {known})"
        raise ConfigurationError(f"consumer {spec.name!r}: there is no codec {spec.codec!r}{hint}", place=spec.place)
    return replace(spec, arguments=tuple(_decoded(each, spec, codec) for each in spec.arguments))


def _decoded(argument: Argument, spec: ConsumerSpec, codec: Codec) -> Argument:
    if argument.wants != "body":
        return argument
    try:
        convert = codec.decoder(argument.annotation, argument.name)
    except Exception as error:
        reason = str(error) if isinstance(error, ConfigurationError) else f"{type(error).__name__}: {error}"
        message = f"consumer {spec.name!r}: codec {spec.codec!r}, parameter {argument.name!r}: {reason}"
        raise ConfigurationError(message, place=spec.place) from error
    return replace(argument, decode=_contained(convert, argument.annotation, spec.codec))


def _contained(convert: Callable[[bytes], object], annotation: Any, codec: str) -> Decoder:
    """What it raises is the body's fault. Its words may hold something of the body, so only their kind is shown."""
    if isinstance(convert, Decoder):  # the built-in one's, which says what may be said
        return convert
    name = f"{shown(annotation)} as {codec}"

    def decode(body: bytes) -> object:
        try:
            return convert(body)
        except (BodyUndecodable, *HOLDS):
            raise
        except Exception as error:  # noqa: BLE001 - border: a plugin's
            raise BodyUndecodable(f"not a {name}: {type(error).__name__}") from None

    return Decoder(name, decode, ())
