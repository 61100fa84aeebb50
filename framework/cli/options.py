"""Options that several commands share, and what they mean for settings and for child processes.

Owns the path from a command line to AppSettings and consumers. Runs nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from framework.errors import ConfigurationError, ConfigurationMistakes, Findings, nearest
from framework.mistakes import GroupUnknown

if TYPE_CHECKING:
    from framework.declare import Consumer
    from framework.hooks.host import PluginHost
    from framework.settings.fields import Level
    from framework.settings.schema import AppSettings

T = TypeVar("T")

DEFAULT_IDLE = "2s"
FROM_PARENT = "-"
"""As `--name-server` of a child: its parent writes it to stdin, once the built-in broker listens."""


def add_application(parser: argparse.ArgumentParser) -> None:
    """What names an application: APP and its settings."""
    parser.add_argument("app", metavar="APP", nargs="?", help="a .py file, a module or package, or module:name")
    add_settings(parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Where settings come from."""
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="settings; else $FRAMEWORK_APP_CONFIG, ./framework-app.yaml"
    )
    parser.add_argument(
        "--overlay", metavar="FILE", action="append", default=[], help="settings that override those; repeatable"
    )
    parser.add_argument(
        "--set", metavar="a.b=c", action="append", default=[], dest="sets", help="one setting; repeatable"
    )
    parser.add_argument("--name-server", metavar="H:P,...", help="instead of cluster.name_servers")


def add_running(parser: argparse.ArgumentParser) -> None:
    """How an application is run."""
    parser.add_argument(
        "--workers", metavar="N", type=number(1, 256), default=1, help="number of processes; they share the queues"
    )
    parser.add_argument("--only", metavar="GROUP", action="append", default=[], help="only this group; repeatable")
    parser.add_argument(
        "--until-idle",
        metavar="2s",
        nargs="?",
        const=DEFAULT_IDLE,
        type=duration,
        help="exit after this long without work (default 2s)",
    )
    parser.add_argument("--for", metavar="30s", type=duration, dest="length", help="exit after this long")
    parser.add_argument("--wait-broker", metavar="30s", type=duration, help="exit with 69 if no broker answers in time")


def duration(text: str) -> str:
    """The text itself, once it is seen to be a duration."""
    from framework.settings.units import duration_ms

    reads(duration_ms)(text)
    return text


