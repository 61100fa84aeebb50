"""Finding the running application that a command is about, and asking it. Imports little: probes use it each 10 s."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from framework.cli.exit_codes import ExitCode
from framework.cli.shown.explained import CommandRefused
from framework.errors import bare
from framework.harmless import escaped
from framework.net.control.asking import Answer, ControlFailed, NobodyListens, Request, ask, ask_all, workers_of
from framework.net.control.places import PATH_BYTES_MAX, is_heard, sockets

SECONDS = 6.0
"""For an answer. A blocked event loop is given three seconds before its application says so, and a parent four."""
ABOUT_SECONDS = 2.0
"""To say who it is, which no event loop is asked for."""
LISTED_MAX = 4
"""An error has six lines at most."""
CONFIG_VARIABLE = "FRAMEWORK_APP_CONFIG"
CONFIG_FILE = "framework-app.yaml"


class Unfound(CommandRefused):
    """Nothing that could be asked; each kind has its code and its page."""

    id = "FA-U006"
    code = ExitCode.FAILED


class NothingRuns(Unfound):
    """No such application, or it listens nowhere."""

    id = "FA-U004"
    code = ExitCode.UNREACHABLE


class SeveralRun(Unfound):
    """More than one, and nobody said which."""

    id = "FA-U005"
    code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class Listed:
    """One application that runs, as it says itself."""

    path: Path
    name: str = ""
    config: str = ""
    process: int = 0
    workers: int = 1


def add_target(parser: argparse.ArgumentParser) -> None:
    """Which application, and in which form the answer is wanted."""
    parser.add_argument("--socket", metavar="PATH", help="its control socket; else the one application that runs here")
    parser.add_argument("-c", "--config", metavar="FILE", help="the application that runs with these settings")
    parser.add_argument("--name", metavar="APP", help="the application of this name (app.name)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def find(arguments: argparse.Namespace) -> Path:
    """Its socket. Raises Unfound, with the way out; ConfigurationError where settings that are asked cannot be read."""
    if arguments.socket:
        return Path(arguments.socket).expanduser()
    paths = [path for path in sockets(os.environ) if is_heard(path)]
    if len(paths) == 1 and not (arguments.config or arguments.name):
        return paths[0]
    all_running = _about(paths)
    running = _matching(arguments, all_running)
    if len(running) == 1:
        return running[0].path
    if running:
        raise SeveralRun(f"{len(running)} applications run; choose one:\n{_listed(running)}")
    return _in_settings(arguments, all_running)


def ask_it(arguments: argparse.Namespace, request: Request) -> list[Answer]:
    """What each of its processes answers. Raises Unfound where the application itself does not."""
    return workers_of(ask_at(find(arguments), request))


def ask_at(path: Path, request: Request) -> Answer:
    if len(os.fsencode(path)) > PATH_BYTES_MAX + 7:
        raise NothingRuns(f"--socket {path}: a Unix socket's path is shorter than that")
    try:
        return ask(path, request, SECONDS)
    except NobodyListens:
        raise NothingRuns(
            f"no application listens at {path}: start it with `framework-app run`, or name another by --socket"
        ) from None
    except ControlFailed as error:
        raise Unfound(f"{path}: {error}") from None


def _about(paths: list[Path]) -> list[Listed]:
    """Who listens, those included who do not say who they are. What a killed process left behind is nobody."""
    found: list[Listed] = []
    for number, answer in ask_all(dict(enumerate(paths)), {"ask": "about"}, ABOUT_SECONDS).items():
        path = paths[number]
        if isinstance(answer, NobodyListens):
            continue
        if isinstance(answer, ControlFailed):
            found.append(Listed(path, path.name.rpartition("-")[0]))
            continue
        workers = workers_of(answer)
        facts = {**(workers[0] if workers else {}), **answer}
        found.append(
            Listed(path, str(facts.get("name")), str(facts.get("config")), facts.get("process") or 0, len(workers))
        )
    return found


def _matching(arguments: argparse.Namespace, running: list[Listed]) -> list[Listed]:
    if arguments.name:
        running = [each for each in running if each.name == arguments.name]
    if arguments.config:
        wanted = str(Path(arguments.config).expanduser().absolute())
        return [each for each in running if each.config == wanted]
    if len(running) > 1 and not arguments.name:
        here = str(Path(os.environ.get(CONFIG_VARIABLE) or CONFIG_FILE).absolute())
        return [each for each in running if each.config == here] or running
    return running


def _in_settings(arguments: argparse.Namespace, running: list[Listed]) -> Path:
    """Where the settings have it listen: only where they name a path, which is beside no other."""
    file = arguments.config or os.environ.get(CONFIG_VARIABLE) or (CONFIG_FILE if Path(CONFIG_FILE).exists() else "")
    who = f"of name {bare(arguments.name)} " if arguments.name else f"of {file} " if file else ""
    if file:
        from framework.settings.sources import load

        settings = load(file)
        control = settings.app.control
        if not control:
            raise NothingRuns(
                f'{file}: app.control is "", so that its application cannot be asked; remove it, and restart'
            )
        if control != "auto" and arguments.name in {None, settings.app.name}:
            return Path(control).expanduser()
    there = "; these run: " + ", ".join(bare(each.name) for each in running[:LISTED_MAX]) if running else ""
    raise NothingRuns(
        f"no application {who}runs here as this user; start one with `framework-app run`, or name its control socket "
        f"(app.control) by --socket{there}"
    )


def _listed(running: list[Listed]) -> str:
    lines = [escaped(f"  --socket {each.path}    {_described(each)}") for each in running[:LISTED_MAX]]
    more = len(running) - len(lines)
    return "\n".join([*lines, f"  and {more} more; all: ls {running[0].path.parent}"] if more else lines)


def _described(each: Listed) -> str:
    return f"{each.name}, process {each.process or 'unknown'}, {each.config or 'no settings file'}"
