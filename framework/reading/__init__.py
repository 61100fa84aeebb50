"""Queues without a group's life: a blocking, picklable reader for engines and plugins."""

from framework.net.tls import TlsOptions
from framework.reading.columns import Columns
from framework.reading.pulls import Filter, Head, OffsetsGone, Pulled
from framework.reading.reach import Counts
from framework.reading.reader import Reader
from framework.reading.settings import ReaderSettings
from framework.wire.properties import decode_stored as decode_properties

__all__ = [
    "Columns",
    "Counts",
    "Filter",
    "Head",
    "OffsetsGone",
    "Pulled",
    "Reader",
    "ReaderSettings",
    "TlsOptions",
    "decode_properties",
]
