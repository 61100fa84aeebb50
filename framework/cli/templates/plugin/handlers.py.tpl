"""Something for the plugin to watch in `framework-app dev`; it is not installed with it."""

from __future__ import annotations

import asyncio

from framework import consumer


@consumer("naps", "sleepers")
async def nap(seconds: str) -> None:
    await asyncio.sleep(float(seconds))
