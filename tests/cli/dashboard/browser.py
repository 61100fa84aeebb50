"""Chromium, driven. On a machine without it, or without what drives it, tests are skipped by name; in CI they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lacking import lacking

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def needed() -> None:
    if not Path(CHROMIUM).exists():
        lacking(f"there is no {CHROMIUM}: apt-get install chromium")


@contextmanager
def browser(folder: Path) -> Iterator[Any]:
    """A browser with a profile of its own, empty; closed behind whoever uses it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch_persistent_context(
            str(folder / "profile"), executable_path=CHROMIUM, args=FLAGS, headless=True, timeout=120_000
        )
        opened.set_default_timeout(60_000)
        try:
            yield opened
        finally:
            opened.close()
