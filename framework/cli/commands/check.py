"""List all errors in settings, handlers and plugins at once; connects to nothing.

A part that is wrong is left out and the rest is still checked, so that no error hides another.
"""

from __future__ import annotations

import argparse

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.errors import Findings


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)


def execute(arguments: argparse.Namespace) -> int:
    from framework.hooks.host import PluginHost
    from framework.net.real_world import real_world
    from framework.runtime.build.collect import gather
    from framework.runtime.build.connect import check_keys, check_tls
    from framework.runtime.build.plans import group_plans
    from framework.runtime.engine_groups import EngineGroups
    from framework.runtime.logs import setup
    from framework.runtime.reports import Reports
    from framework.settings.schema import AppSettings, LoggingSettings

    # Errors are the result here; that a plugin was loaded is not.
    setup.configure(AppSettings(logging=LoggingSettings(level="debug" if arguments.debug else "warning")))
    findings, world = Findings(), real_world()
    settings = options.gathered(arguments, findings).settings
    findings.tried(lambda: check_keys(settings))
    findings.tried(lambda: check_tls(settings))
    consumers = gather(settings, arguments.app, findings)
    host = PluginHost(settings.plugins, settings, tolerant=True)
    findings.note(*host.mistakes)
    findings.tried(lambda: group_plans(settings, consumers, host, Reports(None, world.workers), world))
    findings.tried(lambda: EngineGroups(world.workers).find(settings, consumers, host))
    for mistake in findings.mistakes:
        output.say(str(settings.hidden.masked(mistake)))
    if findings:
        output.say(f"check: {len(findings)} mistake{'s' if len(findings) > 1 else ''}")
        return ExitCode.CONFIGURATION
    for warning in settings.warnings:
        output.say(f"warning: {warning}")
    output.say(f"check: ok, {len(consumers)} consumers, {len(host.plugins)} plugins")
    return ExitCode.CLEAN
