"""Queues without a group's life: a blocking, picklable reader for engines and plugins."""

from framework.net.tls import TlsOptions
from framework.reading.columns import Columns
from framework.reading.counts import Counts
from framework.reading.heads import Head
from framework.reading.offsets_gone import OffsetsGone
from framework.reading.pulls import Filter, Pulled
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
