"""The developer's own cluster: started once, used by many test runs, stopped by hand.

With `FRAMEWORK_INTEROP_CLUSTER=DIR` set, the tests use the cluster started in DIR instead of starting theirs, so a
single test runs without ten seconds of waiting.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.interop import jars
from tests.interop.cluster import Addresses, Cluster, Shape
from tests.interop.jars import InteropError
from tests.interop.java_peer import JavaPeer
from tests.interop.keeper import started_at
from tests.interop.mqadmin import Admin
from tests.interop.processes import Birth, Nursery

CLUSTER_VARIABLE = "FRAMEWORK_INTEROP_CLUSTER"


def developers_cluster() -> Addresses | None:
    """The cluster that the environment names, if it does; an error when that one does not run."""
    chosen = os.environ.get(CLUSTER_VARIABLE)
    return None if chosen is None else running_in(Path(chosen))


def running_in(directory: Path) -> Addresses:
    """The addresses of the cluster that was started in a folder and still runs."""
    state = _state(directory)
    if state is None or not all(birth.is_alive for birth in _births(state)):
        raise InteropError(
            f"no whole cluster runs in {directory}; start one: python -m tests.interop.cluster start --dir {directory}"
        )
    return Addresses(**state["addresses"])


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "start":
                shape = Shape(
                    brokers=options.brokers, proxy=options.proxy, settings=dict(options.settings), is_measured=True
                )
                print(json.dumps(dataclasses.asdict(_start(options.dir, shape)), indent=2))
            case "stop":
                _stop(options.dir)
            case _:
                _admin(running_in(options.dir), options.words)
    except InteropError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _start(directory: Path, shape: Shape) -> Addresses:
    """Start a cluster, or find that one runs already; two callers at once start one."""
    directory.mkdir(parents=True, exist_ok=True)
    with jars.locked(directory / ".lock"):
        try:
            return running_in(directory)
        except InteropError:
            _kill(directory)
        cluster = Cluster(directory, Nursery(outlive=True), shape)
        try:
            cluster.start()
        except BaseException:
            cluster.stop()
            raise
        pids = {role: (pid, started_at(pid)) for role, pid in cluster.pids().items()}
        state = {"addresses": dataclasses.asdict(cluster.addresses), "processes": pids}
        (directory / "cluster.json").write_text(json.dumps(state, indent=2))
        return cluster.addresses


def _stop(directory: Path) -> None:
    if not directory.is_dir():
        raise InteropError(f"{directory} is no folder of a cluster")
    with jars.locked(directory / ".lock"):
        _kill(directory)


def _admin(addresses: Addresses, words: list[str]) -> None:
    nursery = Nursery()
    try:
        print(Admin(JavaPeer(nursery), addresses.name_server).run(*words), end="")
    finally:
        nursery.close()


def _kill(directory: Path) -> None:
    state = _state(directory)
    for birth in reversed(_births(state) if state else []):
        birth.kill()
    (directory / "cluster.json").unlink(missing_ok=True)


def _state(directory: Path) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads((directory / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    return state


def _births(state: dict[str, Any]) -> list[Birth]:
    return [Birth(pid, started) for pid, started in state["processes"].values()]


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start the cluster, or say where it runs")
    start.add_argument("--brokers", type=int, default=1, choices=range(1, 9), metavar="1..8")
    start.add_argument("--proxy", action="store_true", help="also the proxy of RocketMQ 5; it listens beyond loopback")
    start.add_argument(
        "--set",
        dest="settings",
        type=_key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the brokers",
    )
    stop = commands.add_parser("stop", help="kill it; what it stored stays in the folder")
    admin = commands.add_parser("admin", help="run one mqadmin command against it")
    for command in (start, stop, admin):
        command.add_argument("--dir", type=Path, default=jars.cache() / "cluster", help="default: %(default)s")
    admin.add_argument("words", nargs=argparse.REMAINDER, help="as mqadmin wants them, e.g. consumerProgress -g GROUP")
    return parser
