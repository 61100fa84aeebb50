"""The processes of `test_transaction_kills.py`: `desk`, which sells in transactions, and `reader`, which consumes.

Both share a SQLite file: `sold` is what local transactions committed, `handled` what consumers were given.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing

from framework import App, FrameworkError, Message, Producer, consumer, transaction_check
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings

TOPIC, FAILING = "orders", 7


class ChangedMyMind(Exception):
    """Rolls a local transaction back."""


def open_shop(path: str) -> sqlite3.Connection:
    shop = sqlite3.connect(path, timeout=60, isolation_level=None)
    shop.execute("PRAGMA journal_mode = WAL")
    shop.execute("CREATE TABLE IF NOT EXISTS sold (key TEXT PRIMARY KEY)")
    shop.execute("CREATE TABLE IF NOT EXISTS handled (key TEXT, was_sold INTEGER)")
    return shop


def is_sold(shop: sqlite3.Connection, key: str) -> bool:
    return shop.execute("SELECT 1 FROM sold WHERE key = ?", (key,)).fetchone() is not None


async def sell(address: str, shop: sqlite3.Connection, *, sells: bool) -> None:
    at_work: set[str] = set()

    @transaction_check("desk")
    async def check(message: Message) -> str:
        (key,) = message.keys
        if key in at_work:
            return "unknown"
        return "commit" if is_sold(shop, key) else "rollback"

    async with Producer(name_servers=address, check=check, timeout="5s") as producer:
        number = 0
        while True:
            if not sells:
                await asyncio.sleep(1)  # it only answers checks, until it is killed
                continue
            number += 1
            key = f"{os.getpid()}-{number}"
            at_work.add(key)
            try:
                async with producer.transaction(Message(TOPIC, key, keys=key)):
                    if number % FAILING == 0:
                        raise ChangedMyMind
                    shop.execute("INSERT INTO sold VALUES (?)", (key,))
            except ChangedMyMind:
                continue
            except FrameworkError:
                await asyncio.sleep(0.05)
            finally:
                at_work.discard(key)


async def read(address: str, shop: sqlite3.Connection) -> None:
    @consumer(TOPIC, "readers")
    async def handle(message: Message) -> None:
        (key,) = message.keys
        shop.execute("INSERT INTO handled VALUES (?, ?)", (key, is_sold(shop, key)))

    settings = {"cluster": {"name_servers": [address]}, "consumers": {"readers": {"start": "first"}}}
    await App(AppSettings.model_validate(settings), [handle], plugins=PluginHost()).run()


def main() -> None:
    role, address, path = sys.argv[1:]
    with closing(open_shop(path)) as shop:
        asyncio.run(read(address, shop) if role == "reader" else sell(address, shop, sells=role == "desk"))


if __name__ == "__main__":
    main()
