"""Slot: what one worker runs now."""

from __future__ import annotations

from framework.core.expiry import Slot
from tests.core.making import chunk_of


def test_a_new_slot_is_idle() -> None:
    slot = Slot()

    assert slot.chunk is None
    assert "<Slot idle>" == repr(slot)


def test_a_busy_slot_shows_its_chunk_and_index() -> None:
    slot = Slot()
    slot.chunk, slot.index = chunk_of(range(3)), 2

    assert "<Slot <Chunk [0, 3) next=0 low=0 of 3> index=2>" == repr(slot)
