"""Hosts and message ids, both ways."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigurationError
from framework.wire import ids
from framework.wire.ids import OffsetMessageId, UniqueKeys

PORTS = st.integers(0, 65535)
ADDRESSES = st.ip_addresses().map(str)


@given(ADDRESSES, PORTS, st.integers(0, 2**63 - 1))
def test_an_offset_message_id_names_the_place_it_was_made_of(address: str, port: int, offset: int) -> None:
    text = ids.offset_message_id(ids.pack_host(address, port), offset)

    assert OffsetMessageId(address, port, offset) == ids.parse_offset_message_id(text)
    assert (56 if ":" in address else 32) == len(text)


def test_java_id_is_read_and_written() -> None:
    assert "0A00000900002A9F0000000000001092" == ids.offset_message_id(ids.pack_host("10.0.0.9", 10911), 4242)
    assert ("10.0.0.9", 10911, 4242) == ids.parse_offset_message_id("0A00000900002A9F0000000000001092")


@pytest.mark.parametrize("text", ["", "0A", "0" * 31, "0" * 33, "x" * 32, "0" * 57, " 0" * 16, "0" * 30 + "\n\n"])
def test_a_text_that_is_no_id_is_none(text: str) -> None:
    assert ids.parse_offset_message_id(text) is None


def test_hosts_are_packed_and_read_again() -> None:
    assert ("10.0.0.9", 10911) == ids.unpack_host(ids.pack_host("10.0.0.9", 10911))
    assert ("::1", 10911) == ids.unpack_host(ids.pack_host("::1", 10911))


def test_a_name_is_no_host() -> None:
    with pytest.raises(ConfigurationError, match="'localhost' is not an IP address"):
        ids.pack_host("localhost", 1)


def ms(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc]


def test_a_unique_key_holds_host_process_seed_time_and_counter() -> None:
    keys = UniqueKeys("10.0.0.1", 0x12345, -2)
    now_ms = ms(2024, 2, 3, 0, 0, 1)

    first, second = keys.next(now_ms), keys.next(now_ms + 1)

    assert "0A0000012345FFFFFFFE" + f"{2 * 86_400_000 + 1000:08X}0000" == first
    assert "0A0000012345FFFFFFFE" + f"{2 * 86_400_000 + 1001:08X}0001" == second
    assert 32 == len(first)
    assert 56 == len(UniqueKeys("::1", 1, 2).next(now_ms))


def elapsed(key: str) -> int:
    return int(key[20:28], 16)


def test_a_new_month_begins_a_new_count() -> None:
    keys = UniqueKeys("10.0.0.1", 1, 2)

    assert 29 * 86_400_000 - 1 == elapsed(keys.next(ms(2024, 3, 1) - 1))
    assert 0 == elapsed(keys.next(ms(2024, 3, 1)))


def test_a_clock_set_back_a_little_counts_as_the_month_s_beginning() -> None:
    keys = UniqueKeys("10.0.0.1", 1, 2)
    keys.next(ms(2024, 3, 1))

    assert 0 == elapsed(keys.next(ms(2024, 3, 1) - 999_000))
    assert 29 * 86_400_000 - 1_001_000 == elapsed(keys.next(ms(2024, 3, 1) - 1_001_000))


def test_the_counter_wraps_and_no_key_is_given_twice() -> None:
    keys = UniqueKeys("10.0.0.1", 1, 2)

    assert 65_536 == len({keys.next(0) for _ in range(65_536)})
    assert "0000" == keys.next(0)[-4:]


@given(st.integers(0, 4_000_000_000_000))
def test_a_month_holds_its_instant(now_ms: int) -> None:
    start_ms, end_ms = ids.month_of(now_ms)

    assert start_ms <= now_ms < end_ms
    assert end_ms == ids.month_of(end_ms)[0]
    assert 28 <= (end_ms - start_ms) / 86_400_000 <= 31
