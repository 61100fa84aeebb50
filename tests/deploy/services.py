"""The part of systemd: the unit of `deploy/systemd` as a process, on what counts as a machine of its own."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from pathlib import Path

from tests.deploy import files
from tests.deploy.pods import GRACE, HANDLERS, Process, status, wait_until_ready
from tests.ports import free_port

FOLDERS = {
    "/opt/order-desk": "app",
    "/etc/order-desk": "etc",
    "/var/lib/order-desk": "state",
    "/run/order-desk": "run",
}
"""What the unit has, and where it is in the folder of a machine."""


class Service(Process):
    """`systemctl start` on the machine of this name.

    What differs from machine to machine comes by variables, as from the unit's EnvironmentFile.
    """

    def __init__(self, machine: str, folder: Path, name_server: str) -> None:
        self.unit, self.port = files.unit()["Service"], free_port()
        mounts = {path: folder / name for path, name in FOLDERS.items()}
        for each in (*mounts.values(), folder / "tmp"):
            each.mkdir(parents=True)
        shutil.copy(HANDLERS, folder / "app" / "orders.py")
        self.settings = folder / "etc" / files.SETTINGS
        shutil.copy(files.UNIT.with_name(files.SETTINGS), self.settings)
        environment = dict(value.replace("%H", machine).split("=", 1) for value in self.unit["Environment"])
        here = {
            "FRAMEWORK_APP__CLUSTER__NAME_SERVERS": f'["{name_server}"]',
            "FRAMEWORK_APP__OBSERVE__LISTEN": f"127.0.0.1:{self.port}",
            **GRACE,
            "TMPDIR": str(folder / "tmp"),
            "FRAMEWORK_APP__PROGRESS__FOLDER": str(folder / "state" / "progress"),
            "FRAMEWORK_APP__ONCE__FOLDER": str(folder / "state" / "once"),
            "FRAMEWORK_APP__BROADCASTING__FOLDER": str(folder / "state" / "offsets"),
        }
        (start,) = self.unit["ExecStart"]
        work = mounts[self.unit["WorkingDirectory"][0]]
        super().__init__(shlex.split(start), work, mounts=mounts, environment={**environment, **here})

    def wait_until_it_is_ready(self) -> None:
        wait_until_ready(self, self.port)

    def is_well(self, _: str) -> bool:
        return status(self.port, "/live") == 200

    def stop(self, grace_s: float | None = None) -> int:
        """KillSignal, and SIGKILL after TimeoutStopSec: that would show as another exit code."""
        (name,), (limit,) = self.unit["KillSignal"], self.unit["TimeoutStopSec"]
        self.signal(signal.Signals[name])
        try:
            return self.end(float(limit) if grace_s is None else grace_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self.end()
