"""What benchmarks' command lines have in common."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def several(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]
