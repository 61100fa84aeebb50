"""Compressed bodies: what opens, what is the producer's fault, what is ours."""

from __future__ import annotations

import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import BodyUnavailable, BodyUndecodable
from framework.wire import compression
from framework.wire.compression import COMPRESS_ABOVE, Compression, compress, compressed, decompress

MIB = 1024 * 1024
ALL = pytest.mark.parametrize("codec", list(Compression))


@given(st.binary(max_size=3000), st.sampled_from(Compression))
def test_opening_gives_back_what_was_compressed(body: bytes, codec: Compression) -> None:
    assert body == decompress(compress(body, codec), codec.sys_flag)


@ALL
def test_a_large_body_opens(codec: Compression) -> None:
    body = b"".join(n.to_bytes(4) for n in range(2 * MIB))

    assert body == decompress(compress(body, codec), codec.sys_flag)


def test_bit_0_alone_decides() -> None:
    assert b"plain" == decompress(b"plain", 0x700)
    assert b"plain" == decompress(zlib.compress(b"plain"), 0x1)


@ALL
def test_an_honest_body_of_zeros_opens(codec: Compression) -> None:
    """Every stock producer sends up to 4 MiB, and zeros shrink a thousandfold."""
    body = bytes(4 * MIB)

    assert body == decompress(compress(body, codec), codec.sys_flag)


def zlib_bomb() -> bytes:
    squeezer = zlib.compressobj(9)
    return b"".join(squeezer.compress(bytes(MIB)) for _ in range(80)) + squeezer.flush()


def zstd_bomb() -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(80 * MIB))


BOMBS = [
    (zlib_bomb, Compression.ZLIB),
    (lambda: lz4.frame.compress(bytes(80 * MIB), store_size=False), Compression.LZ4),
    (zstd_bomb, Compression.ZSTD),
]


@pytest.mark.parametrize(("make", "codec"), BOMBS)
def test_a_bomb_stops_at_its_ratio(make: Callable[[], bytes], codec: Compression) -> None:
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(BodyUndecodable, match="inflates past 200 times its size"):
            decompress(bomb, codec.sys_flag, limit_bytes=70 * MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < max(4 * MIB, 200 * len(bomb)) + 10 * MIB


@pytest.mark.parametrize(("make", "codec"), BOMBS)
def test_a_bomb_stops_at_the_limit(make: Callable[[], bytes], codec: Compression) -> None:
    with pytest.raises(BodyUndecodable, match="body inflates past 67108864 bytes"):
        decompress(make(), codec.sys_flag, ratio=10**9)


@ALL
def test_a_truncated_body_is_undecodable_wherever_it_is_cut(codec: Compression) -> None:
    whole = compress(b"hello " * 100, codec)

    for size in range(len(whole)):
        with pytest.raises(BodyUndecodable, match=f"{codec.name.lower()}"):
            decompress(whole[:size], codec.sys_flag)


@ALL
def test_bytes_after_the_end_are_undecodable(codec: Compression) -> None:
    whole = compress(b"hello " * 100, codec)

    with pytest.raises(BodyUndecodable, match=f"7 bytes follow the end of the {codec.name.lower()} body"):
        decompress(whole + b"trailer", codec.sys_flag)


@ALL
def test_a_body_of_another_kind_is_undecodable(codec: Compression) -> None:
    with pytest.raises(BodyUndecodable, match=f"body of 40 bytes is not {codec.name.lower()}: "):
        decompress(b"{" * 40, codec.sys_flag)


@pytest.mark.parametrize("kind", [4, 5, 6, 7])
def test_an_unknown_type_is_undecodable(kind: int) -> None:
    with pytest.raises(BodyUndecodable, match=f"unknown compression type {kind}"):
        decompress(b"", kind << 8 | 1)


@pytest.mark.parametrize(
    ("codec", "package", "module"),
    [(Compression.LZ4, "lz4", "lz4.frame"), (Compression.ZSTD, "zstandard", "zstandard")],
)
def test_a_missing_codec_is_our_fault_and_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, codec: Compression, package: str, module: str
) -> None:
    body = compress(b"hello", codec)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(
        BodyUnavailable, match=f"{codec.name.lower()}, and {package} cannot be imported: pip install {package}"
    ):
        decompress(body, codec.sys_flag)
    with pytest.raises(BodyUnavailable, match=f"pip install {package}"):
        compress(b"hello", codec)


def test_missing_memory_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(body: bytes) -> Any:
        raise MemoryError

    monkeypatch.setitem(compression._STEPS, Compression.ZLIB, exhausted)

    with pytest.raises(BodyUnavailable, match="body of 5 bytes is zlib, and no memory is left"):
        decompress(b"hello", Compression.ZLIB.sys_flag)


def test_a_body_is_sent_as_it_is_where_it_is_short_or_would_not_be_smaller() -> None:
    short, long, noise = (
        b"a" * COMPRESS_ABOVE,
        b"a" * (COMPRESS_ABOVE + 1),
        random.Random(1).randbytes(COMPRESS_ABOVE + 1),
    )
    assert [(short, 0), (noise, 0)] == [compressed(short), compressed(noise)]
    body, sys_flag = compressed(long)
    assert len(body) < len(long)
    assert long == decompress(body, sys_flag)
    assert (long, 0) == compressed(long, above=len(long))
