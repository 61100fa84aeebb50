"""An application that is played: a control socket with answers from a script, as `run` would give them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from framework.model.queue import MessageQueue
from framework.model.snapshot import GroupSnapshot, QueueSnapshot, Snapshot
from framework.net.control.asking import Answer, Request
from framework.net.control.serving import ControlSocket
from framework.net.real_world import RealWatchman


def queue(reason: str | None = None) -> QueueSnapshot:
    return QueueSnapshot(
        queue="orders@broker-a:0", state="flowing", reason=reason, committable=0, next_offset=0, max_offset=0,
        messages=0, bytes=0, running=0, place=MessageQueue("orders", "broker-a", 0),
    )  # fmt: skip


def group(name: str = "billing", **facts: Any) -> GroupSnapshot:
    known: dict[str, Any] = {
        "queues": (queue(),), "handled": 0, "retried": 0, "dead_lettered": 0, "dropped": 0, "late": 0,
        "is_balanced": True, "concurrency": 20, "lag": 0, "behind_ms": 0,
    }  # fmt: skip
    return GroupSnapshot(group=f"shop%{name}", own_name=name, topics=("orders",), **{**known, **facts})


def picture(*groups: GroupSnapshot, **facts: Any) -> Snapshot:
    known: dict[str, Any] = {
        "name": "shop", "member": "m", "is_ready": True, "budget_used": 0, "budget_limit": 1, "process": 100,
        "phase": "running", "up_ms": 60_000,
    }  # fmt: skip
    return Snapshot(groups=groups or (group(),), **{**known, **facts})


def worker(found: Snapshot, number: int = 0) -> Answer:
    return {"worker": number, "process": found.process, "snapshot": asdict(found)}


class Played:
    """What is asked, and what is answered: for each question a text, an answer, or one after the other."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[Request] = []
        self.answers: dict[str, Any] = {"about": {"name": "shop", "config": "/shop.yaml", "process": 100}, **answers}

    def __call__(self, request: Request) -> Answer:
        self.asked.append(request)
        found = self.answers[request["ask"]]
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return dict(found)

    @property
    def changes(self) -> list[Request]:
        return [each for each in self.asked if each["ask"] in {"pause", "resume", "resize"}]


@contextmanager
def listening(path: Path, played: Played) -> Iterator[Played]:
    opened = ControlSocket(path, played, RealWatchman())
    assert opened.open()
    try:
        yield played
    finally:
        opened.close()
