"""`run --workers N`: workers are forked by a process that has imported everything; each is as good as a new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.cli.processes.fork_server import ForkServer
from tests.cli.processes import Command, command
from tests.patience import wait_until
from tests.reading.threads import ThreadBox, texts, thread_box

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are new interpreters there")

SHOP = """
import os
import sys
from framework import Message, consumer

def is_socket(number: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{number}").startswith("socket")
    except FileNotFoundError:  # what the folder itself was read by
        return False

print(f"worker {os.getpid()} of {os.getppid()} session {os.getsid(0) == os.getpid()}", flush=True)
print("sockets", sum(map(is_socket, os.listdir("/proc/self/fd"))), flush=True)

@consumer("orders", "billing")
async def bill(order: Message) -> None:
    print("own modules", *sorted(n for n in sys.modules if n.startswith("framework.")), flush=True)
    print("handled by", os.getpid(), flush=True)
"""
FIRST = ("--set", "consumers.billing.start=first")
LOADED = """
import sys
import framework.cli.main, framework.cli.commands.run
from framework.cli.processes import fork_server
fork_server._import_all()
print(*sys.modules)
"""


@pytest.fixture
def box() -> Iterator[ThreadBox]:
    with thread_box() as box:
        yield box


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def workers_of(run: Command) -> dict[int, int]:
    """Of each worker so far, its parent."""
    words = [line.split() for line in run.lines if line.startswith("worker ")]
    return {int(each[1]): int(each[3]) for each in words}


def test_workers_are_forked_and_hold_nothing_of_their_parents(shop: Path, box: ThreadBox) -> None:
    with command("run", "shop", "--name-server", box.address, "--workers", "2", folder=shop) as run:
        run.until("ready:")
        workers = workers_of(run)
        assert 2 == len(workers)
        (server,) = set(workers.values())
        assert run.process.pid not in (server, os.getpid())
        assert 2 == sum("session True" in line for line in run.lines if line.startswith("worker "))
        assert ["sockets 0"] * 2 == [line for line in run.lines if line.startswith("sockets")]
        box.send("orders", texts("orders", 8))
        for _ in range(8):
            assert int(run.until("handled by").split()[-1]) in workers
        assert 0 == run.end()
    assert "drained: handled=8 retried=0 dead=0 left=0" == run.lines[-1]
    wait_until(lambda: not Path(f"/proc/{server}").exists(), "the end of the server")


def test_what_a_worker_needs_was_imported_before_it_was_forked(shop: Path, box: ThreadBox) -> None:
    """Otherwise each of them imports it, and has a copy of its own."""
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    words = ("run", "shop", "--name-server", box.address, "--workers", "2", "--set", "plugins.only=[]")
    with command(*words, folder=shop) as run:
        run.until("ready:")
        box.send("orders", texts("orders", 1))
        run.until("handled by")
        assert 0 == run.end()

    own = next(line for line in run.lines if line.startswith("own modules")).split()[2:]
    assert len(own) > 100
    assert [] == sorted(set(own) - set(loaded))


def test_a_worker_that_crashes_is_forked_anew(shop: Path, box: ThreadBox) -> None:
    with command("run", "shop", "--name-server", box.address, "--workers", "2", folder=shop) as run:
        run.until("ready:")
        first, (server,) = set(workers_of(run)), set(workers_of(run).values())
        os.kill(min(first), signal.SIGKILL)
        run.until("worker ")
        (again,) = set(workers_of(run)) - first
        assert server == workers_of(run)[again]
        assert 0 == run.end()


def test_without_its_server_workers_go_on_and_new_ones_are_new_interpreters(
    shop: Path, box: ThreadBox, capfd: pytest.CaptureFixture[str]
) -> None:
    with command("run", "shop", "--name-server", box.address, "--workers", "2", *FIRST, folder=shop) as run:
        run.until("ready:")
        first, (server,) = set(workers_of(run)), set(workers_of(run).values())
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # as whoever signals a whole group
            os.kill(server, number)
        os.kill(min(first), signal.SIGTERM)
        run.until("worker ")
        second = set(workers_of(run)) - first
        assert {server} == {workers_of(run)[pid] for pid in second}
        os.kill(server, signal.SIGKILL)
        os.kill(max(first), signal.SIGKILL)
        run.until("worker ")
        (third,) = set(workers_of(run)) - first - second
        assert run.process.pid == workers_of(run)[third]
        box.send("orders", texts("orders", 1))
        run.until("handled by")
        run.end()
    assert "handled=1 retried=0 dead=0" in run.lines[-1]
    assert "workers start slowly" in capfd.readouterr().err


def test_a_worker_has_an_input_of_its_own_where_its_parent_has_none(shop: Path, box: ThreadBox) -> None:
    words = [sys.executable, "-m", "framework", "run", "shop", "--name-server", box.address, "--workers", "2"]
    script = f"exec {' '.join(words)} --until-idle 1s 0<&-"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(["sh", "-c", script], cwd=shop, env=environment, capture_output=True, text=True, check=False)

    assert 0 == ended.returncode, ended.stderr
    assert "drained: handled=0 retried=0 dead=0 left=0" == ended.stdout.splitlines()[-1]


def test_no_other_program_is_forked() -> None:
    """Who calls the command line from a program of its own has threads and connections that a worker must not have."""
    assert ForkServer.begin() is None
