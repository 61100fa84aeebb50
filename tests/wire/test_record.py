"""Records field by field: their checksums. That both ways to read them agree is tested with `stored.py`."""

from __future__ import annotations

import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from framework.wire.record import crc32

WITHOUT = """
import sys, zlib
sys.modules["zlib_ng.zlib_ng"] = None
from framework.wire import record, stored
from framework.model.queue import MessageQueue
assert record.crc32 is zlib.crc32 and stored.crc32 is zlib.crc32
data = record.encode_record(record.Record(topic="orders", body=b"paid", queue_offset=7))
(message,) = stored.decode(data, MessageQueue("orders", "broker-a", 0))
sys.stdout.write(f"{message.queue_offset} {message.body.decode()}")
"""


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_checksums_are_those_of_zlib(data: bytes, begin: int) -> None:
    assert zlib.crc32(data) == crc32(data) == crc32(memoryview(data))
    assert zlib.crc32(data, begin) == crc32(data, begin)


def test_zlib_does_it_where_zlib_ng_is_not_installed() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=120, check=False)

    assert ("7 paid", "") == (ended.stdout, ended.stderr)
    assert "zlib_ng.zlib_ng" in sys.modules, "the quicker one is what we are tested with"