def length(text: str) -> str:
    """The same of a time that is not 0."""
    from framework.model.durations import to_ms

    if not to_ms(duration(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 10m, or leave it out")
    return text


def reads(read: Callable[[str], T]) -> Callable[[str], T]:
    """The same for argparse, which shows the words of no other error."""

    def reading(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return reading


def number(least: int, most: int) -> Callable[[str], int]:
    """What reads a whole number of this range, and says the range when it cannot."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What a command line describes, before anything runs."""

    settings: AppSettings
    file: Path | None


def loaded(arguments: argparse.Namespace) -> AppOptions:
    """Settings from file, overlays, environment and options. Raises ConfigurationMistakes."""
    findings = Findings()
    application = gathered(arguments, findings)
    if findings:
        raise ConfigurationMistakes(findings.mistakes)
    return application


def loaded_or_usual(arguments: argparse.Namespace) -> AppOptions:
    """As `loaded`, for a parent process: the defaults where something is wrong, which its children say."""
    from framework.settings.schema import AppSettings

    try:
        return loaded(arguments)
    except ConfigurationError:
        return AppOptions(AppSettings(), None)


def gathered(arguments: argparse.Namespace, findings: Findings) -> AppOptions:
    """As `loaded`, with what is wrong noted and left out."""
    from framework.settings.sources import Override, gather, override

    file = findings.tried(lambda: settings_file(arguments))
    overrides = [each for text in arguments.sets if (each := findings.tried(partial(override, text))) is not None]
    if arguments.name_server:
        overrides.append(Override(("cluster", "name_servers"), arguments.name_server, "--name-server"))
    if getattr(arguments, "wait_broker", None):
        overrides.append(Override(("cluster", "wait_broker"), arguments.wait_broker, "--wait-broker"))
    if arguments.debug:
        overrides.append(Override(("logging", "level"), "debug", "--debug"))
    application = AppOptions(gather(file, findings, overlays=arguments.overlay, overrides=overrides), file)
    arguments.hidden = application.settings.hidden  # for what is said of mistakes that are found later
    return application


def stop_limits(arguments: argparse.Namespace) -> Callable[[], tuple[int, int]]:
    """What asks the settings, as they are then, for the drain, and for all that a stop may take; in milliseconds."""

    def asked() -> tuple[int, int]:
        from framework.core.limits import stop_ms

        settings = loaded_or_usual(arguments).settings
        return settings.app.drain, stop_ms(settings.app.drain, settings.cluster.request_timeout)

    return asked


def files(arguments: argparse.Namespace) -> list[Path]:
    """Every file that `loaded` reads, but for one that settings name."""
    file = settings_file(arguments)
    return ([file] if file is not None else []) + [Path(each) for each in arguments.overlay]


def set_up_logs(arguments: argparse.Namespace) -> None:
    """Logging of a parent process, as the settings say."""
    from framework.runtime.logs import setup

    setup.configure(loaded_or_usual(arguments).settings)


def log_troubles(settings: AppSettings, *, is_debug: bool, level: Level = "warning") -> None:
    """Logging of a command whose result is on stdout: what went well is no news."""
    from framework.runtime.logs import setup
    from framework.settings.schema import LoggingSettings

    logging = LoggingSettings(level="debug" if is_debug else level)
    setup.configure(settings.model_copy(update={"logging": logging}))


def settings_file(arguments: argparse.Namespace) -> Path | None:
    """Where the settings are; beside a package given as APP when nobody names another place."""
    from framework.runtime.plans.collect import target
    from framework.settings.sources import find

    app = getattr(arguments, "app", None)
    folder = target(app).folder if app else None
    return find(arguments.config, os.environ, folder)


def plugins_of(settings: AppSettings, *, is_debug: bool) -> PluginHost:
    """The plugins that the settings name, for commands that start nothing; what is wrong with one is noted there."""
    from framework.hooks.host import PluginHost
    from framework.runtime.plans.collect import importable

    log_troubles(settings, is_debug=is_debug)
    importable(Path.cwd())  # plugins of the application lie beside its settings
    host = PluginHost(settings.plugins, settings, tolerant=True)
    log_troubles(settings, is_debug=is_debug)  # by now the plugins have said which of their settings are secret
    return host


def chosen(arguments: argparse.Namespace, settings: AppSettings) -> tuple[list[Consumer[..., Any]], frozenset[str]]:
    """The application's consumers, those of `--only` where it was given, and the groups that are left out by it."""
    from framework.runtime.plans.collect import collect

    consumers = collect(settings, arguments.app)
    groups = {consumer.spec.group for consumer in consumers}
    for group in arguments.only:
        if group not in groups:
            raise GroupUnknown(f"--only {group}: no consumer is in this group{nearest(group, groups)}")
    wanted = groups.intersection(arguments.only) if arguments.only else groups
    return [each for each in consumers if each.spec.group in wanted], frozenset(groups - wanted)


def for_child(
    arguments: argparse.Namespace, *, is_json: bool, name_server: str | None = None, sets: Sequence[str] = ()
) -> list[str]:
    """The options of a child process that runs the same application, under a parent that watches and counts.

    `name_server` and `sets` come on top of what the user said.
    """
    options = ["--child"]
    options += [arguments.app] if arguments.app else []
    options += ["--config", arguments.config] if arguments.config else []
    options += [f"--control={arguments.control}"] if arguments.control is not None else []
    for name, values in (
        ("--overlay", arguments.overlay),
        ("--set", [*arguments.sets, *sets]),
        ("--only", arguments.only),
    ):
        for value in values:
            options += [name, value]
    chosen_server = name_server or arguments.name_server
    for name, value in (("--name-server", chosen_server), ("--wait-broker", arguments.wait_broker)):
        options += [name, value] if value else []
    # One word: without the sign a value that is left out would take the next word for it.
    options += [f"--until-idle={arguments.until_idle}"] if arguments.until_idle else []
    options += ["--json"] if is_json else []
    options += ["--plain-errors"] if is_json and not arguments.json else []
    options += ["--debug"] if arguments.debug else []
    return options
