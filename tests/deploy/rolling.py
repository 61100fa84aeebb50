"""A rollout as Kubernetes' controllers do it, with a manifest's pods as processes, while messages keep coming."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from framework import SyncProducer
from framework.errors import BrokerUnreachable, Refused
from tests.deploy import files
from tests.deploy.pods import GRACE, HANDLERS, ConfigMapVolume, Pod, Process, page
from tests.deploy.services import Service
from tests.patience import wait_until

UNIT = "systemd"
PAUSE_S = 0.005
"""Between two messages."""


class Rollout:
    """The pods of one workload, or three machines with the unit, each life of one in a folder of its own."""

    def __init__(
        self, kind: str, name_server: str, folder: Path, keep: Callable[[Process], Process], *,
        topic: str = "orders", group: str = "billing", queues: int = 4,
    ) -> None:  # fmt: skip
        """`kind`: of the workload, or UNIT. Returns when the topic's queues are divided: a rollout begins at rest."""
        self._kind, self._name_server, self._folder = kind, name_server, folder
        self.workload = files.of_kind("StatefulSet" if kind == UNIT else kind)
        self._keep, self._topic, self._group, self._lives = keep, topic, group, 0
        self.codes: list[int] = []
        self.pods = [self._start(ordinal) for ordinal in range(self.workload["spec"]["replicas"])]
        for pod in self.pods:
            pod.wait_until_it_is_ready()
        of_retries = 1
        wait_until(lambda: sum(map(owned, self.pods)) == queues + of_retries, "queues that are divided")
        self._moved_before = 0
        self._moved_before = self.moved()

    def _start(self, ordinal: int) -> Pod | Service:
        self._lives += 1
        folder = self._folder / f"life-{self._lives}"
        if self._kind == UNIT:
            service = Service(f"machine-{ordinal}", folder, self._name_server)
            self._keep(service)
            return service
        for each in ("app", "tmp"):
            (folder / each).mkdir(parents=True)
        shutil.copy(HANDLERS, folder / "app" / "orders.py")
        data = files.of_kind("ConfigMap")["data"]
        settings = ConfigMapVolume(
            folder / "settings", {name: text.replace("billing", self._group) for name, text in data.items()}
        )
        pod = Pod(
            self.workload, f"order-desk-{ordinal}", folder / "app", name_server=self._name_server,
            volumes={"settings": settings.folder, "tmp": folder / "tmp"},
            environment={"TOPIC": self._topic, "GROUP": self._group, **GRACE},
        )  # fmt: skip
        self._keep(pod)
        return pod

    def roll(self, steady_s: float = 0) -> None:
        """Each pod once. `steady_s`, as minReadySeconds: how long a new one is ready before the next one goes."""
        replace = self._replace_beside if self._kind == "Deployment" else self._replace
        for ordinal in reversed(range(len(self.pods))):
            replace(ordinal)
            until = time.monotonic() + steady_s
            while time.monotonic() < until:
                assert self.pods[ordinal].is_well("livenessProbe")
                time.sleep(0.5)

    def _replace(self, ordinal: int) -> None:
        """A StatefulSet's, and `systemctl restart`: the old one ends, and the new one has its name."""
        self.codes.append(self.pods[ordinal].stop())
        self.pods[ordinal] = self._start(ordinal)
        self.pods[ordinal].wait_until_it_is_ready()

    def _replace_beside(self, ordinal: int) -> None:
        """A Deployment's, with maxSurge 1 and maxUnavailable 0: the new one is ready before the old one ends."""
        new = self._start(len(self.pods))
        new.wait_until_it_is_ready()
        self.codes.append(self.pods[ordinal].stop())
        self.pods[ordinal] = new

    def end(self) -> None:
        self.codes += [pod.stop() for pod in self.pods]

    def done(self) -> Counter[str]:
        """How often each place was handled to the end."""
        return self._lines("done")

    def began(self) -> Counter[str]:
        return self._lines("began")

    def moved(self) -> int:
        """How many queues of the topic went from a pod that lived, since the rollout began."""
        found = 0
        for path in self._folder.glob("life-*/app/output.log"):
            for line in whole_lines(path):
                if '"event": "assignment changed"' in line and f'"topic": "{self._topic}"' in line:
                    found += len(json.loads(line)["lost"])
        return found - self._moved_before

    def _lines(self, what: str) -> Counter[str]:
        paths = self._folder.glob("life-*/tmp/lines")
        return Counter(line.split()[1] for path in paths for line in whole_lines(path) if line.startswith(what))


def whole_lines(path: Path) -> list[str]:
    """Without one that is being written."""
    return path.read_text().split("\n")[:-1]


def owned(pod: Pod | Service) -> int:
    found = re.findall(r"^framework_app_queues_owned\{.*\} (\d+)", page(pod.port, "/metrics"), re.MULTILINE)
    return sum(map(int, found))


@contextmanager
def load(name_server: str, topic: str = "orders") -> Iterator[set[str]]:
    """Messages one after the other, from a thread; yields the places of those that a broker has stored."""
    stored: set[str] = set()
    is_over = threading.Event()

    def keep_sending() -> None:
        with SyncProducer(name_servers=name_server) as producer:
            while not is_over.wait(PAUSE_S):
                try:
                    sent = producer.send(topic, b"x")
                except (Refused, BrokerUnreachable):  # a busy broker's; nobody waits for what it may not have taken
                    continue
                stored.add(f"{sent.queue.broker}:{sent.queue.number}:{sent.queue_offset}")

    thread = threading.Thread(target=keep_sending)
    thread.start()
    try:
        wait_until(lambda: len(stored) > 10, "messages that are sent")
        yield stored
    finally:
        is_over.set()
        thread.join()


def settle(rollout: Rollout, stored: set[str]) -> tuple[set[str], list[str]]:
    """What nobody handled, and what was handled more than once, when all is done and every pod has ended."""
    wait_until(lambda: stored <= set(rollout.done()), "every message", 240)
    rollout.end()
    began = rollout.began()
    return stored - set(rollout.done()), sorted(place for place, times in began.items() if times > 1)
