"""A producer's options: which values can work. Pure; the error names the option."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from framework.mistakes import ArgumentMistyped, ArgumentWrong
from framework.model.durations import to_ms
from framework.wire.compression import Compression

WhenAway: TypeAlias = Literal["wait", "fail"]
IN_FLIGHT_MOST = 65_536
LINGER_MAX_MS = 10_000
CODECS = {"zlib": Compression.ZLIB, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


def check_options(
    *, compression: str, when_away: str, max_in_flight: int, retries: int, compress_above: int, body_bytes_max: int
) -> None:
    """ArgumentWrong for what no producer can do."""
    if compression not in CODECS:
        raise ArgumentWrong(f"Producer: compression {compression!r}: use {', '.join(CODECS)}")
    if when_away not in get_args(WhenAway):
        raise ArgumentWrong(f"Producer: when_away {when_away!r}: use {', '.join(get_args(WhenAway))}")
    if not isinstance(max_in_flight, int) or not 1 <= max_in_flight <= IN_FLIGHT_MOST:
        raise ArgumentWrong(f"Producer: max_in_flight {max_in_flight!r}: use 1 to {IN_FLIGHT_MOST}")
    leasts = (("retries", retries, 0), ("compress_above", compress_above, 0), ("body_bytes_max", body_bytes_max, 1))
    for name, number, least in leasts:
        if not isinstance(number, int) or number < least:
            raise ArgumentWrong(f"Producer: {name} {number!r}: use {least} or more")


def length_ms(name: str, length: str | float) -> int:
    """Milliseconds, or ArgumentWrong with the name of what was given."""
    try:
        return to_ms(length)
    except TypeError as error:
        raise ArgumentMistyped(f"{name}: {error}") from None
    except ValueError as error:
        raise ArgumentWrong(f"{name}: {error}") from None


def timeout_ms(timeout: str | float) -> int:
    """The limit of a call, a millisecond at least."""
    return max(1, length_ms("timeout", timeout))


def linger_ms(linger: str | float) -> int:
    """How long messages wait for others."""
    found = length_ms("linger", linger)
    if found > LINGER_MAX_MS:
        raise ArgumentWrong(f"linger: {linger!r} is above {LINGER_MAX_MS // 1000} s")
    return found
