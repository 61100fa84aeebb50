"""Serve pages about a cluster and its groups to a browser on this machine. Reads only, without --allow-writes.

It looks at the cluster through its name servers, and at the applications of this machine through their control sockets.
The address that it prints holds a token; without it nothing is shown. Bodies of messages are hidden until somebody asks
for one, which leaves an audit line on stderr, as each change does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import connect, options, output
from framework.cli.exit_codes import ExitCode
from framework.cli.live.find import SECONDS
from framework.mistakes import UsageWrong
from framework.net.control.asking import ask_all, workers_of
from framework.net.control.places import is_heard, sockets

if TYPE_CHECKING:
    from framework.cli.dashboard.serving import DashboardOptions
    from framework.client.options import ClusterOptions

EXAMPLES = """\
examples:
  framework-app dashboard                                   of the cluster that the settings name
  framework-app dashboard --name-server 10.0.0.5:9876
  framework-app dashboard --allow-writes                    with pause, reset, replay and the like
  framework-app dashboard --listen 0.0.0.0:9465 --host dashboard.example.com   needs a token
"""
TOKEN_VARIABLE = "FRAMEWORK_APP_DASHBOARD_TOKEN"  # noqa: S105 - its name, and no token
DEFAULT_LISTEN = "127.0.0.1:9465"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN,
        help=f"where it listens (default {DEFAULT_LISTEN}; port 0 takes a free one)",
    )  # fmt: skip
    parser.add_argument(
        "--host", metavar="NAME", action="append", default=[], dest="names",
        help="a host name that browsers call it by, beside localhost; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", metavar="FILE", type=Path,
        help=f"the token that opens it, in a file; else {TOKEN_VARIABLE}, else one is made and printed",
    )  # fmt: skip
    parser.add_argument("--allow-writes", action="store_true", help="let pages change what they show, after a plan")
    parser.add_argument("--socket", metavar="PATH", help="only the application at this control socket")
    connect.add_connection(parser)


def execute(arguments: argparse.Namespace) -> int:
    _check_installed()
    from framework.cli.dashboard.serving import DashboardOptions, checked

    host, port = _address(arguments.listen)
    chosen = checked(DashboardOptions(host, port, _token(arguments), arguments.allow_writes, arguments.names))
    find = sockets_of(arguments.socket)
    return asyncio.run(_serve(chosen, _cluster(arguments, find()), find, is_json=arguments.json))


def _check_installed() -> None:
    missing = [name for name in ("h11", "jinja2") if find_spec(name) is None]
    if missing:
        raise UsageWrong(f"the dashboard needs {' and '.join(missing)}: pip install 'framework-app[dashboard]'")


def _address(text: str) -> tuple[str, int]:
    from framework.net.address import parse_address

    host, _, port = text.rpartition(":")
    if port == "0":  # a free one, which no other address of ours can be
        return parse_address(f"{host}:1", "--listen").host, 0
    found = parse_address(text, "--listen")
    return found.host, found.port


def _token(arguments: argparse.Namespace) -> str:
    from framework.settings.sources import private_text

    if arguments.token_file:
        return private_text(arguments.token_file).strip()
    return os.environ.get(TOKEN_VARIABLE, "").strip()


def sockets_of(path: str | None) -> Callable[[], list[Path]]:
    """Where the applications of this machine are asked, looked up anew each time."""
    if path:
        chosen = Path(path).expanduser()
        return lambda: [chosen]
    return lambda: [each for each in sockets(os.environ) if is_heard(each)]


def _cluster(arguments: argparse.Namespace, paths: list[Path]) -> ClusterOptions:
    """What the settings say; where nobody named any, the cluster of the one application that runs here."""
    found = connect.cluster_options(arguments)
    if arguments.name_server or options.settings_file(arguments) is not None:
        return found
    servers: set[tuple[str, ...]] = set()
    for answer in ask_all(dict(enumerate(paths)), {"ask": "snapshot"}, SECONDS).values():
        if not isinstance(answer, Exception):
            pictures = [each["snapshot"] for each in workers_of(answer) if "snapshot" in each]
            servers |= {tuple(picture["name_servers"]) for picture in pictures}
    return replace(found, name_servers=servers.pop()) if len(servers) == 1 else found


async def _serve(
    chosen: DashboardOptions, cluster: ClusterOptions, find: Callable[[], list[Path]], *, is_json: bool
) -> int:
    from framework.cli.dashboard.serving import Dashboard
    from framework.net.real_world import real_world
    from framework.runtime.signals import draining

    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    with draining(lambda: loop.call_soon_threadsafe(asked.set)):
        opened = await Dashboard(real_world(), chosen, cluster, find).open()
        try:
            if is_json:
                output.say(json.dumps({"event": "ready", "url": opened.url, "token": opened.token}))
            else:
                output.say(f"dashboard: ready at {opened.login}")
                may = "may change things" if chosen.writes else "reads only; --allow-writes lets it change things"
                output.tell(f"dashboard: of {', '.join(cluster.name_servers)}; {may}; Ctrl-C ends it")
            await asked.wait()
        finally:
            await opened.close()
    return ExitCode.CLEAN
