"""Compressed bodies, by the bits of sysFlag.

    bit 0        the body is compressed
    bits 8 to 10 how: 0 and 3 zlib, 1 LZ4 (frame format), 2 zstd

Owns the limits of what a body may open to, and whose fault it is when it does not: BodyUndecodable is the producer's,
BodyUnavailable ours, with the remedy in its text. Opening goes in small steps, so that a bomb costs no more than the
limit. lz4 and zstandard are imported when first needed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any

from framework.errors import BodyUnavailable, BodyUndecodable, shorten

COMPRESS_ABOVE = 4_096  # compressMsgBodyOverHowmuch
COMPRESSED = 0x1
TYPE_SHIFT = 8
TYPE_BITS = 0x7 << TYPE_SHIFT

INFLATED_BYTES_MAX = 64 * 1024 * 1024
RATIO_MAX = 200
RATIO_FREE_BYTES = 4 * 1024 * 1024  # maxMessageSize of every stock producer: an honest body may be all zeros up to here
LEVEL = 5  # the Java producer's

_STEP = 1024 * 1024
# zstd has no bound on its output a step. A block of 4 bytes opens to 128 KiB at most, so 256 bytes of input to 8 MiB.
_ZSTD_STEP = 256


class Compression(IntEnum):
    """The values are those of sysFlag's type bits."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits that a message compressed so carries."""
        return COMPRESSED | self << TYPE_SHIFT


_CODECS = {0: Compression.ZLIB, 1: Compression.LZ4, 2: Compression.ZSTD, 3: Compression.ZLIB}
_MODULES = {Compression.LZ4: ("lz4.frame", "lz4"), Compression.ZSTD: ("zstandard", "zstandard")}


def compressed(body: bytes, codec: Compression = Compression.ZLIB, above: int = COMPRESS_ABOVE) -> tuple[bytes, int]:
    """The body as it is sent, and its bits of sysFlag: as it is where it is short, or would not be smaller."""
    if len(body) > above and len(small := compress(body, codec)) < len(body):
        return small, codec.sys_flag
    return body, 0


def compress(body: bytes, codec: Compression, level: int = LEVEL) -> bytes:
    """The body as it is stored; BodyUnavailable where the codec's package is missing."""
    if codec is Compression.ZLIB:
        return zlib.compress(body, level)
    module = _module(codec)
    if codec is Compression.LZ4:
        data: bytes = module.compress(body, compression_level=level)
    else:
        data = module.ZstdCompressor(level=level).compress(body)
    return data


def decompress(body: bytes, sys_flag: int, *, limit_bytes: int = INFLATED_BYTES_MAX, ratio: int = RATIO_MAX) -> bytes:
    """The body as the producer gave it: opened where bit 0 says so, else as it is."""
    if not sys_flag & COMPRESSED:
        return body
    kind = (sys_flag & TYPE_BITS) >> TYPE_SHIFT
    codec = _CODECS.get(kind)
    if codec is None:
        raise BodyUndecodable(f"body has the unknown compression type {kind}")
    try:
        return _collect(_STEPS[codec](body), len(body), limit_bytes, ratio)
    except MemoryError as error:
        raise BodyUnavailable(
            f"body of {len(body)} bytes is {codec.name.lower()}, and no memory is left to open it: give us more"
        ) from error


def _collect(steps: Iterator[bytes], size: int, limit_bytes: int, ratio: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    for part in steps:
        total += len(part)
        if total > limit_bytes:
            raise BodyUndecodable(f"body inflates past {limit_bytes} bytes")
        if total > RATIO_FREE_BYTES and total > ratio * size:
            raise BodyUndecodable(f"body of {size} bytes inflates past {ratio} times its size")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zlib_steps(body: bytes) -> Iterator[bytes]:
    opener = zlib.decompressobj()
    data = body
    try:
        while not opener.eof:
            part = opener.decompress(data, _STEP)
            data = opener.unconsumed_tail
            if not part and not data and not opener.eof:
                raise _truncated(Compression.ZLIB, body)
            yield part
    except zlib.error as error:
        raise _malformed(Compression.ZLIB, body, error) from error
    _refuse_trailing(Compression.ZLIB, opener.unused_data)


def _lz4_steps(body: bytes) -> Iterator[bytes]:
    opener = _module(Compression.LZ4).LZ4FrameDecompressor()
    data = body
    try:
        while not opener.eof:
            part = opener.decompress(data, _STEP)
            data = b""
            if not part and opener.needs_input and not opener.eof:
                raise _truncated(Compression.LZ4, body)
            yield part
    except (RuntimeError, EOFError) as error:
        raise _malformed(Compression.LZ4, body, error) from error
    _refuse_trailing(Compression.LZ4, opener.unused_data or b"")


def _zstd_steps(body: bytes) -> Iterator[bytes]:
    zstandard = _module(Compression.ZSTD)
    # A frame's header may ask for a window of gigabytes; no body that we accept needs more than the limit.
    opener = zstandard.ZstdDecompressor(max_window_size=INFLATED_BYTES_MAX).decompressobj()
    at = 0
    try:
        while not opener.eof:
            if at >= len(body):
                raise _truncated(Compression.ZSTD, body)
            yield opener.decompress(body[at : at + _ZSTD_STEP])
            at += _ZSTD_STEP
    except zstandard.ZstdError as error:
        raise _malformed(Compression.ZSTD, body, error) from error
    _refuse_trailing(Compression.ZSTD, opener.unused_data + body[at:])


_STEPS = {Compression.ZLIB: _zlib_steps, Compression.LZ4: _lz4_steps, Compression.ZSTD: _zstd_steps}


def _module(codec: Compression) -> Any:
    name, package = _MODULES[codec]
    try:
        return import_module(name)
    except ImportError as error:
        raise BodyUnavailable(
            f"body is {codec.name.lower()}, and {package} cannot be imported: pip install {package}"
        ) from error


def missing_package(codec: Compression) -> str:
    """What has to be installed for it; empty where all is there."""
    name, package = _MODULES.get(codec, ("zlib", ""))
    try:
        import_module(name)
    except ImportError:
        return package
    return ""


def _truncated(codec: Compression, body: bytes) -> BodyUndecodable:
    return BodyUndecodable(f"body of {len(body)} bytes is {codec.name.lower()}, and ends too early")


def _malformed(codec: Compression, body: bytes, error: Exception) -> BodyUndecodable:
    return BodyUndecodable(f"body of {len(body)} bytes is not {codec.name.lower()}: {shorten(str(error))}")


def _refuse_trailing(codec: Compression, rest: bytes) -> None:
    if rest:
        raise BodyUndecodable(f"{len(rest)} bytes follow the end of the {codec.name.lower()} body")
