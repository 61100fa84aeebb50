"""A producer's options: which values can work, and who it is. The error names the option."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from framework.client.options import ClusterOptions
from framework.declare.transactions import TransactionCheck
from framework.errors import shorten
from framework.mistakes import ArgumentMistyped, ArgumentWrong
from framework.model.contracts import Encodes
from framework.model.durations import to_ms
from framework.net.credentials import Credentials
from framework.net.tls import TlsOptions
from framework.ports import World
from framework.wire.compression import Compression, missing_package
from framework.wire.ids import UniqueKeys

WhenAway: TypeAlias = Literal["wait", "fail"]
IN_FLIGHT_MOST = 65_536
LINGER_MAX_MS = 10_000
CODECS = {"zlib": Compression.ZLIB, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


class ProducerOptions(TypedDict, total=False):
    """Those of a `Producer` that has connections of its own, but for its name servers."""

    group: str
    check: TransactionCheck | None
    retries: int
    timeout: str | float
    when_away: WhenAway
    max_in_flight: int
    linger: str | float
    compression: str
    compress_above: int
    body_bytes_max: int
    codec: Encodes | None
    credentials: Credentials | None
    tls: TlsOptions | None
    address_map: Mapping[str, str] | None
    allow: Sequence[str]
    namespace: str | None
    trace: bool
    trace_topic: str
    hooks: bool


def check_options(
    *, group: object, compression: str, when_away: str, max_in_flight: int, retries: int,
    compress_above: int, body_bytes_max: int, codec: object,
) -> None:  # fmt: skip
    """ArgumentWrong for what no producer can do."""
    if not isinstance(group, str):
        raise ArgumentMistyped(f"Producer: group={shorten(group)}: give a text")
    if compression not in CODECS:
        raise ArgumentWrong(f"Producer: compression {compression!r}: use {', '.join(CODECS)}")
    package = missing_package(CODECS[compression])
    if package:
        raise ArgumentWrong(
            f"Producer: compression {compression!r}: {package} cannot be imported: pip install {package}"
        )
    if when_away not in get_args(WhenAway):
        raise ArgumentWrong(f"Producer: when_away {when_away!r}: use {', '.join(get_args(WhenAway))}")
    if not _is_number(max_in_flight) or not 1 <= max_in_flight <= IN_FLIGHT_MOST:
        raise ArgumentWrong(f"Producer: max_in_flight {max_in_flight!r}: use 1 to {IN_FLIGHT_MOST}")
    leasts = (("retries", retries, 0), ("compress_above", compress_above, 0), ("body_bytes_max", body_bytes_max, 1))
    for name, number, least in leasts:
        if not _is_number(number) or number < least:
            raise ArgumentWrong(f"Producer: {name} {number!r}: use {least} or more")
    if codec is not None and not callable(getattr(codec, "encoder", None)):
        raise ArgumentMistyped(f"Producer: codec={shorten(codec)}: give an object with encoder(topic)")


def reach(
    name_servers: object, credentials: Credentials | None, tls: TlsOptions | None, address_map: object, allow: object
) -> ClusterOptions:
    """How a producer's own connections find the cluster; ArgumentWrong or AddressWrong where they cannot."""
    if address_map is not None and not isinstance(address_map, Mapping):
        raise ArgumentMistyped(f"Producer: address_map={shorten(address_map)}: give a dict of addresses")
    return ClusterOptions(
        name_servers=_texts("name_servers", name_servers),
        credentials=credentials,
        tls=tls,
        address_map=dict(address_map or {}),
        allow=_texts("allow", allow),
    )


def _texts(name: str, given: object) -> tuple[str, ...]:
    """A text alone is a list of one."""
    is_list = isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)
    texts: tuple[Any, ...] = tuple(given) if is_list else (given,)  # type: ignore[arg-type]  # looked at above
    if not all(isinstance(each, str) for each in texts):
        raise ArgumentMistyped(f"Producer: {name}={shorten(given)}: give a list of texts")
    return texts


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


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


def new_client_id(world: World) -> str:
    """How brokers know one producer of this process."""
    return f"{world.identity.host}@{world.identity.process}#{world.chance.token(6).hex()}"


def new_keys(world: World) -> UniqueKeys:
    """The ids of one producer's messages."""
    return UniqueKeys(world.identity.host, world.identity.process, int.from_bytes(world.chance.token(4)))
