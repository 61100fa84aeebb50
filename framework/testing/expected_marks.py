"""The marks that every CI run of the simulation must reach. A mark that no seed reaches means a blind generator."""

from __future__ import annotations

EXPECTED: tuple[str, ...] = (
    "a finished chunk waited behind a gap",
    "a half-open connection was closed",
    "a handler ended after its queue was gone",
    "a message was parked",
    "a pull was answered after its queue had been taken away",
    "an address was left alone until its back-off was over",
    "broker: a send-back was repeated",
    "handlers still ran when the drain limit was over",
    "the broker moved an offset",
)
