"""Say everything that is wrong with settings, handlers and plugins, at once; connects to nothing."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeVar

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.errors import ConfigurationError, ConfigurationMistakes

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.hooks.host import PluginHost
    from framework.runtime import logs
    from framework.runtime.collect import collect
    from framework.settings.schema import AppSettings, Logging

    # Mistakes are the result here; that a plugin was loaded is not.
    logs.configure(AppSettings(logging=Logging(level="debug" if arguments.debug else "warning")))
    mistakes: list[ConfigurationError] = []
    application = _tried(lambda: options.loaded(arguments), mistakes)
    # With settings that are no good, handlers are still checked as far as APP names them.
    settings = application.settings if application is not None else AppSettings()
    consumers = None
    if application is not None or arguments.app:
        consumers = _tried(lambda: collect(settings, arguments.app), mistakes)
    host = _tried(lambda: PluginHost(settings.plugins, settings), mistakes)
    if consumers is not None and host is not None:
        from framework.net.real_world import real_world
        from framework.runtime import build
        from framework.runtime.reports import Reports

        world = real_world()
        reports = Reports(None, world.workers)
        _tried(lambda: build.plans(settings, consumers, host, reports, world), mistakes)
    for mistake in mistakes:
        output.say(str(mistake))
    if mistakes:
        output.say(f"check: {len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}")
        return ExitCode.CONFIGURATION
    for warning in settings.warnings:
        output.say(f"warning: {warning}")
    assert consumers is not None
    assert host is not None
    output.say(f"check: ok, {len(consumers)} consumers, {len(host.plugins)} plugins")
    return ExitCode.CLEAN


def _tried(work: Callable[[], T], mistakes: list[ConfigurationError]) -> T | None:
    try:
        return work()
    except ConfigurationMistakes as several:
        mistakes += several.mistakes
    except ConfigurationError as one:
        mistakes.append(one)
    return None
