"""Queues without a group's life: a blocking, picklable reader for engines and plugins."""

from framework.reading.columns import Columns
from framework.reading.offsets_gone import OffsetsGone
from framework.reading.pulls import Filter, Pulled
from framework.reading.reader import Reader
from framework.reading.settings import ReaderSettings

__all__ = ["Columns", "Filter", "OffsetsGone", "Pulled", "Reader", "ReaderSettings"]
