"""The part of a kubelet, of systemd, of a container engine: what a file says is started as a process of this machine.

Its probes are asked, and it is stopped as they would stop it. Paths of the container are folders here.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from framework import SyncProducer
from tests.deploy import files
from tests.deploy.files import ROOT
from tests.patience import PATIENCE_S, wait_until
from tests.ports import free_port

GRACE = {"FRAMEWORK_APP__APP__GRACE": "10m"}
"""However long a busy machine takes to start one again."""
HANDLERS = Path(__file__).with_name("orders.py")
WRITES = Path(__file__).with_name("writes")
"""A folder on Python's path: what is in it notes each file that a process opens to write."""


class Process:
    """One running container or service."""

    def __init__(
        self, command: Sequence[str], folder: Path, *, environment: Mapping[str, str], mounts: Mapping[str, Path]
    ) -> None:
        """`folder`: where it works, and where what it prints is kept."""
        self.mounts, self.folder = dict(mounts), folder
        self._writes = folder / "writes.txt"
        words = [self._here(word) for word in command]
        assert "framework-app" == Path(words[0]).name, words
        placed = {name: self._here(value) for name, value in environment.items() if name != "PATH"}
        inherited = {name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_RUNTIME_DIR"}}
        self._environment = {
            **inherited, "TMPDIR": str(self.mounts.get("/tmp", folder)), **placed,
            "PYTHONPATH": os.pathsep.join([str(WRITES), str(ROOT)]), "NOTE_WRITES_IN": str(self._writes),
        }  # fmt: skip
        self._log = (folder / "output.log").open("ab")
        self._child = subprocess.Popen(
            [sys.executable, "-m", "framework", *words[1:]], env=self._environment,
            cwd=folder, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def _here(self, text: str) -> str:
        for mounted, path in self.mounts.items():
            if text == mounted or text.startswith(f"{mounted}/"):
                return str(path) + text.removeprefix(mounted)
        return text

    def run(self, *words: str) -> tuple[int, str]:
        """A command of ours beside it, as `docker exec` and `kubectl exec` run one; its code and what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "framework", *words], cwd=self.folder, env=self._environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    def said(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")

    def written(self) -> list[Path]:
        """Files that it opened to write."""
        return [Path(line) for line in self._writes.read_text().splitlines()] if self._writes.exists() else []

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def end(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; answers the exit code."""
        code = self._child.wait(patience_s)
        self._log.close()
        return code

    def stop(self, grace_s: float = PATIENCE_S) -> int:
        self.signal(signal.SIGTERM)
        return self.end(grace_s)

    def close(self) -> None:
        if self.is_running:
            self._child.kill()
        self.end()


class Pod(Process):
    """One pod of a workload's manifest. What a pod's network would give it comes as `environment`."""

    def __init__(
        self, workload: Mapping[str, Any], name: str, folder: Path, *, volumes: Mapping[str, Path], name_server: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.manifest, self.name = files.container(dict(workload)), name
        self._grace_s = float(files.pod(dict(workload))["terminationGracePeriodSeconds"])
        self.port = free_port()
        super().__init__(
            self.manifest["command"], folder,
            environment={
                **files.image_environment(), **self._variables(),
                "FRAMEWORK_APP__OBSERVE__LISTEN": f"127.0.0.1:{self.port}",
                "FRAMEWORK_APP__CLUSTER__NAME_SERVERS": f'["{name_server}"]',
                **(environment or {}),
            },
            mounts={each["mountPath"]: volumes[each["name"]] for each in self.manifest["volumeMounts"]},
        )  # fmt: skip

    def _variables(self) -> dict[str, str]:
        facts = {"metadata.name": self.name}
        found = {}
        for each in self.manifest.get("env", []):
            match each:
                case {"value": value}:
                    found[each["name"]] = value
                case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
                    found[each["name"]] = facts[path]
                case {"valueFrom": {"secretKeyRef": {"key": key}}}:
                    found[each["name"]] = f"the secret {key}"
                case _:
                    raise AssertionError(f"no kubelet here knows {each}")
        return found

    def answers(self, probe: str) -> int:
        """The status of a probe; 0 if nothing answers."""
        return status(self.port, self.manifest[probe]["httpGet"]["path"])

    def is_well(self, probe: str) -> bool:
        return 200 <= self.answers(probe) < 400

    def wait_until_it_is_ready(self) -> None:
        """As a kubelet: no other probe is asked before the one of the start has answered yes."""
        for probe in ("startupProbe", "readinessProbe"):
            wait_until(lambda probe=probe: self._is_well_or_over(probe), f"{self.name}: {probe}")  # type: ignore[misc]  # mypy knows no default

    def _is_well_or_over(self, probe: str) -> bool:
        assert self.is_running, f"{self.name} ended:\n{self.said()}"
        return self.is_well(probe)

    def stop(self, grace_s: float | None = None) -> int:
        """preStop, then SIGTERM, and SIGKILL once the grace is over: that would show as another exit code."""
        deadline = time.monotonic() + (self._grace_s if grace_s is None else grace_s)
        hook = self.manifest.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            subprocess.run(hook["exec"]["command"], check=True)
        self.signal(signal.SIGTERM)
        try:
            return self.end(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self.end()


class ConfigMapVolume:
    """A ConfigMap as a kubelet mounts it: a folder of links into `..data`, which is itself a link that is exchanged."""

    def __init__(self, folder: Path, data: Mapping[str, str]) -> None:
        self.folder, self._edits = folder, 0
        folder.mkdir(parents=True)
        self.write(data)
        for name in data:
            (folder / name).symlink_to(Path("..data") / name)

    def write(self, data: Mapping[str, str]) -> None:
        self._edits += 1
        new = self.folder / f"..edit_{self._edits}"
        new.mkdir()
        for name, text in data.items():
            (new / name).write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        link.replace(self.folder / "..data")


@contextmanager
def ended() -> Iterator[Callable[[Process], None]]:
    """Whatever is given to it does not outlive the block."""
    with ExitStack() as stack:

        def keep(process: Process) -> None:
            stack.callback(process.close)

        yield keep


def wait_until_ready(process: Process, port: int) -> None:
    wait_until(lambda: status(port, "/ready") == 200 or not process.is_running, "readiness")
    assert process.is_running, process.said()


def status(port: int, path: str) -> int:
    """What a request for this page is answered with; 0 if nothing answers."""
    try:
        return _asked(port, path)[0]
    except OSError:
        return 0


def page(port: int, path: str) -> str:
    return _asked(port, path)[1]


def _asked(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def send(name_server: str, *bodies: bytes | dict[str, object]) -> None:
    with SyncProducer(name_servers=name_server) as producer:
        for body in bodies:
            producer.send("orders", body)
