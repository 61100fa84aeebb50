"""Sends one order: `python send.py HOST:PORT`, with the address that `framework-app dev` prints."""

from __future__ import annotations

import asyncio
import sys

from framework import Producer


async def main(name_server: str) -> None:
    async with Producer(name_servers=name_server) as producer:
        await producer.send("orders", '{"number": "1", "cents": 2500}', keys="1")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python send.py HOST:PORT")
    asyncio.run(main(sys.argv[1]))
