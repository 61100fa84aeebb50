"""List all errors in settings, handlers and plugins at once; connects to nothing.

A part that is wrong is left out and the rest is still checked, so that no error hides another.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from framework.cli import options, output
from framework.cli.exit_codes import ExitCode
from framework.cli.shown import explained
from framework.errors import Findings

if TYPE_CHECKING:
    from framework.settings.schema import AppSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per error or warning, on stdout")


def execute(arguments: argparse.Namespace) -> int:
    from framework.settings.schema import AppSettings

    options.log_troubles(AppSettings(), is_debug=arguments.debug)
    findings = Findings()
    settings, consumers, plugins = look(arguments, findings)
    mistakes = [settings.hidden.masked(each) for each in findings.mistakes]
    if arguments.json:
        for mistake in mistakes:
            output.say(explained.as_json_line(mistake))
        for warning in settings.warnings:
            output.say(output.as_json({"warning": warning, "id": explained.SETTING_UNSAFE, "place": None}))
        return ExitCode.CONFIGURATION if findings else ExitCode.CLEAN
    for mistake in mistakes:
        output.say(explained.with_id(mistake))
    if findings:
        sys.stderr.write(explained.hint(findings.mistakes))
        output.say(f"check: {len(findings)} mistake{'s' if len(findings) > 1 else ''}")
        return ExitCode.CONFIGURATION
    for warning in settings.warnings:
        output.say(f"warning: {warning} [{explained.SETTING_UNSAFE}]")
    several = "" if consumers == 1 else "s"
    output.say(f"check: ok, {consumers} consumer{several}, {plugins} plugins")
    return ExitCode.CLEAN


def look(arguments: argparse.Namespace, findings: Findings) -> tuple[AppSettings, int, int]:
    """Note all that is wrong; the settings, and how many consumers and plugins there are."""
    from framework.hooks.host import PluginHost
    from framework.net.real_world import real_world
    from framework.runtime.engine_groups import EngineGroups, strange_groups
    from framework.runtime.plans.collect import gather
    from framework.runtime.plans.groups import look

    settings = options.gathered(arguments, findings).settings
    before = len(findings)
    consumers = gather(settings, arguments.app, findings)
    is_complete = len(findings) == before  # else the handler may be there that settings name
    host = PluginHost(settings.plugins, settings, tolerant=True)
    if is_complete:
        findings.note(*strange_groups(settings, consumers, host))
    look(settings, consumers, host, findings)
    findings.tried(lambda: EngineGroups(real_world().workers).find(settings, consumers, host))
    return settings, len(consumers), len(host.plugins)
