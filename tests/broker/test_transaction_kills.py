"""Producer, consumer and broker ended by SIGKILL again and again: no transaction is lost, seen early, or doubled."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from framework.broker.store.database import open_folder
from framework.wire.codes import RequestCode
from framework.wire.stored import decode_records
from tests.broker.administration_lab import ask, make_topic
from tests.broker.broker_lab import BrokerLab
from tests.broker.transaction_desk import TOPIC, open_shop
from tests.patience import PATIENCE_S, wait_until
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
SETTLED_S = 120


class Scene:
    """Three processes on one folder; whoever is ended is started anew."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shop = folder, folder / "shop.db"
        lab = BrokerLab(database=open_folder(folder / "data"))
        ask(lab, RequestCode.UPDATE_BROKER_CONFIG, b"transactionTimeOut=500\ntransactionCheckInterval=500\n"
            b"transactionCheckMax=10000\n")  # fmt: skip
        make_topic(lab, TOPIC)
        lab.store.close()
        open_shop(str(self.shop)).close()
        self.port = free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str) -> None:
        if role == "box":
            words = ["-m", "framework", "broker", "--data", str(self.folder / "data"), "--port", str(self.port)]
        else:
            address = f"127.0.0.1:{self.port}"
            words = ["-m", "tests.broker.transaction_desk", role, address, str(self.shop)]
        with (self.folder / f"{role}.log").open("ab") as output:
            self.running[role] = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=output, stderr=output)

    def kill(self, role: str) -> None:
        process = self.running.pop(role)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for role in list(self.running):
            self.kill(role)

    def keys(self, table: str) -> Counter[str]:
        with closing(sqlite3.connect(self.shop, timeout=PATIENCE_S)) as shop:
            return Counter(key for (key,) in shop.execute(f"SELECT key FROM {table}"))

    def stored(self) -> Counter[str]:
        """How often each key lies in the topic."""
        lab = BrokerLab(database=open_folder(self.folder / "data"))
        found: list[bytes] = []
        for number in range(8):
            queue = lab.node.queue(TOPIC, number)
            if queue is not None and queue.end:
                found += lab.store.log.read(queue, queue.low, count_max=10**6, bytes_max=1 << 30).records
        lab.store.close()
        return Counter(record.properties["KEYS"] for record in decode_records(b"".join(found)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [200])
def test_transactions_outlive_whoever_is_killed(tmp_path: Path, kills: int) -> None:
    chance = random.Random(5)
    scene = Scene(tmp_path)
    try:
        for role in ("box", "desk", "reader"):
            scene.start(role)
        for number in range(kills):
            wait_until(lambda: len(scene.keys("sold")) > number / 10, "transactions for the kills to hit")  # noqa: B023
            time.sleep(chance.uniform(0.3, 1.5))  # the moment of the kill is what is drawn
            role = chance.choice(("box", "desk", "reader"))
            scene.kill(role)
            scene.start(role)
        scene.kill("desk")
        scene.start("heir")  # of the same producer group: it answers for all that are gone
        wait_until(
            lambda: scene.keys("sold").keys() <= scene.keys("handled").keys(), "all that was sold, handled", SETTLED_S
        )
    finally:
        scene.close()

    sold, stored = scene.keys("sold"), scene.stored()
    assert sold.keys() - scene.keys("handled").keys() == set(), "lost"
    assert stored.keys() - sold.keys() == set(), "committed though its local transaction was not"
    assert {key: count for key, count in stored.items() if count > 1} == {}, "doubled"
    with closing(sqlite3.connect(scene.shop)) as shop:
        early = shop.execute("SELECT key FROM handled WHERE NOT was_sold").fetchall()
    assert early == [], "seen before its commit"
